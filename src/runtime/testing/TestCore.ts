/** A processing core that takes what it is handed, remembers it, and reports what a test says. */
import { Context, Deferred, Effect, Layer, type Schema } from "effect"
import { SecureRandom } from "effect/crypto"
import { type CoreEvent, type FailureCode, toReport } from "../../domain/CoreProtocol.ts"
import { CoreRefused, CoreUnavailable } from "../../domain/HandOver.ts"
import type { JsonObject } from "../../domain/OpaqueJson.ts"
import { TaskId } from "../../domain/Task.ts"
import type { RunRequest } from "../../domain/TaskRequest.ts"
import { CoreClient, type Run } from "../../services/CoreClient.ts"
import { TaskRepository } from "../../services/TaskRepository.ts"
import { Tasks } from "../../services/Tasks.ts"

/** One hand-over of a task, as the core met it. */
export interface StartedRun {
  readonly taskId: string
  readonly runId: string
  readonly sub: string
  readonly request: RunRequest
  /** Tool results that resume the task; null on its first run. */
  readonly results: ReadonlyArray<Schema.Json> | null
}

export interface StoppedRun {
  readonly runId: string
  readonly reason: string
}

/**
 * What the core does when it is handed a run: `accepts` also reports `processing`; `silent` takes it and reports nothing;
 * `down` answers 503; a number is any other status.
 */
export type Behaviour = "accepts" | "silent" | "down" | number

interface Journal {
  behaviour: Behaviour
  readonly runs: Array<StartedRun>
  readonly stops: Array<StoppedRun>
  changed: Deferred.Deferred<void>
  onAccepted: (run: StartedRun) => Effect.Effect<void>
}

class CoreJournal
  extends Context.Service<CoreJournal, Journal>()("async-task-service/runtime/testing/TestCore/CoreJournal")
{
  static readonly layer = Layer.sync(CoreJournal, (): Journal => ({
    behaviour: "accepts",
    runs: [],
    stops: [],
    changed: Deferred.makeUnsafe<void>(),
    onAccepted: () => Effect.void
  }))
}

const describe = (run: Run): StartedRun => ({
  taskId: run.taskId,
  runId: run.runId,
  sub: run.principal.sub,
  request: JSON.parse(run.request),
  results: run.resume === null ? null : JSON.parse(run.resume.results)
})

/** The service's side of the core. */
const layerClient = Layer.effect(
  CoreClient,
  Effect.gen(function*() {
    const journal = yield* CoreJournal
    const scope = yield* Effect.scope
    const tell = Effect.suspend(() => {
      const before = journal.changed
      journal.changed = Deferred.makeUnsafe()
      return Deferred.succeed(before, undefined)
    })
    return CoreClient.of({
      start: Effect.fnUntraced(function*(run) {
        const { behaviour } = journal
        if (behaviour === "down") return yield* new CoreUnavailable({ reason: "status 503", retryAfter: null })
        if (typeof behaviour === "number") return yield* new CoreRefused({ status: behaviour })
        const started = describe(run)
        const remember = Effect.suspend(() => {
          if (!journal.runs.some(({ runId }) => runId === started.runId)) journal.runs.push(started)
          return tell
        })
        // What a test reports comes after this.
        yield* behaviour === "silent"
          ? remember
          : Effect.forkIn(Effect.andThen(journal.onAccepted(started), remember), scope)
      }),
      stop: (runId, reason) => Effect.andThen(Effect.sync(() => journal.stops.push({ runId, reason })), tell)
    })
  })
)

/** A turn that says `text`, in the shape of CONTRACT 2. */
export const turnOf = (text: string): JsonObject => ({
  output: [{ type: "text", text }],
  messages: [{ role: "assistant", content: text }],
  metadata: { model: "test", finish_reason: "stop" }
})

type Unaddressed<Event> = Event extends unknown ? Omit<Event, "task_id" | "run_id" | "event_id"> : never

const asTurn = (turn: string | JsonObject) => typeof turn === "string" ? turnOf(turn) : turn

const make = Effect.gen(function*() {
  const journal = yield* CoreJournal
  const tasks = yield* Tasks
  const repository = yield* TaskRepository
  const random = yield* SecureRandom.SecureRandom

  const send = (run: Pick<StartedRun, "taskId" | "runId">, event: Unaddressed<CoreEvent>) =>
    Effect.flatMap(
      random.uuidV4(),
      (event_id) => tasks.report(toReport({ ...event, task_id: run.taskId, run_id: run.runId, event_id } as CoreEvent))
    )

  journal.onAccepted = (run) => Effect.ignore(send(run, { type: "processing" }))

  /** The run that the task is at, once it was handed over. */
  const runOf = Effect.fnUntraced(function*(uuid: string) {
    while (true) {
      const { changed } = journal
      const [head] = yield* repository.heads([TaskId.make(uuid)])
      if (head === undefined) return yield* Effect.die(new Error(`There is no task ${uuid}`))
      const run = journal.runs.find(({ runId }) => runId === head.runId)
      if (run !== undefined) return run
      yield* Deferred.await(changed)
    }
  })

  const report = (uuid: string, event: Unaddressed<CoreEvent>) => Effect.flatMap(runOf(uuid), (run) => send(run, event))

  return {
    /** What the core does with the runs that it is handed from now on; `accepts` at first. */
    behave: (behaviour: Behaviour) =>
      Effect.sync(() => {
        journal.behaviour = behaviour
      }),
    /** Every run that the core was handed, oldest first. */
    runs: Effect.sync(() => [...journal.runs]),
    /** Every run that the core was told to stop. */
    stops: Effect.sync(() => [...journal.stops]),
    runOf,
    /** Reports any event of the task's present run. */
    report,
    processing: (uuid: string) => report(uuid, { type: "processing" }),
    progress: (uuid: string, turn: string | JsonObject) => report(uuid, { type: "progress", turn: asTurn(turn) }),
    complete: (uuid: string, turn: string | JsonObject) => report(uuid, { type: "completed", turn: asTurn(turn) }),
    fail: (uuid: string, code: FailureCode, message?: string) =>
      report(uuid, { type: "failed", code, message: message ?? null }),
    /** The model calls client tools, by name. */
    interrupt: (uuid: string, calls: Readonly<Record<string, JsonObject>>) => {
      const [first, ...others] = Object.entries(calls).map(([name, args]) => ({
        id: `call_${name}`,
        name,
        arguments: args
      }))
      return first === undefined
        ? Effect.die(new Error("An interrupt needs at least one call"))
        : report(uuid, { type: "interrupted", tool_calls: [first, ...others] })
    }
  }
})

export class TestCore extends Context.Service<TestCore, Effect.Success<typeof make>>()(
  "async-task-service/runtime/testing/TestCore"
) {
  static readonly layerJournal = CoreJournal.layer
  static readonly layerClient = layerClient
  static readonly layer = Layer.effect(TestCore, make)
}
