/** Handlers of tasks, by REST and by RPC: decode bodies and queries, call use cases, encode JSON. */
import { Effect, Layer, Record, type Scope } from "effect"
import { HttpServerRequest, HttpServerResponse } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import * as OpaqueJson from "../../domain/json/OpaqueJson.ts"
import type { Caller, Principal } from "../../domain/Principal.ts"
import type { ToolResultsMismatch } from "../../domain/TaskErrors.ts"
import * as TaskView from "../../domain/TaskView.ts"
import { TaskLinks } from "../../services/Extensions.ts"
import { type RequestKey, TaskStore } from "../../services/store/tasks/TaskStore.ts"
import type { CreatedTask } from "../../services/tasks/Create.ts"
import { TaskRequests } from "../../services/tasks/TaskRequests.ts"
import * as Services from "../../services/tasks/Tasks.ts"
import { TokenRevocations } from "../../services/tokens/TokenRevocations.ts"
import { TokenVerifier } from "../../services/tokens/TokenVerifier.ts"
import { Api } from "../contract/Api.ts"
import { Conflict, TooManyRequests } from "../contract/Errors.ts"
import { CurrentCaller } from "../contract/Middleware.ts"
import { TasksRpc } from "../contract/rpc/RpcTasks.ts"
import type { TaskPageView } from "../contract/TaskSchemas.ts"
import * as Bodies from "./body/Bodies.ts"
import { validationFailed } from "./body/BodyErrors.ts"
import { type BodyError, BodyReader } from "./body/BodyReader.ts"
import { type BodyKind, bytesOf } from "./body/JsonBody.ts"
import * as Deliveries from "./Deliveries.ts"
import { failWith, refusedCreates, storeErrors, taskErrors } from "./ErrorResponses.ts"
import * as Group from "./Group.ts"
import * as IdempotencyKey from "./IdempotencyKey.ts"
import { decodeListQuery, type ListQuery, selected } from "./Query.ts"
import * as RpcRequests from "./rpc/RpcRequests.ts"
import * as TaskEvents from "./TaskEvents.ts"
import * as TaskReading from "./TaskReading.ts"

const { asInvalidRequest, decode, refuseOutage } = RpcRequests

const mismatch = ({ problems }: ToolResultsMismatch) =>
  validationFailed(
    Object.fromEntries(
      problems.map(({ index, message }) => [index === null ? "results" : `results.${index}.tool_call_id`, [message]])
    ),
    "tool_results_mismatch"
  )

const changeErrors = {
  ...taskErrors,
  IdempotencyKeyReused: () => Effect.fail(IdempotencyKey.reused),
  TaskNotInterrupted: failWith(Conflict)
}

const creationErrors = {
  ...storeErrors,
  ...refusedCreates,
  TooManyActiveTasks: failWith(TooManyRequests),
  IdempotencyKeyReused: changeErrors.IdempotencyKeyReused
}

const created = ({ isReplay, maxExecutionTime, uuid }: CreatedTask) => ({
  isReplay,
  view: { uuid, status: "pending" as const, max_execution_time: maxExecutionTime }
})

/** Returns a function that reads a page of a user's tasks. */
const makeList = Effect.gen(function*() {
  const store = yield* TaskStore
  const waitingOf = yield* TaskReading.makeWaiting
  return Effect.fnUntraced(function*(sub: string, { included, selections, text, ...wanted }: ListQuery) {
    const linked = yield* selected(sub, selections)
    const matching = text === null ? null : yield* store.search(sub, { ...wanted, text })
    const uuids = linked === null ? matching : linked.filter((uuid) => matching?.includes(uuid) ?? true)
    const found = yield* store.list({ sub, ...wanted, uuids })
    const listed = found.tasks.map(({ uuid }) => uuid)
    const metadata = included.has("metadata") ? yield* store.metadata(sub, listed) : undefined
    const excerpts = included.has("excerpt") ? yield* store.excerpts(sub, listed) : undefined
    const assistants = included.has("assistant") ? yield* store.assistants(sub, listed) : undefined
    const waiting = included.has("waiting_on") ? yield* waitingOf(yield* store.heads(listed)) : undefined
    return OpaqueJson.fromValue(TaskView.paginate(found.tasks, found.total, wanted, (uuid) => ({
      ...(metadata === undefined ? {} : TaskView.describeMetadata(metadata.get(uuid))),
      ...(excerpts === undefined ? {} : { excerpt: excerpts.get(uuid) ?? null }),
      ...(assistants === undefined ? {} : { assistant_id: assistants.get(uuid) ?? null }),
      ...(waiting === undefined ? {} : waiting.get(uuid) ?? { waiting_on: null })
    })))
  })
})

/** How an operation learns who asks for it, of which task and with which body: by REST or by RPC. */
interface Call<E, R> {
  readonly principal: Effect.Effect<Principal, E, R>
  /** The same with the token that the core receives. */
  readonly caller: Effect.Effect<Caller, E, R>
  readonly uuid: string
  /** Whether an internal caller makes it on behalf of the user. */
  readonly isInternal: boolean
  /** Who cancels, if not the user. */
  readonly actor?: string
  /** Reads the body, and the idempotency key if there is one. */
  readonly receive: <A>(
    kind: BodyKind<A>
  ) => Effect.Effect<{ readonly body: A; readonly key: RequestKey | undefined }, E, R>
}

/** The operations that change tasks. 403 and 404 have precedence over what is wrong with a body. */
const makeOperations = Effect.gen(function*() {
  const tasks = yield* Services.Tasks
  const requests = yield* TaskRequests
  return {
    create: Effect.fnUntraced(function*<E, R>({ caller, isInternal, receive }: Call<E, R>) {
      const by = yield* caller
      const { body, key } = yield* receive(isInternal ? Bodies.internalCreateTask : Bodies.createTask)
      return created(yield* tasks.create(by, body, key))
    }),
    rerun: Effect.fnUntraced(function*<E, R>({ caller, isInternal, receive, uuid }: Call<E, R>) {
      const by = yield* caller
      const task = yield* tasks.getHead(by.principal, uuid)
      const { body, key } = yield* receive(isInternal ? Bodies.internalRerunTask : Bodies.rerunTask)
      return created(yield* requests.rerun(by, task, body, key))
    }),
    submitToolResults: Effect.fnUntraced(function*<E, R>({ caller, receive, uuid }: Call<E, R>) {
      const by = yield* caller
      // The turn may be large, and a body may take minutes to arrive: the task is read after it.
      yield* tasks.getHead(by.principal, uuid)
      const { body, key } = yield* receive(Bodies.toolResults)
      const task = yield* tasks.getOutline(by.principal, uuid)
      const { isReplay } = yield* tasks.submitToolResults(by, task, body, key)
      return { isReplay, view: { uuid: task.uuid, status: "processing" as const } }
    }),
    cancel: Effect.fnUntraced(function*<E, R>({ actor, principal, receive, uuid }: Call<E, R>) {
      const task = yield* tasks.getHead(yield* principal, uuid)
      const { body, key } = yield* receive(Bodies.cancel)
      const { isReplay } = yield* tasks.cancel(task, body.reason, key, actor)
      return { isReplay, view: { uuid: task.uuid, status: "canceled" as const } }
    }),
    stop: Effect.fnUntraced(function*<E, R>({ actor, principal, receive, uuid }: Call<E, R>) {
      const task = yield* tasks.getHead(yield* principal, uuid)
      const { body, key } = yield* receive(Bodies.cancel)
      const { isReplay } = yield* tasks.stop(task, body.reason, key, actor)
      return { isReplay, view: { uuid: task.uuid, status: "canceled" as const } }
    }),
    delete: Effect.fnUntraced(function*<E, R>({ principal, uuid }: Pick<Call<E, R>, "principal" | "uuid">) {
      yield* tasks.delete(yield* tasks.getHead(yield* principal, uuid))
    }),
    cancelInterrupted: Effect.fnUntraced(function*(principal: Principal, actor?: string) {
      const uuids = yield* tasks.cancelInterrupted(principal, actor)
      return { canceled: uuids.length, uuids }
    })
  }
})

interface Done {
  readonly isReplay: boolean
  readonly view: { readonly uuid: string }
}

const ok = ({ isReplay, view }: Done) => IdempotencyKey.markReplay(isReplay)(HttpServerResponse.jsonUnsafe(view))

const createdAt = ({ isReplay, view }: Done) =>
  HttpServerResponse.jsonUnsafe(view, { status: 201, headers: { location: `/api/tasks/${view.uuid}` } }).pipe(
    IdempotencyKey.markReplay(isReplay)
  )

const makeRest = Effect.gen(function*() {
  const operations = yield* makeOperations
  const listOf = yield* makeList
  const { read } = yield* BodyReader
  const links = yield* TaskLinks
  const principal = Effect.map(CurrentCaller, ({ principal }) => principal)

  const call = (
    request: HttpServerRequest.HttpServerRequest,
    uuid = ""
  ): Call<BodyError, CurrentCaller | Scope.Scope> => ({
    principal,
    caller: CurrentCaller,
    uuid,
    isInternal: false,
    receive: (kind) => read(kind, request)
  })
  type Given = { readonly params: { readonly uuid: string }; readonly request: HttpServerRequest.HttpServerRequest }
  const callOf = ({ params, request }: Given) => call(request, params.uuid)

  return {
    create: ({ request }: Pick<Given, "request">) =>
      Effect.map(operations.create(call(request)), createdAt).pipe(Effect.catchTags(creationErrors)),
    rerun: (given: Given) =>
      Effect.map(operations.rerun(callOf(given)), createdAt).pipe(
        Effect.catchTags({ ...taskErrors, ...creationErrors, RequestNotKept: failWith(Conflict) })
      ),
    list: Effect.gen(function*() {
      const { sub } = yield* principal
      const wanted = yield* Effect.fromResult(decodeListQuery(yield* HttpServerRequest.ParsedSearchParams, links))
      const page = yield* listOf(sub, wanted)
      return HttpServerResponse.uint8Array(OpaqueJson.encode(page), { contentType: "application/json" })
    }).pipe(Effect.catchTags(storeErrors)),
    submitToolResults: (given: Given) =>
      Effect.map(operations.submitToolResults(callOf(given)), ok).pipe(
        Effect.catchTags({ ...changeErrors, ToolResultsMismatch: (error) => Effect.fail(mismatch(error)) })
      ),
    cancel: (given: Given) => Effect.map(operations.cancel(callOf(given)), ok).pipe(Effect.catchTags(changeErrors)),
    stop: (given: Given) =>
      Effect.map(operations.stop(callOf(given)), ok).pipe(
        Effect.catchTags({
          ...taskErrors,
          IdempotencyKeyReused: changeErrors.IdempotencyKeyReused,
          TaskHasEnded: failWith(Conflict)
        })
      ),
    delete: ({ params: { uuid } }: Pick<Given, "params">) =>
      operations.delete({ principal, uuid }).pipe(
        Effect.catchTags({ ...taskErrors, TaskNotEnded: failWith(Conflict) })
      ),
    cancelInterrupted: () =>
      Effect.flatMap(principal, (user) => operations.cancelInterrupted(user)).pipe(Effect.catchTags(storeErrors))
  }
})

/** Bodies are read by `BodyReader`, which bounds them, and large results are spliced as text: hence the raw handlers. */
export const layer = Group.layer(Effect.gen(function*() {
  const tasks = yield* makeRest
  const read = yield* TaskReading.make
  const readEvents = yield* TaskEvents.make
  const deliveries = yield* Deliveries.make
  return HttpApiBuilder.group(Api, "tasks", (handlers) =>
    handlers
      .handleRaw("create", tasks.create)
      .handleRaw("rerun", tasks.rerun)
      .handleRaw("list", () => tasks.list)
      .handleRaw("get", ({ params, request }) => read(params.uuid, request))
      .handle("delete", tasks.delete)
      .handleRaw("events", ({ params, request }) => readEvents(params.uuid, request))
      .handle("deliveries", ({ params }) => deliveries.list(params.uuid))
      .handleRaw("redeliver", ({ params, request }) => deliveries.redeliver(params, request))
      .handleRaw("submitToolResults", tasks.submitToolResults)
      .handleRaw("cancel", tasks.cancel)
      .handleRaw("stop", tasks.stop)
      .handle("cancelInterrupted", tasks.cancelInterrupted))
}))

const layerList = TasksRpc.toLayerHandler(
  "Tasks.list",
  Effect.gen(function*() {
    const listOf = yield* makeList
    const links = yield* TaskLinks
    return Effect.fnUntraced(function*({ metadata = {}, sub, ...given }) {
      const { sub: owner } = yield* RpcRequests.principal(sub)
      const parameters = { ...RpcRequests.queryOf(given), ...Record.mapKeys(metadata, (key) => `metadata[${key}]`) }
      const query = yield* Effect.mapError(Effect.fromResult(decodeListQuery(parameters, links)), asInvalidRequest)
      return OpaqueJson.toValue<typeof TaskPageView.Type>(yield* refuseOutage(listOf(owner, query)))
    })
  })
)

const TaskChanges = TasksRpc.omit("Tasks.get", "Tasks.list", "Tasks.watch")

interface Payload {
  readonly sub: string
  readonly user_token?: string
  readonly uuid?: string
  readonly body?: unknown
  readonly idempotency_key?: string
}

const layerChanges = TaskChanges.toLayer(
  Effect.gen(function*() {
    const operations = yield* makeOperations
    const tokens = { verifier: yield* TokenVerifier, revocations: yield* TokenRevocations }
    const keyOf = yield* RpcRequests.makeKeyOf

    /** `path` is that of REST's operation, so that a key is the same there and here. */
    const call = (path: string, { body = {}, idempotency_key, uuid = "", ...user }: Payload) => ({
      principal: Effect.succeed(RpcRequests.reader(user.sub)),
      caller: Effect.suspend(() => RpcRequests.caller(tokens, user)),
      uuid,
      isInternal: true,
      receive: <A>(kind: BodyKind<A>) =>
        Effect.all({ body: decode(kind, body), key: keyOf(idempotency_key, path, bytesOf(body)) })
    })
    const one = (operation: string, payload: Payload) => call(`/api/tasks/${payload.uuid}/${operation}`, payload)
    const answer = <A, E, R>(operation: Effect.Effect<{ readonly view: A }, E, R>) =>
      refuseOutage(Effect.map(operation, ({ view }) => view))

    return TaskChanges.of({
      "Tasks.create": ({ task, ...payload }) =>
        answer(operations.create(call("/api/tasks", { ...payload, body: task }))).pipe(
          Effect.catchTags(RpcRequests.refusedCreates)
        ),
      "Tasks.rerun": (payload) =>
        answer(operations.rerun(one("rerun", payload))).pipe(Effect.catchTags(RpcRequests.refusedCreates)),
      "Tasks.submitToolResults": (payload) => answer(operations.submitToolResults(one("tool-results", payload))),
      "Tasks.cancel": (payload, { headers }) =>
        answer(operations.cancel({ ...one("cancel", payload), actor: RpcRequests.actorOf(headers) })),
      "Tasks.withdraw": (payload, { headers }) =>
        answer(operations.stop({ ...one("stop", payload), actor: RpcRequests.actorOf(headers) })).pipe(
          // It has no key.
          Effect.catchTag("IdempotencyKeyReused", Effect.die)
        ),
      "Tasks.delete": (payload) => refuseOutage(operations.delete(one("", payload))),
      "Tasks.cancelInterrupted": ({ sub }, { headers }) =>
        refuseOutage(
          Effect.flatMap(
            RpcRequests.principal(sub),
            (user) => operations.cancelInterrupted(user, RpcRequests.actorOf(headers))
          )
        )
    })
  })
)

export const layerRpc = Layer.mergeAll(layerList, layerChanges, TaskReading.layerRpc, TaskEvents.layerRpc)
