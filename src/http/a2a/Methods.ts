/** The methods of both versions. */
import { Effect, Predicate, Schema, type Scope } from "effect"
import { Base64Url } from "effect/encoding"
import type { HttpServerResponse } from "effect/http"
import type { RawJson } from "../../domain/json/RawJson.ts"
import type { TaskStatus } from "../../domain/Task.ts"
import { parse } from "../../domain/Timestamp.ts"
import { Contexts, Position } from "../../services/a2a/Contexts.ts"
import { Changes } from "../../services/signals/Changes.ts"
import { Tasks } from "../../services/tasks/Tasks.ts"
import { makeClient } from "../../services/tasks/Turns.ts"
import { json } from "../facades/JsonRpc.ts"
import * as Answers from "./Answers.ts"
import { type Call, resultOf, wantedBy } from "./Answers.ts"
import { type Failure, invalidParams, refused } from "./Errors.ts"
import * as Params from "./Params.ts"
import * as Send from "./Send.ts"
import * as Views from "./Views.ts"

type Response = HttpServerResponse.HttpServerResponse

/** Makes the response, after the request's body was released. */
type Rest = Effect.Effect<Response, Failure, Scope.Scope>
export type Method = (call: Call, params: RawJson | undefined) => Effect.Effect<Rest, Failure, Scope.Scope>

const tasksPerPage = 50

/** Clients of 1.0 send these when no status is given. */
const anyStatus = new Set([undefined, null, "", "UNRECOGNIZED", "TASK_STATE_UNSPECIFIED"])
/** No task ever has them. */
const otherStatuses = new Set(["TASK_STATE_REJECTED", "TASK_STATE_AUTH_REQUIRED"])

const tokenOf = ({ changedAt, uuid }: Position) => Base64Url.encode(`${changedAt} ${uuid}`)

const positionOf = Effect.fnUntraced(function*(token: string) {
  const [changedAt, uuid] = Buffer.from(token, "base64url").toString().split(" ")
  return yield* Effect.mapError(
    Schema.decodeUnknownEffect(Position)({ changedAt: Number(changedAt), uuid }),
    () => invalidParams("pageToken", "Expected the nextPageToken of an earlier page")
  )
})

const makeList = Effect.gen(function*() {
  const tasks = yield* Tasks
  const contexts = yield* Contexts
  const viewOf = yield* Views.make

  const statusOf = Effect.fnUntraced(function*({ dialect }: Call, state: string | null | undefined) {
    if (anyStatus.has(state)) return null
    const status = dialect.statusOfState(String(state))
    if (status === undefined && !otherStatuses.has(String(state))) {
      return yield* invalidParams("status", "Expected the state of a task")
    }
    return status
  })

  const filterOf = Effect.fnUntraced(function*(call: Call, given: RawJson | undefined) {
    const params = yield* Params.decode(Params.list, given)
    const since = params.statusTimestampAfter || undefined
    const changedAfter = since === undefined ? null : parse(since)
    if (changedAfter === undefined) return yield* invalidParams("statusTimestampAfter", "Expected a time in ISO 8601")
    const status: TaskStatus | null | undefined = yield* statusOf(call, params.status)
    const after = params.pageToken ? yield* positionOf(params.pageToken) : null
    const limit = params.pageSize ?? tasksPerPage
    const { sub } = call.caller.principal
    return { ...params, sub, contextId: params.contextId || null, status, changedAfter, after, limit }
  })

  const list: Method = Effect.fnUntraced(function*(call, params) {
    const { historyLength, includeArtifacts, status, ...filter } = yield* filterOf(call, params)
    const { page, total } = status === undefined
      ? { page: [], total: 0 }
      : yield* contexts.list({ ...filter, status, limit: filter.limit + 1 })
    const shown = page.slice(0, filter.limit)
    const wanted = { ...wantedBy(call, historyLength ?? 0), hasArtifacts: includeArtifacts === true }
    // The texts of a page together are not longer than one event may be.
    const maxText = Math.floor(4 * Views.maxText / Math.max(shown.length, 1))
    const { principal } = call.caller
    const views = yield* Effect.forEach(shown, (listed) =>
      tasks.getOutline(principal, listed.uuid).pipe(
        Effect.flatMap((task) =>
          Effect.scoped(viewOf(makeClient(), call.caller, task, { ...wanted, maxText }, listed))
        ),
        // Deleted meanwhile.
        Effect.catchTag("TaskNotFound", () => Effect.undefined)
      ), { concurrency: 4 })
    const last = page.length > filter.limit ? shown.at(-1) : undefined
    return Effect.succeed(json(resultOf(call, {
      tasks: views.flatMap((view) => view === undefined ? [] : [call.dialect.task(view)]),
      nextPageToken: last === undefined ? "" : tokenOf(last),
      pageSize: filter.limit,
      totalSize: total
    })))
  })
  return list
})

const noPush = refused(
  "PUSH_NOTIFICATION_NOT_SUPPORTED",
  "Push notifications are not supported. Subscribe to the task."
)

const noCard = "There is no other card for users with a token."

const makeSending = Effect.fnUntraced(function*(answers: Answers.Answers) {
  const changes = yield* Changes
  const send = yield* Send.make

  const deliver = Effect.fnUntraced(
    function*(call: Call, given: RawJson | undefined, waits: (configuration: Params.Send["configuration"]) => boolean) {
      const params = yield* Params.decode(Params.send, given)
      const { configuration, message } = params
      const push = configuration?.taskPushNotificationConfig ?? configuration?.pushNotificationConfig
      if (Predicate.isNotNullish(push)) return yield* noPush
      // Before the message has an effect.
      if (waits(configuration)) yield* changes.checkLimit(call.caller.principal.sub)
      const runsTools = call.asked.has(Params.clientTools) || message.extensions?.includes(Params.clientTools) === true
      const hasRevision = message.extensions?.includes(Params.revision) === true
      const uuid = yield* send({ caller: call.caller, model: call.model, params, runsTools })
      const asked = hasRevision ? new Set([...call.asked, Params.revision]) : call.asked
      return { call: { ...call, asked }, uuid, configuration }
    }
  )

  const sendMessage: Method = Effect.fnUntraced(function*(given, params) {
    const isHeld = (configuration: Params.Send["configuration"]) =>
      given.isLegacy ? configuration?.blocking !== false : configuration?.returnImmediately !== true
    const { call, configuration, uuid } = yield* deliver(given, params, isHeld)
    const wanted = wantedBy(call, configuration?.historyLength)
    return isHeld(configuration) ? answers.hold(call, uuid, wanted) : answers.show(call, uuid, wanted, false)
  })

  const streamMessage: Method = Effect.fnUntraced(function*(given, params) {
    const { call, configuration, uuid } = yield* deliver(given, params, () => true)
    return answers.stream(call, uuid, configuration?.historyLength, false)
  })

  return { sendMessage, streamMessage }
})

export const make = Effect.gen(function*() {
  const tasks = yield* Tasks
  const answers = yield* Answers.make
  const { sendMessage, streamMessage } = yield* makeSending(answers)

  const get: Method = Effect.fnUntraced(function*(call, params) {
    const { historyLength, id } = yield* Params.decode(Params.task, params)
    return answers.show(call, id, wantedBy(call, historyLength), true)
  })

  const subscribe: Method = Effect.fnUntraced(function*(call, params) {
    const { historyLength, id } = yield* Params.decode(Params.task, params)
    return answers.stream(call, id, historyLength, true)
  })

  const cancel: Method = Effect.fnUntraced(function*(call, params) {
    const { id } = yield* Params.decode(Params.task, params)
    const head = yield* tasks.getHead(call.caller.principal, id)
    yield* tasks.withdraw(head, null).pipe(
      Effect.catchIf((failure) => failure._tag === "TaskHasEnded" && failure.status === "canceled", () => Effect.void)
    )
    return answers.show(call, id, wantedBy(call, undefined), true)
  })

  const refuse = (refusal: Failure): Method => () => Effect.fail(refusal)

  const v1: ReadonlyMap<string, Method> = new Map([
    ["SendMessage", sendMessage],
    ["SendStreamingMessage", streamMessage],
    ["GetTask", get],
    ["ListTasks", yield* makeList],
    ["CancelTask", cancel],
    ["SubscribeToTask", subscribe],
    ...["Create", "Get", "Delete"].map((verb) => [`${verb}TaskPushNotificationConfig`, refuse(noPush)] as const),
    ["ListTaskPushNotificationConfigs", refuse(noPush)],
    ["GetExtendedAgentCard", refuse(refused("UNSUPPORTED_OPERATION", noCard))]
  ])
  const v03: ReadonlyMap<string, Method> = new Map([
    ["message/send", sendMessage],
    ["message/stream", streamMessage],
    ["tasks/get", get],
    ["tasks/cancel", cancel],
    ["tasks/resubscribe", subscribe],
    ...["set", "get", "list", "delete"].map((verb) =>
      [`tasks/pushNotificationConfig/${verb}`, refuse(noPush)] as const
    ),
    ["agent/getAuthenticatedExtendedCard", refuse(refused("EXTENDED_AGENT_CARD_NOT_CONFIGURED", noCard))]
  ])
  return { v1, v03 }
})
