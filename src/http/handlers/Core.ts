/** The endpoint and the call by which the processing core reports events. */
import { Effect, Result } from "effect"
import { type HttpServerRequest, HttpServerResponse } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import { isFinal, toFailure } from "../../domain/CoreProtocol.ts"
import * as Failure from "../../domain/Failure.ts"
import type { Found } from "../../domain/json/Shape.ts"
import * as Limits from "../../domain/Limits.ts"
import type { RunSuperseded } from "../../domain/TaskErrors.ts"
import { TurnReport } from "../../services/Extensions.ts"
import { Tasks } from "../../services/tasks/Tasks.ts"
import { Api } from "../contract/Api.ts"
import { NotFound, PayloadTooLarge, RunConflict } from "../contract/Errors.ts"
import { CoreAuthorization } from "../contract/Middleware.ts"
import { CoreRpc } from "../contract/rpc/Rpc.ts"
import * as Bodies from "./body/Bodies.ts"
import { type BodyError, BodyReader } from "./body/BodyReader.ts"
import { attemptBytes, bytesOf } from "./body/JsonBody.ts"
import { as, refusing, storeErrors } from "./ErrorResponses.ts"
import * as Group from "./Group.ts"
import { answer } from "./rpc/RpcRequests.ts"

const refused = refusing({
  ...storeErrors,
  TaskNotFound: as(NotFound),
  RunSuperseded: ({ message, status }: RunSuperseded) => new RunConflict({ message, status, code: "run_superseded" })
})

/** Runs whose events are reported at a time. */
const batchConcurrency = 64

const tooManyBytes = new PayloadTooLarge({
  message: `A request with several events must not be larger than ${Limits.batchedEventBytes} bytes.`
})

const refusalOf = (type: string | undefined, endsTask: boolean) => {
  if (endsTask) return "the last event of a run was refused: its task fails"
  return type === undefined || isFinal(type)
    ? "an event of the core was refused that does not say whose it is: if it was the last one, its task waits for the time limit"
    : "an event of the core was refused"
}

/** A run whose last event is refused has ended: so does its task. */
const makeEndRefused = ({ report }: Tasks["Service"]) =>
  Effect.fnUntraced(function*(found: Found | undefined, { message }: BodyError, isTooLarge: boolean) {
    const text = (name: string) => found?.field(name)?.text
    const [task_id, run_id, type] = [text("task_id"), text("run_id"), text("type")]
    const failure = toFailure({ task_id, run_id, type }, isTooLarge ? Failure.resultTooLarge : Failure.resultInvalid)
    yield* Effect.annotateLogs(Effect.logWarning(refusalOf(type, failure !== undefined)), {
      taskId: task_id ?? "unknown",
      runId: run_id ?? "unknown",
      type: type ?? "unknown",
      reason: message
    })
    if (failure === undefined) return
    yield* report(failure).pipe(
      Effect.catchTags({ TaskNotFound: () => Effect.void, RunSuperseded: () => Effect.void })
    )
  })

export const layer = Group.layer(
  CoreAuthorization,
  Effect.gen(function*() {
    const tasks = yield* Tasks
    const { attempt } = yield* BodyReader
    const endRefused = makeEndRefused(tasks)
    const coreEvents = Bodies.coreEvents(yield* TurnReport)

    /** The outcome of an event of several: the body of the answer that it would have got alone, with the status of a refusal. */
    const reportBatched = Effect.fnUntraced(
      function*({ found, outcome }: Bodies.Batched) {
        if (Result.isSuccess(outcome)) return yield* tasks.report(outcome.success)
        yield* endRefused(found, outcome.failure, false)
        const { code, errors, message } = outcome.failure
        return { message, code, status: 422, errors }
      },
      Effect.catchTags({
        StoreUnavailable: ({ message }) => Effect.succeed({ message, code: "service_unavailable", status: 503 }),
        TaskNotFound: ({ message }) => Effect.succeed({ message, code: "task_not_found", status: 404 }),
        RunSuperseded: ({ message }) => Effect.succeed({ message, code: "run_superseded", status: 409 })
      })
    )

    /** Events of one run in their order, beside those of others. */
    const reportAll = Effect.fnUntraced(function*(events: ReadonlyArray<Bodies.Batched>) {
      const results: Array<Effect.Success<ReturnType<typeof reportBatched>>> = []
      const slow = new Map<string | number, Array<number>>()
      for (const [index, { found, outcome }] of events.entries()) {
        const run = Result.isSuccess(outcome) ? outcome.success.run_id : found.field("run_id")?.text ?? index
        const before = slow.get(run)
        const reported = before === undefined && Result.isSuccess(outcome)
          ? tasks.reportNow(outcome.success)
          : undefined
        if (reported !== undefined) results[index] = reported
        else if (before === undefined) slow.set(run, [index])
        else before.push(index)
        if ((index + 1) % Limits.eventsPerTurn === 0) yield* Effect.yieldNow
      }
      const reportOne = (index: number) =>
        Effect.map(reportBatched(events[index]!), (result) => void (results[index] = result))
      yield* Effect.forEach(slow.values(), (ofRun) => Effect.forEach(ofRun, reportOne, { discard: true }), {
        concurrency: batchConcurrency,
        discard: true
      })
      return { results }
    })

    const report = Effect.fnUntraced(
      function*(request: HttpServerRequest.HttpServerRequest) {
        const { found, outcome } = yield* attempt(coreEvents, request)
        if (Result.isFailure(outcome)) {
          yield* endRefused(found, outcome.failure, outcome.failure instanceof PayloadTooLarge)
          return yield* Effect.fail(outcome.failure)
        }
        const given = outcome.success
        if ("isTooLarge" in given) return yield* tooManyBytes
        return HttpServerResponse.jsonUnsafe(
          yield* "events" in given ? reportAll(given.events) : tasks.report(given.event)
        )
      },
      refused
    )
    return HttpApiBuilder.group(
      Api,
      "core",
      (handlers) => handlers.handleRaw("report", ({ request }) => report(request))
    )
  })
)

export const layerRpc = CoreRpc.toLayer(
  Effect.gen(function*() {
    const tasks = yield* Tasks
    const endRefused = makeEndRefused(tasks)
    const coreEvent = Bodies.coreEvent(yield* TurnReport)
    return CoreRpc.of({
      "Core.report": Effect.fnUntraced(function*({ event }) {
        const bytes = bytesOf(event)
        const { found, outcome } = yield* attemptBytes(coreEvent, bytes)
        if (Result.isSuccess(outcome)) return yield* tasks.report(outcome.success)
        yield* endRefused(found, outcome.failure, bytes.length > Limits.coreEventBytes)
        return yield* Effect.fail(outcome.failure)
      }, answer)
    })
  })
)
