/** Handlers of the group `operator`. Every change has a line in the audit, and in the log. */
import { Duration, Effect, identity, Option } from "effect"
import { type HttpServerRequest, HttpServerResponse } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import { encode, join } from "../../domain/json/OpaqueJson.ts"
import type { StoreUnavailable } from "../../domain/StoreUnavailable.ts"
import { isTaskId, type TaskId } from "../../domain/Task.ts"
import { TaskNotFound } from "../../domain/TaskErrors.ts"
import { format, now, plus } from "../../domain/Timestamp.ts"
import { isQueued } from "../../domain/WaitingOn.ts"
import { CoreClient } from "../../services/core/CoreClient.ts"
import { TaskLinks } from "../../services/Extensions.ts"
import { AssistantBackend } from "../../services/files/AssistantBackend.ts"
import { ClusterNodes, type Wanted } from "../../services/operations/ClusterNodes.ts"
import { Operators, type Redelivered } from "../../services/operator/Operators.ts"
import { OperatorSessions } from "../../services/operator/OperatorSessions.ts"
import { measuredTasks, OperatorStore, type Page, pageOf } from "../../services/operator/OperatorStore.ts"
import * as Overview from "../../services/operator/Overview.ts"
import { Settings } from "../../services/settings/Settings.ts"
import { RunQueue } from "../../services/store/queue/RunQueue.ts"
import { Tasks } from "../../services/tasks/Tasks.ts"
import { TokenVerifier } from "../../services/tokens/TokenVerifier.ts"
import { Conflict, Forbidden, NotFound } from "../contract/Errors.ts"
import * as Bodies from "../handlers/body/Bodies.ts"
import { BodyReader } from "../handlers/body/BodyReader.ts"
import { kind } from "../handlers/body/JsonBody.ts"
import { as, refusing } from "../handlers/ErrorResponses.ts"
import { revocationOf } from "../handlers/Tokens.ts"
import { audited, CurrentOperator, logged, orUnavailable } from "../OperatorRoutes.ts"
import { cursorOf } from "../Parameters.ts"
import * as Actions from "./Actions.ts"
import { OperatorApi } from "./OperatorApi.ts"
import * as Filter from "./OperatorFilter.ts"
import * as Query from "./OperatorQuery.ts"
import { redeliveries, RedeliverManyBody } from "./OperatorSchemas.ts"
import { ShowsContent } from "./OperatorSettings.ts"
import * as Views from "./OperatorViews.ts"
import * as QueueHandlers from "./QueueHandlers.ts"

const redeliverMany = kind(RedeliverManyBody, { to: identity })

/** Events that a task shows: the newest. */
const listedEvents = 200

const refused = refusing({ TaskNotFound: as(NotFound), TaskHasEnded: as(Conflict) })

const pageView = <Row, View>({ isComplete, next, rows }: Page<Row>, order: string, view: (row: Row) => View) => ({
  data: rows.map(view),
  next: cursorOf(order, next),
  complete: isComplete
})

const viewRedelivered = ({ enqueued, left, matched, needsSecret }: Redelivered) => ({
  matched,
  owed: enqueued,
  needs_secret: needsSecret,
  left
})

const find = <A>(uuid: string, read: (uuid: TaskId) => Effect.Effect<Option.Option<A>, StoreUnavailable>) =>
  isTaskId(uuid)
    ? Effect.flatMap(read(uuid), Option.match({ onNone: () => new TaskNotFound({}), onSome: Effect.succeed }))
    : Effect.fail(new TaskNotFound({}))

const makeTaskReads = Effect.gen(function*() {
  const store = yield* OperatorStore
  const nodes = yield* ClusterNodes
  const queue = yield* RunQueue
  const backend = yield* AssistantBackend
  const showsContent = yield* ShowsContent

  return {
    task: Effect.fnUntraced(function*(uuid: string) {
      const detail = yield* find(uuid, store.task)
      const { revision, uuid: id } = detail.head
      const position = isQueued(detail.head) ? (yield* queue.positions([id])).get(id) : undefined
      const events = yield* store.store.eventsAfter(id, Math.max(-1, revision - listedEvents), listedEvents)
      return Views.taskDetail(detail, events, yield* store.webhooks.ofTask(id), yield* nodes.all, position, backend)
    }, refused),
    content: Effect.fnUntraced(function*(uuid: string) {
      const { role } = yield* CurrentOperator
      if (role !== "full" || !showsContent) {
        return yield* new Forbidden({
          message: "The content is shown only with OPERATOR_CONTENT=on and an internal token."
        })
      }
      const task = yield* find(uuid, store.store.get)
      yield* audited({ action: "content", target: task.uuid, sub: task.sub }, Effect.void)
      yield* logged("an operator read the content of a task", { taskId: task.uuid, sub: task.sub })
      // The turn is JSON already, and may be large.
      const calls = task.pendingToolCalls ?? "[]"
      const content = join([`{"turn":`, task.turn ?? "null", `,"pending_tool_calls":`, calls, "}"])
      return HttpServerResponse.uint8Array(encode(content), { contentType: "application/json" })
    }, refused)
  }
})

const makeReads = Effect.gen(function*() {
  const store = yield* OperatorStore
  const nodes = yield* ClusterNodes
  const operators = yield* Operators
  const core = yield* CoreClient
  const backend = yield* AssistantBackend
  const { stuckAfter } = yield* Settings
  const links = yield* TaskLinks
  const readOverview = yield* Overview.make
  const { known } = yield* OperatorSessions

  return {
    overview: Effect.map(readOverview, (overview) => Views.overview(overview, known)),
    tasks: Effect.gen(function*() {
      const { order, search } = yield* Query.tasks(links)
      return pageView(yield* store.tasks(search), order, (found) => Views.task(found, backend))
    }),
    ...(yield* makeTaskReads),
    errors: Effect.gen(function*() {
      const { failures, groups, isComplete } = yield* operators.errors(yield* Query.rangeOf)
      return {
        window: { failures, complete: isComplete },
        groups: groups.map(Views.errorGroup)
      }
    }),
    durations: Effect.gen(function*() {
      const found = yield* store.durations(yield* Query.rangeOf)
      return {
        data: found.map((row) =>
          Views.durations(row, row.assistantId === null ? null : backend.nameOf(row.assistantId))
        ),
        complete: (found[0]?.examined ?? 0) < measuredTasks
      }
    }),
    stuck: Effect.gen(function*() {
      const { limit, minutes } = yield* Query.stuck
      const unreachable = yield* core.unreachable(Overview.coreMaxAge)
      const at = yield* now
      const quiet = plus(at, Duration.negate(minutes === null ? stuckAfter : Duration.minutes(minutes)))
      // A core that is not there does not end its runs: unless minutes are given, they need not be quiet for long.
      const isSooner = minutes === null && unreachable !== undefined && unreachable.since >= quiet
      const before = isSooner ? unreachable.since : quiet
      const { isComplete, runs, total } = yield* store.stuck(before, limit)
      return {
        data: runs.map((run) => Views.stuckRun(run, at)),
        total,
        before: format(before),
        core_unreachable: Views.unreachable(unreachable),
        complete: isComplete
      }
    }),
    clocks: Effect.gen(function*() {
      const { limit } = yield* Query.clockLimit
      const at = yield* now
      const [tasks, stops] = yield* Effect.all([store.clocks(limit), store.stops(limit)])
      return { tasks: tasks.map((due) => Views.clock(due, at)), stops: stops.map((due) => Views.stop(due, at)) }
    }),
    history: Effect.gen(function*() {
      const { from, periods, step } = yield* Query.history
      return Views.history(yield* store.history.series(from, step, periods), from, step, periods)
    }),
    origins: Effect.gen(function*() {
      const { isComplete, origins } = yield* store.origins(yield* Query.rangeOf)
      return { data: origins.map(Views.origin), complete: isComplete }
    }),
    deliveries: Effect.gen(function*() {
      const { order, search } = yield* Query.deliveries
      return pageView(yield* store.deliveries(search), order, Views.delivery)
    }),
    cluster: Effect.map(nodes.all, Views.cluster),
    revocations: Effect.gen(function*() {
      const { after, limit, order } = yield* Query.revocations
      const found = pageOf(yield* store.revocations(after, limit + 1), limit, undefined)
      return pageView(found, order, Views.revocation)
    })
  }
})

const makeChanges = Effect.gen(function*() {
  const tasks = yield* Tasks
  const store = yield* OperatorStore
  const operators = yield* Operators
  const nodes = yield* ClusterNodes
  const verifier = yield* TokenVerifier
  const { read } = yield* BodyReader

  const redeliver = Effect.fnUntraced(function*(request: HttpServerRequest.HttpServerRequest) {
    const { body: { dry_run: isDry, filter, ids, limit } } = yield* read(redeliverMany, request)
    const auditedRedelivery = <E, R>(target: string, change: Effect.Effect<Redelivered, E, R>) =>
      audited({ action: "redeliver", target }, change).pipe(
        Effect.tap(({ enqueued }) =>
          enqueued > 0 ? logged("an operator redelivered webhooks", { count: enqueued }) : Effect.void
        )
      )
    if (ids) {
      return yield* auditedRedelivery(ids.length === 1 ? ids[0]! : `${ids.length} deliveries`, operators.redeliver(ids))
    }
    const { error, origin, ...moments } = filter ?? {}
    const range = yield* Filter.rangeOf(moments, "filter.")
    const redeliverUpTo = (limit: number) =>
      operators.redeliverFailed({ ...range, origin: origin ?? null, error: error ?? null }, limit)
    return yield* isDry === true
      ? redeliverUpTo(0)
      : auditedRedelivery(origin ?? "all origins", redeliverUpTo(limit ?? redeliveries.matching))
  })

  return {
    cancel: Effect.fnUntraced(function*(uuid: string, request: HttpServerRequest.HttpServerRequest) {
      const task = yield* find(
        uuid,
        (id) => Effect.map(store.store.heads([id]), ([head]) => Option.fromUndefinedOr(head))
      )
      const { body: { reason } } = yield* read(Bodies.cancel, request)
      const { name } = yield* CurrentOperator
      yield* audited(
        { action: "cancel", target: task.uuid, sub: task.sub, reason },
        tasks.withdraw(task, reason, `operator:${name}`)
      )
      yield* logged("an operator canceled a task", { taskId: task.uuid })
      return HttpServerResponse.jsonUnsafe({ uuid: task.uuid, status: "canceled" })
    }, refused),
    redeliver: Effect.fnUntraced(function*(request: HttpServerRequest.HttpServerRequest) {
      return HttpServerResponse.jsonUnsafe(viewRedelivered(yield* redeliver(request)))
    }),
    move: Effect.fnUntraced(function*(instance: string, wanted: Wanted) {
      yield* audited(
        { action: wanted === "drained" ? "drain" : "take_in", target: instance },
        Effect.filterOrFail(
          nodes.request(instance, wanted),
          (isKnown) => isKnown,
          () => new NotFound({ message: "No node that reports has this instance." })
        )
      )
      yield* logged(`an operator wants a node to be ${wanted === "drained" ? "drained" : "taken in"}`, { instance })
      return { instance, wanted }
    }),
    revoke: Effect.fnUntraced(function*(request: HttpServerRequest.HttpServerRequest) {
      const { body } = yield* read(Bodies.revokeTokens, request)
      const revocation = yield* revocationOf(verifier, body)
      yield* audited(
        {
          action: "revoke",
          target: revocation._tag === "Token" ? revocation.tokenId : null,
          sub: revocation._tag === "User" ? revocation.sub : null
        },
        tasks.revoke(revocation)
      )
      yield* logged("an operator revoked tokens", { sub: body.sub ?? null, jti: body.jti ?? null })
      return HttpServerResponse.empty({ status: 204 })
    })
  }
})

export const layer = HttpApiBuilder.group(
  OperatorApi,
  "operator",
  Effect.fn(function*(handlers) {
    const reads = yield* makeReads
    const changes = yield* makeChanges
    const queue = yield* QueueHandlers.make
    const actions = yield* Actions.make
    return handlers
      .handle("overview", () => orUnavailable(reads.overview))
      .handle("tasks", () => orUnavailable(reads.tasks))
      .handle("task", ({ params }) => orUnavailable(reads.task(params.uuid)))
      .handleRaw("content", ({ params }) => orUnavailable(reads.content(params.uuid)))
      .handleRaw("cancel", ({ params, request }) => orUnavailable(changes.cancel(params.uuid, request)))
      .handle("errors", () => orUnavailable(reads.errors))
      .handle("durations", () => orUnavailable(reads.durations))
      .handle("stuck", () => orUnavailable(reads.stuck))
      .handle("clocks", () => orUnavailable(reads.clocks))
      .handle("history", () => orUnavailable(reads.history))
      .handle("origins", () => orUnavailable(reads.origins))
      .handle("deliveries", () => orUnavailable(reads.deliveries))
      .handleRaw("redeliver", ({ request }) => orUnavailable(changes.redeliver(request)))
      .handle("queue", () => orUnavailable(queue.list))
      .handleRaw("changeAssistant", ({ params, request }) => orUnavailable(queue.change(params.id, request)))
      .handle("cluster", () => orUnavailable(reads.cluster))
      .handle("drain", ({ params }) => orUnavailable(changes.move(params.instance, "drained")))
      .handle("takeIn", ({ params }) => orUnavailable(changes.move(params.instance, "taken_in")))
      .handle("revocations", () => orUnavailable(reads.revocations))
      .handleRaw("revoke", ({ request }) => orUnavailable(changes.revoke(request)))
      .handle("audit", () => orUnavailable(actions.audit))
      .handleRaw("startBulk", ({ request }) => orUnavailable(actions.startBulk(request)))
      .handle("listBulk", () => orUnavailable(actions.listBulk))
      .handle("getBulk", ({ params }) => orUnavailable(actions.getBulk(params.id)))
      .handle("stopBulk", ({ params }) => orUnavailable(actions.stopBulk(params.id)))
      .handle("silences", () => orUnavailable(actions.silences))
      .handleRaw("silence", ({ request }) => orUnavailable(actions.silence(request)))
      .handleRaw("user", ({ params }) => orUnavailable(actions.user(params.sub)))
      .handleRaw("setLimits", ({ params, request }) => orUnavailable(actions.setLimits(params.sub, request)))
      .handleRaw("exportUser", ({ params }) => orUnavailable(actions.exportUser(params.sub)))
      .handleRaw("eraseUser", ({ params, request }) => orUnavailable(actions.eraseUser(params.sub, request)))
  })
)
