/** Handlers of tasks: decode bodies and queries, call use cases, encode JSON. */
import { Effect } from "effect"
import { HttpServerRequest, HttpServerResponse } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import type { ToolResultsMismatch } from "../../domain/TaskErrors.ts"
import * as TaskView from "../../domain/TaskView.ts"
import { TaskRequests } from "../../services/TaskRequests.ts"
import * as Services from "../../services/Tasks.ts"
import { Api } from "../contract/Api.ts"
import { Conflict, TooManyRequests } from "../contract/Errors.ts"
import { CurrentCaller } from "../contract/Middleware.ts"
import { validationFailed } from "./body/BodyErrors.ts"
import { BodyReader } from "./body/BodyReader.ts"
import * as Deliveries from "./Deliveries.ts"
import { failWith, storeErrors, taskErrors } from "./ErrorResponses.ts"
import * as Group from "./Group.ts"
import * as IdempotencyKey from "./IdempotencyKey.ts"
import { decodeListQuery } from "./Query.ts"
import * as TaskReading from "./TaskReading.ts"

const mismatch = ({ problems }: ToolResultsMismatch) =>
  validationFailed(
    Object.fromEntries(
      problems.map(({ index, message }) => [index === null ? "results" : `results.${index}.tool_call_id`, [message]])
    )
  )

const changeErrors = {
  ...taskErrors,
  IdempotencyKeyReused: () => Effect.fail(IdempotencyKey.reused),
  TaskNotInterrupted: failWith(Conflict)
}

const creationErrors = {
  ...storeErrors,
  TooManyActiveTasks: failWith(TooManyRequests),
  IdempotencyKeyReused: changeErrors.IdempotencyKeyReused
}

const created = ({ isReplay, maxExecutionTime, uuid }: Services.CreatedTask) =>
  HttpServerResponse.jsonUnsafe(
    { uuid, status: "pending", max_execution_time: maxExecutionTime },
    { status: 201, headers: { location: `/api/tasks/${uuid}` } }
  ).pipe(IdempotencyKey.markReplay(isReplay))

interface OneTask {
  readonly params: { readonly uuid: string }
  readonly request: HttpServerRequest.HttpServerRequest
}

const make = Effect.gen(function*() {
  const tasks = yield* Services.Tasks
  const requests = yield* TaskRequests
  const { read } = yield* BodyReader

  return {
    create: Effect.fnUntraced(
      function*({ request }: { readonly request: HttpServerRequest.HttpServerRequest }) {
        const caller = yield* CurrentCaller
        const { body, claim } = yield* read("createTask", request)
        return created(yield* tasks.create(caller, body, claim))
      },
      Effect.catchTags(creationErrors)
    ),
    rerun: Effect.fnUntraced(function*(given: OneTask) {
      const caller = yield* CurrentCaller
      const task = yield* tasks.getHead(caller.principal, given.params.uuid)
      const { body, claim } = yield* read("rerunTask", given.request)
      return created(yield* requests.rerun(caller, task, body, claim))
    }, Effect.catchTags({ ...taskErrors, ...creationErrors, RequestNotKept: failWith(Conflict) })),
    list: Effect.gen(function*() {
      const { principal } = yield* CurrentCaller
      const wanted = yield* Effect.fromResult(decodeListQuery(yield* HttpServerRequest.ParsedSearchParams))
      const found = yield* tasks.list({ sub: principal.sub, ...wanted })
      const metadata = wanted.includesMetadata
        ? yield* requests.metadata(principal.sub, found.tasks.map(({ uuid }) => uuid))
        : undefined
      return HttpServerResponse.jsonUnsafe(TaskView.paginate(found.tasks, found.total, wanted, metadata))
    }).pipe(Effect.catchTags(storeErrors)),
    submitToolResults: Effect.fnUntraced(function*(given: OneTask) {
      const caller = yield* CurrentCaller
      // The turn may be large, and a body may take minutes to arrive: the task is read after it.
      yield* tasks.getHead(caller.principal, given.params.uuid)
      const { body, claim } = yield* read("toolResults", given.request)
      const task = yield* tasks.get(caller.principal, given.params.uuid)
      const { isReplay } = yield* tasks.submitToolResults(caller, task, body, claim)
      return HttpServerResponse.jsonUnsafe({ uuid: task.uuid, status: "processing" }).pipe(
        IdempotencyKey.markReplay(isReplay)
      )
    }, Effect.catchTags({ ...changeErrors, ToolResultsMismatch: (error) => Effect.fail(mismatch(error)) })),
    cancel: Effect.fnUntraced(function*(given: OneTask) {
      const { principal } = yield* CurrentCaller
      const task = yield* tasks.getHead(principal, given.params.uuid)
      const { body, claim } = yield* read("cancel", given.request)
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
