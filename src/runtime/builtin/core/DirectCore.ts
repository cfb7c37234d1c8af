/** The built-in core in the process of the service: starts, stops and events are function calls. */
import { Effect, Predicate, Redacted, Result } from "effect"
import { type CoreEvent, type CoreReport, toFailure } from "../../../domain/CoreProtocol.ts"
import { CoreHasNoRoom, CoreRefused } from "../../../domain/DispatchRetry.ts"
import * as Failure from "../../../domain/Failure.ts"
import { isLarge, type OpaqueJson, toValue } from "../../../domain/json/OpaqueJson.ts"
import { stringOf } from "../../../domain/json/RawJson.ts"
import * as Limits from "../../../domain/Limits.ts"
import { TaskEvent } from "../../../domain/Task.ts"
import type { RunRequest } from "../../../domain/TaskRequest.ts"
import * as Bodies from "../../../http/handlers/body/Bodies.ts"
import { bytesOf, decodeBytes } from "../../../http/handlers/body/JsonBody.ts"
import type { CoreCalls, Run } from "../../../services/core/CoreClient.ts"
import { TurnReport } from "../../../services/Extensions.ts"
import type { Tasks } from "../../../services/tasks/Tasks.ts"
import type { Backend } from "../Backend.ts"
import * as BuiltinCore from "./BuiltinCore.ts"
import { silenceSeconds } from "./SignsOfLife.ts"

type ReportToTasks = Tasks["Service"]["report"]

interface DirectRun extends BuiltinCore.Run {
  /** Each step with a large request gets a turn of the event loop of its own. */
  readonly isLarge: boolean
}

const isLargeRun = ({ request, resume }: Run) =>
  [request, resume?.state, resume?.results].some((json) => Predicate.isNotNullish(json) && isLarge(json))

const parse = (json: OpaqueJson) => toValue<any>(json)

const toRun = (run: Run): DirectRun => {
  const { principal, request, resume, runId, taskId, userToken } = run
  const fields: RunRequest = parse(request)
  return {
    ...fields,
    task_id: taskId,
    run_id: runId,
    user: { sub: principal.sub },
    user_token: Redacted.value(userToken),
    resume: resume === null
      ? null
      : { state: resume.state === null ? null : parse(resume.state), results: parse(resume.results) },
    isLarge: isLargeRun(run)
  }
}

const unwanted = Effect.succeed<BuiltinCore.Receipt>("unwanted")

const none = new Uint8Array(0)

/** An append as it is: 25 a second of each run are not written as JSON in order to be read again. */
const appendOf = (event: CoreEvent): CoreReport | undefined =>
  event.type !== "progress" || event.append == null ? undefined : {
    task_id: event.task_id,
    run_id: event.run_id,
    event_id: String(event.event_id),
    event: TaskEvent.cases.Accepted.make({}),
    recordsAcceptance: false,
    appends: [{ index: event.append.index, text: stringOf(event.append.text) }]
  }

/** Events have the checks and bounds of those of any other core. */
const makeReport = (
  tasks: Effect.Effect<ReportToTasks>,
  coreEvent: ReturnType<typeof Bodies.coreEvent>
): BuiltinCore.Report<DirectRun> =>
  Effect.fnUntraced(function*(run, event): Effect.fn.Return<BuiltinCore.Receipt, BuiltinCore.NotReported> {
    if (run.isLarge) yield* Effect.yieldNow
    const append = appendOf(event)
    const bytes = append === undefined ? bytesOf(event) : none
    const isTooLarge = bytes.length > Limits.coreEventBytes
    if (isLarge(bytes)) yield* Effect.yieldNow
    const decoded = append !== undefined
      ? Result.succeed(append)
      : isTooLarge
      ? undefined
      : yield* Effect.result(decodeBytes(coreEvent, bytes))
    if (decoded !== undefined && Result.isFailure(decoded)) {
      yield* Effect.logError("an event of the built-in core is not valid", decoded.failure.errors)
      return "invalid"
    }
    const reported = decoded === undefined ? toFailure(event, Failure.resultTooLarge) : decoded.success
    if (reported === undefined) {
      yield* Effect.logError(`an event of the built-in core is larger than ${Limits.coreEventBytes} bytes`)
      return "invalid"
    }
    const report = yield* tasks
    return yield* report(reported).pipe(
      Effect.map(({ next }) => BuiltinCore.receiptOfNext(event, next)),
      Effect.catchTags({
        RunSuperseded: () => unwanted,
        TaskNotFound: () => unwanted,
        StoreUnavailable: (cause) => Effect.fail(new BuiltinCore.NotReported({ cause }))
      }),
      Effect.catchDefect((cause) =>
        Effect.andThen(
          Effect.logError("an event of the built-in core could not be recorded", cause),
          new BuiltinCore.NotReported({ cause })
        )
      )
    )
  })

/** `tasks` waits until the service can record events. */
export const make = Effect.fnUntraced(function*(
  backend: Backend,
  tasks: Effect.Effect<ReportToTasks>,
  maxRuns: number
) {
  const report = makeReport(tasks, Bodies.coreEvent(yield* TurnReport))
  const core = yield* BuiltinCore.make({ backend, maxRuns, report })
  const busy = new CoreHasNoRoom({ status: 429, retryAfter: BuiltinCore.retryAfter })
  const calls: CoreCalls = {
    start: Effect.fnUntraced(function*(run) {
      if (isLargeRun(run)) yield* Effect.yieldNow
      const parsed = Effect.try({ try: () => toRun(run), catch: () => new CoreRefused({ status: 422 }) })
      return (yield* core.start(yield* parsed)) ? silenceSeconds : yield* busy
    }),
    stop: (runId) => core.stop(runId)
  }
  return calls
})
