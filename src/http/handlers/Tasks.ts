/** Handlers of tasks, by REST and by RPC: decode bodies and queries, call use cases, encode JSON. */
import { Effect, Layer, Record } from "effect"
import { type Headers, HttpServerRequest, HttpServerResponse } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import * as OpaqueJson from "../../domain/json/OpaqueJson.ts"
import type { Principal } from "../../domain/Principal.ts"
import type { ToolResultsMismatch } from "../../domain/TaskErrors.ts"
import * as TaskView from "../../domain/TaskView.ts"
import { TaskLinks } from "../../services/Extensions.ts"
import { TaskStore } from "../../services/store/tasks/TaskStore.ts"
import type { CreatedTask } from "../../services/tasks/Create.ts"
import { TaskRequests } from "../../services/tasks/TaskRequests.ts"
import * as Services from "../../services/tasks/Tasks.ts"
import { Api } from "../contract/Api.ts"
import { Conflict } from "../contract/Errors.ts"
import { Authorization, CurrentCaller } from "../contract/Middleware.ts"
import { TasksRpc } from "../contract/rpc/RpcTasks.ts"
import type { TaskPageView } from "../contract/TaskSchemas.ts"
import * as Bodies from "./body/Bodies.ts"
import { validationFailed } from "./body/BodyErrors.ts"
import * as Call from "./Call.ts"
import * as Deliveries from "./Deliveries.ts"
import { as, createErrors, refusing, taskErrors } from "./ErrorResponses.ts"
import * as Group from "./Group.ts"
import * as IdempotencyKey from "./IdempotencyKey.ts"
import { decodeListQuery, type ListQuery, selected } from "./Query.ts"
import * as RpcRequests from "./rpc/RpcRequests.ts"
import * as TaskEvents from "./TaskEvents.ts"
import * as TaskReading from "./TaskReading.ts"

const { answer } = RpcRequests

const refused = refusing({
  ...taskErrors,
  ...createErrors,
  TaskNotInterrupted: as(Conflict),
  TaskHasEnded: as(Conflict),
  TaskNotEnded: as(Conflict),
  RequestNotKept: as(Conflict),
  ToolResultsMismatch: ({ problems }: ToolResultsMismatch) =>
    validationFailed(
      Object.fromEntries(
        problems.map(({ index, message }) => [index === null ? "results" : `results.${index}.tool_call_id`, [message]])
      ),
      "tool_results_mismatch"
    )
})

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

/** A call about a task. */
interface TaskCall<E, R> extends Call.Call<E, R> {
  readonly uuid: string
}

/** The operations that change tasks. 403 and 404 have precedence over what is wrong with a body. */
const makeOperations = Effect.gen(function*() {
  const tasks = yield* Services.Tasks
  const requests = yield* TaskRequests
  return {
    create: Effect.fnUntraced(function*<E, R>({ caller, isInternal, receive }: Call.Call<E, R>) {
      const by = yield* caller
      const { body, key } = yield* receive(isInternal ? Bodies.internalCreateTask : Bodies.createTask)
      return created(yield* tasks.create(by, body, key))
    }),
    rerun: Effect.fnUntraced(function*<E, R>({ caller, isInternal, receive, uuid }: TaskCall<E, R>) {
      const by = yield* caller
      const task = yield* tasks.getHead(by.principal, uuid)
      const { body, key } = yield* receive(isInternal ? Bodies.internalRerunTask : Bodies.rerunTask)
      return created(yield* requests.rerun(by, task, body, key))
    }),
    submitToolResults: Effect.fnUntraced(function*<E, R>({ caller, receive, uuid }: TaskCall<E, R>) {
      const by = yield* caller
      // The turn may be large, and a body may take minutes to arrive: the task is read after it.
      yield* tasks.getHead(by.principal, uuid)
      const { body, key } = yield* receive(Bodies.toolResults)
      const task = yield* tasks.getOutline(by.principal, uuid)
      const { isReplay } = yield* tasks.submitToolResults(by, task, body, key)
      return { isReplay, view: { uuid: task.uuid, status: "processing" as const } }
    }),
    cancel: Effect.fnUntraced(function*<E, R>({ author, principal, receive, uuid }: TaskCall<E, R>) {
      const task = yield* tasks.getHead(yield* principal, uuid)
      const { body, key } = yield* receive(Bodies.cancel)
      const { isReplay } = yield* tasks.cancel(task, body.reason, key, author)
      return { isReplay, view: { uuid: task.uuid, status: "canceled" as const } }
    }),
    stop: Effect.fnUntraced(function*<E, R>({ author, principal, receive, uuid }: TaskCall<E, R>) {
      const task = yield* tasks.getHead(yield* principal, uuid)
      const { body, key } = yield* receive(Bodies.cancel)
      const { isReplay } = yield* tasks.stop(task, body.reason, key, author)
      return { isReplay, view: { uuid: task.uuid, status: "canceled" as const } }
    }),
    delete: Effect.fnUntraced(function*<R>({ principal, uuid }: Pick<TaskCall<unknown, R>, "principal" | "uuid">) {
      yield* tasks.delete(yield* tasks.getHead(yield* principal, uuid))
    }),
    cancelInterrupted: Effect.fnUntraced(function*(principal: Principal, author?: string) {
      const uuids = yield* tasks.cancelInterrupted(principal, author)
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
  const call = yield* Call.make
  const links = yield* TaskLinks
  const principal = Effect.map(CurrentCaller, ({ principal }) => principal)

  type Given = { readonly params: { readonly uuid: string }; readonly request: HttpServerRequest.HttpServerRequest }
  const callOf = ({ params, request }: Given) => ({ ...call(request), uuid: params.uuid })

  return {
    create: ({ request }: Pick<Given, "request">) => refused(Effect.map(operations.create(call(request)), createdAt)),
    rerun: (given: Given) => refused(Effect.map(operations.rerun(callOf(given)), createdAt)),
    list: refused(Effect.gen(function*() {
      const { sub } = yield* principal
      const wanted = yield* Effect.fromResult(decodeListQuery(yield* HttpServerRequest.ParsedSearchParams, links))
      const page = yield* listOf(sub, wanted)
      return HttpServerResponse.uint8Array(OpaqueJson.encode(page), { contentType: "application/json" })
    })),
    submitToolResults: (given: Given) => refused(Effect.map(operations.submitToolResults(callOf(given)), ok)),
    cancel: (given: Given) => refused(Effect.map(operations.cancel(callOf(given)), ok)),
    stop: (given: Given) => refused(Effect.map(operations.stop(callOf(given)), ok)),
    delete: ({ params: { uuid } }: Pick<Given, "params">) => refused(operations.delete({ principal, uuid })),
    cancelInterrupted: () => refused(Effect.flatMap(principal, (user) => operations.cancelInterrupted(user)))
  }
})

/** Bodies are read by `BodyReader`, which bounds them, and large results are spliced as text: hence the raw handlers. */
export const layer = Group.layer(
  Authorization,
  Effect.gen(function*() {
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
  })
)

const layerList = TasksRpc.toLayerHandler(
  "Tasks.list",
  Effect.gen(function*() {
    const listOf = yield* makeList
    const links = yield* TaskLinks
    return Effect.fnUntraced(function*({ metadata = {}, sub, ...given }) {
      const { sub: owner } = yield* RpcRequests.principal(sub)
      const parameters = { ...RpcRequests.queryOf(given), ...Record.mapKeys(metadata, (key) => `metadata[${key}]`) }
      const query = yield* Effect.fromResult(decodeListQuery(parameters, links))
      return OpaqueJson.toValue<typeof TaskPageView.Type>(yield* listOf(owner, query))
    }, answer)
  })
)

const TaskChanges = TasksRpc.omit("Tasks.get", "Tasks.list", "Tasks.watch")

const layerChanges = TaskChanges.toLayer(
  Effect.gen(function*() {
    const operations = yield* makeOperations
    const call = yield* RpcRequests.makeCall
    const one = (
      name: string,
      { uuid, ...payload }: RpcRequests.Payload & { readonly uuid: string },
      by?: Headers.Headers
    ) => ({
      ...call(`/api/tasks/${uuid}/${name}`, payload, by),
      uuid
    })
    const viewed = <A, E, R>(operation: Effect.Effect<{ readonly view: A }, E, R>) =>
      answer(Effect.map(operation, ({ view }) => view))

    return TaskChanges.of({
      "Tasks.create": ({ task, ...payload }) =>
        viewed(operations.create(call("/api/tasks", { ...payload, body: task }))),
      "Tasks.rerun": (payload) => viewed(operations.rerun(one("rerun", payload))),
      "Tasks.submitToolResults": (payload) => viewed(operations.submitToolResults(one("tool-results", payload))),
      "Tasks.cancel": (payload, { headers }) => viewed(operations.cancel(one("cancel", payload, headers))),
      "Tasks.withdraw": (payload, { headers }) =>
        viewed(operations.stop(one("stop", payload, headers))).pipe(
          // It has no key.
          Effect.catchTag("IdempotencyKeyReused", Effect.die)
        ),
      "Tasks.delete": (payload) => answer(operations.delete(one("", payload))),
      "Tasks.cancelInterrupted": ({ sub }, { headers }) =>
        RpcRequests.principal(sub).pipe(
          Effect.flatMap((user) => operations.cancelInterrupted(user, RpcRequests.authorOf(headers))),
          answer
        )
    })
  })
)

export const layerRpc = Layer.mergeAll(layerList, layerChanges, TaskReading.layerRpc, TaskEvents.layerRpc)
