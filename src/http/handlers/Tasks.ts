/** Handlers of tasks, by REST and by RPC: decode bodies and queries, call use cases, encode JSON. */
import { Effect, Layer, Record } from "effect"
import { Digest } from "effect/crypto"
import { HttpServerRequest, HttpServerResponse } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import * as OpaqueJson from "../../domain/json/OpaqueJson.ts"
import type { ToolResultsMismatch, TooManyStoredBytes } from "../../domain/TaskErrors.ts"
import * as TaskView from "../../domain/TaskView.ts"
import { TaskLinks } from "../../services/store/TaskLinks.ts"
import { TaskRequests } from "../../services/tasks/TaskRequests.ts"
import * as Services from "../../services/tasks/Tasks.ts"
import { TokenRevocations } from "../../services/tokens/TokenRevocations.ts"
import { TokenVerifier } from "../../services/tokens/TokenVerifier.ts"
import { Api } from "../contract/Api.ts"
import { Conflict, invalid, TooManyRequests } from "../contract/Errors.ts"
import { CurrentCaller } from "../contract/Middleware.ts"
import { TasksRpc } from "../contract/rpc/RpcTasks.ts"
import type { TaskPageView } from "../contract/TaskSchemas.ts"
import * as Bodies from "./body/Bodies.ts"
import { validationFailed } from "./body/BodyErrors.ts"
import { BodyReader } from "./body/BodyReader.ts"
import { bytesOf } from "./body/JsonBody.ts"
import * as Deliveries from "./Deliveries.ts"
import { failWith, storeErrors, taskErrors } from "./ErrorResponses.ts"
import { fingerprintOf } from "./Fingerprint.ts"
import * as Group from "./Group.ts"
import * as IdempotencyKey from "./IdempotencyKey.ts"
import { decodeListQuery, type ListQuery, selected } from "./Query.ts"
import * as RpcRequests from "./rpc/RpcRequests.ts"
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

const storedBytesRefusal = ({ message }: TooManyStoredBytes) => invalid("body", message, "too_many_stored_bytes")
const refuseStoredBytes = (error: TooManyStoredBytes) => Effect.fail(asInvalidRequest(storedBytesRefusal(error)))

const creationErrors = {
  ...storeErrors,
  TooManyStoredBytes: (error: TooManyStoredBytes) => Effect.fail(storedBytesRefusal(error)),
  TooManyActiveTasks: failWith(TooManyRequests),
  IdempotencyKeyReused: changeErrors.IdempotencyKeyReused
}

const describeCreated = ({ maxExecutionTime, uuid }: Services.CreatedTask) => ({
  uuid,
  status: "pending" as const,
  max_execution_time: maxExecutionTime
})

const created = (task: Services.CreatedTask) =>
  HttpServerResponse.jsonUnsafe(describeCreated(task), {
    status: 201,
    headers: { location: `/api/tasks/${task.uuid}` }
  }).pipe(IdempotencyKey.markReplay(task.isReplay))

/** Returns a function that reads a page of a user's tasks. */
const makeList = Effect.gen(function*() {
  const tasks = yield* Services.Tasks
  const requests = yield* TaskRequests
  return Effect.fnUntraced(function*(sub: string, { included, selections, text, ...wanted }: ListQuery) {
    const chosen = yield* selected(sub, selections)
    const matching = text === null ? null : yield* requests.search(sub, text)
    const uuids = chosen === null ? matching : chosen.filter((uuid) => matching?.includes(uuid) ?? true)
    const found = yield* tasks.list({ sub, ...wanted, uuids })
    const listed = found.tasks.map(({ uuid }) => uuid)
    const metadata = included.has("metadata") ? yield* requests.metadata(sub, listed) : undefined
    const excerpts = included.has("excerpt") ? yield* requests.excerpts(sub, listed) : undefined
    return OpaqueJson.fromValue(TaskView.paginate(found.tasks, found.total, wanted, (uuid) => ({
      ...(metadata === undefined ? {} : TaskView.describeMetadata(metadata.get(uuid))),
      ...(excerpts === undefined ? {} : { excerpt: excerpts.get(uuid) ?? null })
    })))
  })
})

interface OneTask {
  readonly params: { readonly uuid: string }
  readonly request: HttpServerRequest.HttpServerRequest
}

const make = Effect.gen(function*() {
  const tasks = yield* Services.Tasks
  const requests = yield* TaskRequests
  const { read } = yield* BodyReader
  const listOf = yield* makeList
  const links = yield* TaskLinks

  return {
    create: Effect.fnUntraced(
      function*({ request }: { readonly request: HttpServerRequest.HttpServerRequest }) {
        const caller = yield* CurrentCaller
        const { body, claim } = yield* read(Bodies.createTask, request)
        return created(yield* tasks.create(caller, body, claim))
      },
      Effect.catchTags(creationErrors)
    ),
    rerun: Effect.fnUntraced(function*(given: OneTask) {
      const caller = yield* CurrentCaller
      const task = yield* tasks.getHead(caller.principal, given.params.uuid)
      const { body, claim } = yield* read(Bodies.rerunTask, given.request)
      return created(yield* requests.rerun(caller, task, body, claim))
    }, Effect.catchTags({ ...taskErrors, ...creationErrors, RequestNotKept: failWith(Conflict) })),
    list: Effect.gen(function*() {
      const { principal } = yield* CurrentCaller
      const wanted = yield* Effect.fromResult(decodeListQuery(yield* HttpServerRequest.ParsedSearchParams, links))
      const page = yield* listOf(principal.sub, wanted)
      return HttpServerResponse.uint8Array(OpaqueJson.encode(page), { contentType: "application/json" })
    }).pipe(Effect.catchTags(storeErrors)),
    submitToolResults: Effect.fnUntraced(function*(given: OneTask) {
      const caller = yield* CurrentCaller
      // The turn may be large, and a body may take minutes to arrive: the task is read after it.
      yield* tasks.getHead(caller.principal, given.params.uuid)
      const { body, claim } = yield* read(Bodies.toolResults, given.request)
      const task = yield* tasks.getOutline(caller.principal, given.params.uuid)
      const { isReplay } = yield* tasks.submitToolResults(caller, task, body, claim)
      return HttpServerResponse.jsonUnsafe({ uuid: task.uuid, status: "processing" }).pipe(
        IdempotencyKey.markReplay(isReplay)
      )
    }, Effect.catchTags({ ...changeErrors, ToolResultsMismatch: (error) => Effect.fail(mismatch(error)) })),
    cancel: Effect.fnUntraced(function*(given: OneTask) {
      const { principal } = yield* CurrentCaller
      const task = yield* tasks.getHead(principal, given.params.uuid)
      const { body, claim } = yield* read(Bodies.cancel, given.request)
      const { isReplay } = yield* tasks.cancel(task, body.reason, claim)
      return HttpServerResponse.jsonUnsafe({ uuid: task.uuid, status: "canceled" }).pipe(
        IdempotencyKey.markReplay(isReplay)
      )
    }, Effect.catchTags(changeErrors)),
    delete: Effect.fnUntraced(function*(uuid: string) {
      const { principal } = yield* CurrentCaller
      yield* tasks.delete(yield* tasks.getHead(principal, uuid))
    }, Effect.catchTags({ ...taskErrors, TaskNotEnded: failWith(Conflict) })),
    cancelInterrupted: Effect.gen(function*() {
      const { principal } = yield* CurrentCaller
      const uuids = yield* tasks.cancelInterrupted(principal)
      return { canceled: uuids.length, uuids }
    }).pipe(Effect.catchTags(storeErrors))
  }
})

/** Bodies are read by `BodyReader`, which bounds them, and large results are spliced as text: hence the raw handlers. */
export const layer = Group.layer(Effect.gen(function*() {
  const tasks = yield* make
  const reading = yield* TaskReading.make
  const deliveries = yield* Deliveries.make
  return HttpApiBuilder.group(Api, "tasks", (handlers) =>
    handlers
      .handleRaw("create", tasks.create)
      .handleRaw("rerun", tasks.rerun)
      .handleRaw("list", () => tasks.list)
      .handleRaw("get", ({ params, request }) => reading.get(params.uuid, request))
      .handle("delete", ({ params }) => tasks.delete(params.uuid))
      .handleRaw("events", ({ params, request }) => reading.events(params.uuid, request))
      .handle("deliveries", ({ params }) => deliveries.list(params.uuid))
      .handleRaw("redeliver", ({ params, request }) => deliveries.redeliver(params, request))
      .handleRaw("submitToolResults", tasks.submitToolResults)
      .handleRaw("cancel", tasks.cancel)
      .handle("cancelInterrupted", () => tasks.cancelInterrupted))
}))

const layerList = TasksRpc.toLayerHandler(
  "Tasks.list",
  Effect.gen(function*() {
    const listOf = yield* makeList
    return Effect.fnUntraced(function*({ include, metadata = {}, page, per_page, q, status, sub }) {
      const { sub: owner } = yield* RpcRequests.principal(sub)
      const query = yield* Effect.fromResult(decodeListQuery({
        ...Record.mapKeys(metadata, (key) => `metadata[${key}]`),
        include,
        status,
        q,
        page: page === undefined ? undefined : String(page),
        per_page: per_page === undefined ? undefined : String(per_page)
      })).pipe(Effect.mapError(asInvalidRequest))
      return OpaqueJson.toValue<typeof TaskPageView.Type>(yield* refuseOutage(listOf(owner, query)))
    })
  })
)

const TaskChanges = TasksRpc.omit("Tasks.get", "Tasks.list", "Tasks.watch")

const layerChanges = TaskChanges.toLayer(
  Effect.gen(function*() {
    const tasks = yield* Services.Tasks
    const requests = yield* TaskRequests
    const tokens = { verifier: yield* TokenVerifier, revocations: yield* TokenRevocations }
    const digest = yield* Digest.Digest

    /** The same claim as REST's for the same key, path and body. */
    const claim = Effect.fnUntraced(function*(key: string | undefined, path: string, body: unknown) {
      if (key === undefined) return undefined
      const fingerprint = yield* fingerprintOf(digest, `POST ${path}`, bytesOf(body))
      return yield* Effect.mapError(IdempotencyKey.claimOf(key, fingerprint), asInvalidRequest)
    })

    return TaskChanges.of({
      "Tasks.create": Effect.fnUntraced(function*({ idempotency_key, task, ...user }) {
        const caller = yield* RpcRequests.caller(tokens, user)
        const body = yield* decode(Bodies.createTask, task)
        const created = yield* refuseOutage(
          tasks.create(caller, body, yield* claim(idempotency_key, "/api/tasks", task))
        )
        return describeCreated(created)
      }, Effect.catchTag("TooManyStoredBytes", refuseStoredBytes)),
      "Tasks.rerun": Effect.fnUntraced(function*({ body = {}, idempotency_key, uuid, ...user }) {
        const caller = yield* RpcRequests.caller(tokens, user)
        const task = yield* refuseOutage(tasks.getHead(caller.principal, uuid))
        const overrides = yield* decode(Bodies.rerunTask, body)
        const path = `/api/tasks/${uuid}/rerun`
        return describeCreated(
          yield* refuseOutage(requests.rerun(caller, task, overrides, yield* claim(idempotency_key, path, body)))
        )
      }, Effect.catchTag("TooManyStoredBytes", refuseStoredBytes)),
      "Tasks.submitToolResults": Effect.fnUntraced(function*({ body, idempotency_key, uuid, ...user }) {
        const caller = yield* RpcRequests.caller(tokens, user)
        const task = yield* refuseOutage(tasks.getOutline(caller.principal, uuid))
        const results = yield* decode(Bodies.toolResults, body)
        const path = `/api/tasks/${uuid}/tool-results`
        yield* refuseOutage(
          tasks.submitToolResults(caller, task, results, yield* claim(idempotency_key, path, body))
        )
        return { uuid: task.uuid, status: "processing" }
      }),
      "Tasks.cancel": Effect.fnUntraced(function*({ body = {}, idempotency_key, sub, uuid }) {
        const task = yield* refuseOutage(tasks.getHead(RpcRequests.reader(sub), uuid))
        const { reason } = yield* decode(Bodies.cancel, body)
        const path = `/api/tasks/${uuid}/cancel`
        yield* refuseOutage(tasks.cancel(task, reason, yield* claim(idempotency_key, path, body)))
        return { uuid: task.uuid, status: "canceled" }
      }),
      "Tasks.withdraw": Effect.fnUntraced(function*({ body = {}, sub, uuid }) {
        const task = yield* refuseOutage(tasks.getHead(RpcRequests.reader(sub), uuid))
        const { reason } = yield* decode(Bodies.cancel, body)
        yield* refuseOutage(tasks.withdraw(task, reason))
        return { uuid: task.uuid, status: "canceled" }
      }),
      "Tasks.delete": ({ sub, uuid }) =>
        refuseOutage(Effect.flatMap(tasks.getHead(RpcRequests.reader(sub), uuid), tasks.delete)),
      "Tasks.cancelInterrupted": Effect.fnUntraced(function*({ sub }) {
        const uuids = yield* refuseOutage(tasks.cancelInterrupted(yield* RpcRequests.principal(sub)))
        return { canceled: uuids.length, uuids }
      })
    })
  })
)

export const layerRpc = Layer.mergeAll(layerList, layerChanges, TaskReading.layerRpc)
