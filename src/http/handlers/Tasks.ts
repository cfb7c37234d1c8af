/** Handlers of tasks: decode bodies and queries, call use cases, encode JSON. */
import { Effect } from "effect"
import { HttpServerRequest, HttpServerResponse } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import type { ToolResultsMismatch } from "../../domain/TaskErrors.ts"
import * as TaskView from "../../domain/TaskView.ts"
import * as Services from "../../services/Tasks.ts"
import { Api } from "../contract/Api.ts"
import { Conflict, TooManyRequests } from "../contract/Errors.ts"
import { CurrentCaller } from "../contract/Middleware.ts"
import { validationFailed } from "./body/BodyErrors.ts"
import { BodyReader } from "./body/BodyReader.ts"
import * as Deliveries from "./Deliveries.ts"
import * as IdempotencyKey from "./IdempotencyKey.ts"
import { decodeListQuery } from "./Query.ts"
import { storeErrors } from "./StoreErrors.ts"
import * as TaskReading from "./TaskReading.ts"

const mismatch = ({ problems }: ToolResultsMismatch) =>
  validationFailed(
    Object.fromEntries(
      problems.map(({ index, message }) => [index === null ? "results" : `results.${index}.tool_call_id`, [message]])
    )
  )

export const layer = HttpApiBuilder.group(
  Api,
  "tasks",
  Effect.fn(function*(handlers) {
    const tasks = yield* Services.Tasks
    const reading = yield* TaskReading.make
    const deliveries = yield* Deliveries.make
    const { read } = yield* BodyReader

    const readTask = Effect.fnUntraced(
      function*(uuid: string) {
        const { principal } = yield* CurrentCaller
        return yield* tasks.get(principal, uuid)
      },
      Effect.catchTags(TaskReading.accessErrors)
    )

    const create = Effect.fnUntraced(
      function*(request: HttpServerRequest.HttpServerRequest) {
        const caller = yield* CurrentCaller
        const { body, claim } = yield* read("createTask", request)
        const { isReplay, maxExecutionTime, uuid } = yield* tasks.create(caller, body, claim)
        return HttpServerResponse.jsonUnsafe(
          { uuid, status: "pending", max_execution_time: maxExecutionTime },
          { status: 201, headers: { location: `/api/tasks/${uuid}` } }
        ).pipe(IdempotencyKey.markReplay(isReplay))
      },
      Effect.catchTags({
        ...storeErrors,
        TooManyActiveTasks: ({ message }) => Effect.fail(new TooManyRequests({ message })),
        IdempotencyKeyReused: () => Effect.fail(IdempotencyKey.reused)
      })
    )

    return handlers
      .handleRaw("create", ({ request }) => create(request))
      .handleRaw(
        "list",
        Effect.fnUntraced(function*() {
          const { principal } = yield* CurrentCaller
          const query = yield* HttpServerRequest.ParsedSearchParams
          const wanted = yield* Effect.fromResult(decodeListQuery(query))
          const found = yield* tasks.list({ sub: principal.sub, ...wanted })
          return HttpServerResponse.jsonUnsafe(TaskView.paginate(found.tasks, found.total, wanted))
        }, Effect.catchTags(storeErrors))
      )
      .handleRaw("get", ({ params, request }) => reading.get(params.uuid, request))
      .handleRaw("events", ({ params, request }) => reading.events(params.uuid, request))
      .handleRaw("deliveries", ({ params }) => deliveries.list(params.uuid))
      .handleRaw("redeliver", ({ params, request }) => deliveries.redeliver(params, request))
      .handleRaw(
        "submitToolResults",
        Effect.fnUntraced(
          function*({ params, request }) {
            const task = yield* readTask(params.uuid)
            const { body, claim } = yield* read("toolResults", request)
            const { isReplay } = yield* tasks.submitToolResults(yield* CurrentCaller, task, body, claim)
            return HttpServerResponse.jsonUnsafe({ uuid: task.uuid, status: "processing" }).pipe(
              IdempotencyKey.markReplay(isReplay)
            )
          },
          Effect.catchTags({
            ...storeErrors,
            IdempotencyKeyReused: () => Effect.fail(IdempotencyKey.reused),
            TaskNotInterrupted: ({ message }) => Effect.fail(new Conflict({ message })),
            ToolResultsMismatch: (error) => Effect.fail(mismatch(error))
          })
        )
      )
      .handleRaw(
        "cancel",
        Effect.fnUntraced(
          function*({ params, request }) {
            const task = yield* readTask(params.uuid)
            const { body, claim } = yield* read("cancel", request)
            const { isReplay } = yield* tasks.cancel(task, body.reason, claim)
            return HttpServerResponse.jsonUnsafe({ uuid: task.uuid, status: "canceled" }).pipe(
              IdempotencyKey.markReplay(isReplay)
            )
          },
          Effect.catchTags({
            ...storeErrors,
            IdempotencyKeyReused: () => Effect.fail(IdempotencyKey.reused),
            TaskNotInterrupted: ({ message }) => Effect.fail(new Conflict({ message }))
          })
        )
      )
      .handleRaw("cancelInterrupted", () =>
        Effect.gen(function*() {
          const { principal } = yield* CurrentCaller
          const uuids = yield* tasks.cancelInterrupted(principal)
          return HttpServerResponse.jsonUnsafe({ canceled: uuids.length, uuids })
        }).pipe(Effect.catchTags(storeErrors)))
  })
)
