/** The endpoint and the call by which the processing core reports events. */
import { Effect, Predicate, Result } from "effect"
import { type HttpServerRequest, HttpServerResponse } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import { isFinal, type RefusedEvent, toFailure } from "../../domain/CoreProtocol.ts"
import * as Failure from "../../domain/Failure.ts"
import type { Found } from "../../domain/JsonPaths.ts"
import { Tasks } from "../../services/Tasks.ts"
import { Api } from "../contract/Api.ts"
import { NotFound, PayloadTooLarge, RunConflict } from "../contract/Errors.ts"
import { CoreRpc } from "../contract/rpc/Rpc.ts"
import * as Bodies from "./body/Bodies.ts"
import { type BodyError, BodyReader } from "./body/BodyReader.ts"
import { storeErrors } from "./ErrorResponses.ts"
import * as Group from "./Group.ts"
import { decode, refuseOutage } from "./rpc/RpcRequests.ts"

const refusalOf = (type: string | undefined, endsTask: boolean) => {
  if (endsTask) return "the last event of a run was refused: its task fails"
  return type === undefined || isFinal(type)
    ? "an event of the core was refused that does not say whose it is: if it was the last one, its task waits for the time limit"
    : "an event of the core was refused"
}

export const layer = Group.layer(Effect.gen(function*() {
  const tasks = yield* Tasks
  const { attempt } = yield* BodyReader

  /** A run whose last event is refused has ended: so does its task. */
  const endRefused = Effect.fnUntraced(function*(found: Found | undefined, error: BodyError) {
    const text = (name: string) => found?.field(name)?.text
    const [task_id, run_id, type] = [text("task_id"), text("run_id"), text("type")]
    const words = error instanceof PayloadTooLarge ? Failure.resultTooLarge : Failure.resultInvalid
    const failure = toFailure({ task_id, run_id, type }, words)
    yield* Effect.annotateLogs(Effect.logWarning(refusalOf(type, failure !== undefined)), {
      taskId: task_id ?? "unknown",
      runId: run_id ?? "unknown",
      type: type ?? "unknown",
      reason: error.message
    })
    if (failure !== undefined) {
      yield* tasks.report(failure).pipe(
        Effect.catchTags({ TaskNotFound: () => Effect.void, RunSuperseded: () => Effect.void })
      )
    }
    return yield* Effect.fail(error)
  })
  const report = Effect.fnUntraced(
    function*(request: HttpServerRequest.HttpServerRequest) {
      const { found, outcome } = yield* attempt(Bodies.coreEvent, request)
      if (Result.isFailure(outcome)) return yield* endRefused(found, outcome.failure)
      return HttpServerResponse.jsonUnsafe(yield* tasks.report(outcome.success))
    },
    Effect.catchTags({
      ...storeErrors,
      TaskNotFound: ({ message }) => Effect.fail(new NotFound({ message })),
      RunSuperseded: ({ message, status }) => Effect.fail(new RunConflict({ message, status }))
    })
  )
  return HttpApiBuilder.group(Api, "core", (handlers) => handlers.handleRaw("report", ({ request }) => report(request)))
}))

const textsOf = (event: unknown): RefusedEvent => {
  const text = (name: string) =>
    Predicate.hasProperty(event, name) && Predicate.isString(event[name]) ? event[name] : undefined
  return { task_id: text("task_id"), run_id: text("run_id"), type: text("type") }
}

export const layerRpc = CoreRpc.toLayer(
  Effect.map(Tasks, (tasks) =>
    CoreRpc.of({
      "Core.report": Effect.fnUntraced(function*({ event }) {
        const decoded = yield* Effect.result(decode(Bodies.coreEvent, event))
        if (Result.isSuccess(decoded)) return yield* refuseOutage(tasks.report(decoded.success))
        const failure = toFailure(textsOf(event), Failure.resultInvalid)
        // A run whose last event is refused has ended: so does its task.
        if (failure !== undefined) yield* refuseOutage(tasks.report(failure))
        return yield* decoded.failure
      })
    }))
)
