/** A processing core for tests: it records its runs, and the test reports their events. */
import { Context, Deferred, Effect, Layer, type Schema } from "effect"
import { SecureRandom } from "effect/crypto"
import { type FailureCode, toReport, type Unaddressed } from "../../domain/CoreProtocol.ts"
import { CoreHasNoRoom, CoreRefused, CoreUnavailable } from "../../domain/DispatchRetry.ts"
import { encode, type JsonObject, type OpaqueJson, toValue } from "../../domain/json/OpaqueJson.ts"
import { scan } from "../../domain/json/Scanner.ts"
import { TaskId } from "../../domain/Task.ts"
import type { RunRequest } from "../../domain/TaskRequest.ts"
import { CoreClient, type Run } from "../../services/core/CoreClient.ts"
import { TurnReport } from "../../services/Extensions.ts"
import { MemoryTables } from "../../services/store/MemoryTables.ts"
import { TaskStore } from "../../services/store/tasks/TaskStore.ts"
import { Tasks } from "../../services/tasks/Tasks.ts"
import { webhooksSent } from "./webhooksSent.ts"

/** A run as the core received it. */
export interface StartedRun {
  readonly taskId: string
  readonly runId: string
  readonly sub: string
  readonly request: RunRequest
  /** Tool results that resume the task; null for its first run. */
  readonly results: ReadonlyArray<Schema.Json> | null
}

export interface StoppedRun {
  readonly runId: string
  readonly reason: string
}

/**
 * How the core responds to a new run: `accepts` takes it and reports `processing`, `silent` takes it and reports nothing,
 * `down` responds with 503, `busy` has no room, and a number is a status with which it refuses the run.
 */
export type Behaviour = "accepts" | "silent" | "down" | "busy" | number

interface Journal {
  behaviour: Behaviour
  /** The most runs that it works on at a time. */
  room: number
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
    room: Infinity,
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
  request: toValue<RunRequest>(run.request),
  results: run.resume === null ? null : toValue<ReadonlyArray<Schema.Json>>(run.resume.results)
})

/** The service's client for this core. */
const layerClient = Layer.effect(
  CoreClient,
  Effect.gen(function*() {
    const journal = yield* CoreJournal
    const scope = yield* Effect.scope
    const { tasks } = yield* MemoryTables
    /** The runs that the core works on. */
    const live = () =>
      journal.runs.filter(({ runId, taskId }) => {
        const row = tasks.get(TaskId.make(taskId))
        return row?.runId === runId && (row.status === "pending" || row.status === "processing")
      })
    const notify = Effect.suspend(() => {
      const { changed } = journal
      journal.changed = Deferred.makeUnsafe()
      return Deferred.succeed(changed, undefined)
    })
    return CoreClient.of({
      unreachable: () => Effect.succeed(undefined),
      start: Effect.fnUntraced(function*(run) {
        const { behaviour } = journal
        if (behaviour === "down") return yield* new CoreUnavailable({ reason: "status 503", retryAfter: null })
        const isKnown = journal.runs.some(({ runId }) => runId === run.runId)
        if (behaviour === "busy" || behaviour === 429 || (!isKnown && live().length >= journal.room)) {
          return yield* new CoreHasNoRoom({ status: 429, retryAfter: null })
        }
        if (typeof behaviour === "number") return yield* new CoreRefused({ status: behaviour })
        const started = describe(run)
        const record = Effect.suspend(() => {
          if (!journal.runs.some(({ runId }) => runId === started.runId)) journal.runs.push(started)
          return notify
        })
        // Report `processing` before a test can see the run, so that the test's events come later.
        yield* behaviour === "silent"
          ? record
          : Effect.forkIn(Effect.andThen(journal.onAccepted(started), record), scope)
      }),
      stop: (runId, reason) => Effect.andThen(Effect.sync(() => journal.stops.push({ runId, reason })), notify)
    })
  })
)

/** A turn with the output `text`. */
export const turnOf = (text: string): JsonObject => ({
  output: [{ type: "text", text }],
  messages: [{ role: "assistant", content: text }],
  metadata: { model: "test", finish_reason: "stop" }
})

const asTurn = (turn: string | JsonObject) => typeof turn === "string" ? turnOf(turn) : turn

/** Waits for runs. */
const makeWaits = Effect.gen(function*() {
  const journal = yield* CoreJournal
  const store = yield* TaskStore

  /** Waits until the core has the current run of a task, and returns it. */
  const runOf = Effect.fnUntraced(function*(uuid: string) {
    while (true) {
      const { changed } = journal
      const [head] = yield* Effect.orDie(store.heads([TaskId.make(uuid)]))
      if (head === undefined) return yield* Effect.die(new Error(`There is no task ${uuid}`))
      const run = journal.runs.find(({ runId }) => runId === head.runId)
      if (run !== undefined) return run
      yield* Deferred.await(changed)
    }
  })

  let taken = 0
  const nextRun = Effect.gen(function*() {
    while (true) {
      const { changed } = journal
      const run = journal.runs[taken]
      if (run === undefined) {
        yield* Deferred.await(changed)
        continue
      }
      taken += 1
      return run
    }
  })

  return { nextRun, runOf }
})

const make = Effect.gen(function*() {
  const journal = yield* CoreJournal
  const tasks = yield* Tasks
  const random = yield* SecureRandom.SecureRandom
  const turnReport = yield* TurnReport
  const settled = Effect.provideService(webhooksSent, MemoryTables, yield* MemoryTables)

  const readReport = (turn: OpaqueJson) => {
    if (turnReport === undefined) return null
    const bytes = encode(turn)
    return turnReport.read(scan(bytes, turnReport.shape).root, bytes)
  }
  const send = (run: Pick<StartedRun, "taskId" | "runId">, event: Unaddressed) =>
    Effect.flatMap(
      random.uuidV4(),
      (event_id) => tasks.report(toReport({ ...event, task_id: run.taskId, run_id: run.runId, event_id }, readReport))
    ).pipe(Effect.catchTag("StoreUnavailable", Effect.die))

  journal.onAccepted = (run) => Effect.ignore(send(run, { type: "processing" }))

  const { nextRun, runOf } = yield* makeWaits
  const report = (uuid: string, event: Unaddressed) =>
    runOf(uuid).pipe(
      Effect.flatMap((run) => send(run, event)),
      Effect.tap(settled)
    )

  return {
    /** Sets the response to new runs. Initially `accepts`. */
    behave: (behaviour: Behaviour) =>
      Effect.sync(() => {
        journal.behaviour = behaviour
      }),
    /** Sets how many runs the core works on at a time. To others it answers that it has no room. */
    limit: (room: number) =>
      Effect.sync(() => {
        journal.room = room
      }),
    /** All runs that the core received, oldest first. */
    runs: Effect.sync(() => [...journal.runs]),
    /** All runs that the service asked the core to stop, oldest first. */
    stops: Effect.sync(() => [...journal.stops]),
    runOf,
    /** The oldest run that `nextRun` has not returned yet; waits until the core receives it. */
    nextRun,
    /** Reports an event of the task's current run. Completes after the first attempt of its webhook. */
    report,
    processing: (uuid: string) => report(uuid, { type: "processing" }),
    progress: (uuid: string, turn: string | JsonObject) => report(uuid, { type: "progress", turn: asTurn(turn) }),
    complete: (uuid: string, turn: string | JsonObject) => report(uuid, { type: "completed", turn: asTurn(turn) }),
    fail: (uuid: string, code: FailureCode, message?: string) =>
      report(uuid, { type: "failed", code, message: message ?? null }),
    /** Reports an interrupt: the model calls client tools. `calls` maps a tool name to its arguments. */
    interrupt: (uuid: string, calls: Readonly<Record<string, JsonObject>>) => {
      const [first, ...others] = Object.entries(calls).map(([name, args]) => ({
        id: `call_${name}`,
        name,
        arguments: args
      }))
      return first === undefined
        ? Effect.die(new Error("An interrupt requires at least one call"))
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
