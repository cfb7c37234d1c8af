/** Runs that report nothing are dispatched again if their core declares it, under TestClock. */
import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect, Layer, Queue, Result } from "effect"
import { SecureRandom } from "effect/crypto"
import { TestClock } from "effect/testing"
import { CoreRefused } from "../../../src/domain/DispatchRetry.ts"
import { StoreUnavailable } from "../../../src/domain/StoreUnavailable.ts"
import { now, plus } from "../../../src/domain/Timestamp.ts"
import { TaskOwnership } from "../../../src/services/cluster/TaskOwnership.ts"
import type { Run } from "../../../src/services/core/CoreClient.ts"
import { TaskStore } from "../../../src/services/store/tasks/TaskStore.ts"
import { Tasks } from "../../../src/services/tasks/Tasks.ts"
import { commit, stored } from "../../kit/StoredTasks.ts"
import {
  accepts,
  answerTo,
  caller,
  callerOf,
  type CoreScript,
  envelope,
  question,
  reportTo,
  startedTask,
  statusOf,
  toolCall,
  turn,
  unavailable,
  withCore
} from "../../kit/TestTasks.ts"

type Core = Parameters<Parameters<typeof withCore>[1]>[0]
type Started = Effect.Success<ReturnType<typeof startedTask>>

/** The runs that the core has received since the last call. */
const received = ({ starts }: Core) => Effect.map(Queue.clear(starts), (runs) => runs.map(({ runId }) => runId))

const processing = ({ run, tasks }: Started) => reportTo(tasks, { ...envelope(run), type: "processing" })
const sign = ({ run, tasks }: Started) => reportTo(tasks, { ...envelope(run), type: "progress" })

/** A test with a task that is processing, whose core declares 60 s. */
const declared = <E>(
  script: Partial<CoreScript>,
  body: (core: Core, started: Started) => Effect.Effect<void, E, Tasks | TaskStore>
) =>
  withCore(
    { onStart: accepts, silence: 60, sweepInterval: Duration.seconds(1), ...script },
    (core) =>
      Effect.gen(function*() {
        const started = yield* startedTask(core.starts)
        yield* processing(started)
        yield* body(core, started)
      })
  )

describe("a silent run", () => {
  it.effect("is dispatched again with its id, then after twice the time, and so on, at most 10 min apart", () =>
    declared({}, (core, { run, uuid }) =>
      Effect.gen(function*() {
        const moments: Array<number> = []
        for (let second = 1; second <= 1510; second += 5) {
          yield* TestClock.adjust("5 seconds")
          for (const runId of yield* received(core)) {
            assert.strictEqual(runId, run.runId)
            moments.push(second)
          }
        }
        const pauses = moments.map((second, index) => second - (moments[index - 1] ?? 0))
        for (const [index, pause] of [60, 120, 240, 480, 600].entries()) {
          assert.closeTo(pauses[index] ?? NaN, pause, 10)
        }
        assert.lengthOf(moments, 5)
        assert.strictEqual(yield* statusOf(uuid), "processing")
      })))

  it.effect("of a core that may be silent for longer is dispatched again after no less", () =>
    declared({ silence: 3600 }, (core, started) =>
      Effect.gen(function*() {
        yield* TestClock.adjust("61 minutes")
        assert.lengthOf(yield* received(core), 1)
        yield* TestClock.adjust("58 minutes")
        assert.lengthOf(yield* received(core), 0)
        yield* TestClock.adjust("3 minutes")
        assert.lengthOf(yield* received(core), 1)
        assert.strictEqual(yield* statusOf(started.uuid), "processing")
      })))

  it.effect("is left alone when its core declares nothing", () =>
    declared({ silence: undefined }, (core) =>
      Effect.gen(function*() {
        yield* TestClock.adjust("10 minutes")
        assert.deepStrictEqual(yield* received(core), [])
      })))

  it.effect("is left alone while its task is pending, and once it is interrupted or has ended", () =>
    withCore({ onStart: accepts, silence: 10, sweepInterval: Duration.seconds(1) }, (core) =>
      Effect.gen(function*() {
        const started = yield* startedTask(core.starts)
        yield* TestClock.adjust("29 seconds")
        assert.deepStrictEqual(yield* received(core), [])
        yield* reportTo(started.tasks, { ...envelope(started.run), type: "interrupted", tool_calls: [toolCall] })
        const other = yield* startedTask(core.starts)
        yield* reportTo(other.tasks, { ...envelope(other.run), type: "completed", turn })
        yield* TestClock.adjust("10 minutes")
        assert.deepStrictEqual(yield* received(core), [])
      })))

  it.effect("may end as if nothing had happened, whichever of its executions reports first", () =>
    declared({}, (core, { run, tasks, uuid }) =>
      Effect.gen(function*() {
        yield* TestClock.adjust("65 seconds")
        assert.deepStrictEqual(yield* received(core), [run.runId])
        // The core numbers the events of the run from the start again.
        const completed = { task_id: run.taskId, run_id: run.runId, event_id: "1", type: "completed", turn } as const
        assert.deepStrictEqual(yield* reportTo(tasks, completed), { status: "completed", applied: true })
        const late = yield* Effect.result(
          reportTo(tasks, { ...completed, event_id: "2", type: "failed", code: "internal" })
        )
        assert.isTrue(Result.isFailure(late) && late.failure._tag === "RunSuperseded")
        assert.strictEqual(yield* statusOf(uuid), "completed")
        yield* TestClock.adjust("10 minutes")
        assert.deepStrictEqual(yield* received(core), [])
      })))

  it.effect("cannot report after another run has replaced it", () =>
    declared({}, (core, { run, tasks, uuid }) =>
      Effect.gen(function*() {
        yield* TestClock.adjust("65 seconds")
        yield* reportTo(tasks, { ...envelope(run), type: "interrupted", tool_calls: [toolCall] })
        const task = yield* tasks.get(caller.principal, uuid)
        yield* answerTo(tasks, caller, task, [{ tool_call_id: toolCall.id, output: 1 }])
        yield* TestClock.adjust("1 second")
        assert.strictEqual((yield* received(core)).length, 2)
        for (
          const event of [{ type: "completed", turn }, { type: "progress" }, {
            type: "failed",
            code: "internal"
          }] as const
        ) {
          const late = yield* Effect.result(reportTo(tasks, { ...envelope(run), ...event }))
          assert.isTrue(Result.isFailure(late) && late.failure._tag === "RunSuperseded")
        }
        assert.strictEqual(yield* statusOf(uuid), "processing")
      })))
})

describe("a run that lives", () => {
  it.effect("is not dispatched again: an event without effect is a sign of life too", () =>
    declared({}, (core, started) =>
      Effect.gen(function*() {
        const repeated = { ...envelope(started.run), type: "progress", turn } as const
        yield* reportTo(started.tasks, repeated)
        for (let minute = 0; minute < 60; minute++) {
          yield* TestClock.adjust("50 seconds")
          const { applied, status } = yield* minute % 2 === 0 ? sign(started) : reportTo(started.tasks, repeated)
          assert.deepStrictEqual({ applied, status }, { applied: false, status: "processing" })
        }
        assert.deepStrictEqual(yield* received(core), [])
        assert.include((yield* started.tasks.get(caller.principal, started.uuid)).turn, "output")
      })))

  it.effect("is dispatched after its silence alone once it has reported again", () =>
    declared({}, (core, started) =>
      Effect.gen(function*() {
        yield* TestClock.adjust("200 seconds")
        assert.lengthOf(yield* received(core), 2)
        yield* sign(started)
        yield* TestClock.adjust("59 seconds")
        assert.lengthOf(yield* received(core), 0)
        yield* TestClock.adjust("3 seconds")
        assert.lengthOf(yield* received(core), 1)
      })))

  it.effect("is not dispatched again when another node has heard of it", () =>
    declared({}, (core, { run }) =>
      Effect.gen(function*() {
        const store = yield* TaskStore
        for (let minute = 0; minute < 10; minute++) {
          yield* TestClock.adjust("50 seconds")
          // The commit alone, as another node makes it.
          const fence = { runId: run.runId, coreEventId: `sign ${minute}` }
          yield* store.commit(run.taskId, { _tag: "Accepted" }, yield* now, fence)
        }
        assert.deepStrictEqual(yield* received(core), [])
        yield* TestClock.adjust("63 seconds")
        assert.deepStrictEqual(yield* received(core), [run.runId])
      })))

  it.effect("is not ended by any answer to a repeated dispatch, nor dispatched once it has reported", () => {
    const refuse = () => Effect.fail(new CoreRefused({ status: 409 }))
    let answer: () => ReturnType<CoreScript["onStart"]> = accepts
    return declared({ onStart: () => answer() }, (core, started) =>
      Effect.gen(function*() {
        answer = refuse
        yield* TestClock.adjust("10 minutes")
        assert.isAbove((yield* received(core)).length, 2)
        assert.strictEqual(yield* statusOf(started.uuid), "processing")
        yield* sign(started)
        answer = unavailable
        yield* TestClock.adjust("65 seconds")
        assert.isAbove((yield* received(core)).length, 2)
        yield* sign(started)
        yield* TestClock.adjust("6 seconds")
        yield* received(core)
        yield* TestClock.adjust("30 seconds")
        assert.deepStrictEqual(yield* received(core), [])
        yield* reportTo(started.tasks, { ...envelope(started.run), type: "completed", turn })
        assert.strictEqual(yield* statusOf(started.uuid), "completed")
      }))
  })

  it.effect("counts from the core's answer on a node that has recovered it, however old its last event is", () => {
    let isMine = false
    const layerOwnership = Layer.effect(
      TaskOwnership,
      Effect.map(TaskOwnership, (alone) => ({ ...alone, isMine: () => isMine }))
    ).pipe(Layer.provide(TaskOwnership.layerAlone))
    return withCore(
      { onStart: accepts, silence: 60, sweepInterval: Duration.seconds(1), layerOwnership },
      (core) =>
        Effect.gen(function*() {
          const { uuid } = yield* stored({ userToken: "user-token:text", deadline: plus(yield* now, "1 hour") })
          yield* commit(uuid, "Accepted")
          yield* TestClock.adjust("10 minutes")
          assert.lengthOf(yield* received(core), 0)
          isMine = true
          yield* TestClock.adjust("2 seconds")
          assert.lengthOf(yield* received(core), 1)
          yield* TestClock.adjust("56 seconds")
          assert.lengthOf(yield* received(core), 0)
          yield* TestClock.adjust("5 seconds")
          assert.lengthOf(yield* received(core), 1)
        }).pipe(Effect.provide(SecureRandom.layerWebCrypto))
    )
  })

  it.effect("whose recovery was refused is dispatched again once the core has declared for another one", () => {
    let isMine = false
    const layerOwnership = Layer.effect(
      TaskOwnership,
      Effect.map(TaskOwnership, (alone) => ({ ...alone, isMine: () => isMine }))
    ).pipe(Layer.provide(TaskOwnership.layerAlone))
    let answer: () => ReturnType<CoreScript["onStart"]> = () => Effect.fail(new CoreRefused({ status: 400 }))
    return withCore(
      { onStart: () => answer(), silence: 60, sweepInterval: Duration.seconds(1), layerOwnership },
      (core) =>
        Effect.gen(function*() {
          const { runId, uuid } = yield* stored({ userToken: "user-token:text", deadline: plus(yield* now, "1 hour") })
          yield* commit(uuid, "Accepted")
          isMine = true
          yield* TestClock.adjust("2 seconds")
          assert.deepStrictEqual(yield* received(core), [runId])
          answer = accepts
          const other = yield* startedTask(core.starts)
          yield* processing(other)
          yield* TestClock.adjust("62 seconds")
          assert.include(yield* received(core), runId)
        }).pipe(Effect.provide(SecureRandom.layerWebCrypto))
    )
  })

  it.effect("is not dispatched again because the database was away", () => {
    let isAway = false
    const away = Effect.fail(new StoreUnavailable({ cause: "away" }))
    return declared({
      withStore: (scans) => ({ ...scans, overdue: (...call) => isAway ? away : scans.overdue(...call) })
    }, (core, started) =>
      Effect.gen(function*() {
        yield* TestClock.adjust("50 seconds")
        isAway = true
        yield* TestClock.adjust("2 minutes")
        isAway = false
        yield* TestClock.adjust("50 seconds")
        assert.deepStrictEqual(yield* received(core), [])
        yield* sign(started)
        yield* TestClock.adjust("50 seconds")
        assert.deepStrictEqual(yield* received(core), [])
      }))
  })
})

const startedTaskOf = Effect.fnUntraced(function*(core: Core, one: typeof caller) {
  const tasks = yield* Tasks
  const { uuid } = yield* tasks.create(one, question)
  return { tasks, uuid, run: yield* Queue.take(core.starts) }
})

describe("many silent runs", () => {
  it.effect("are all dispatched again, each once, and begin again", () =>
    withCore({ onStart: accepts, silence: 60, sweepInterval: Duration.seconds(1) }, (core) =>
      Effect.gen(function*() {
        const callers = Array.from({ length: 40 }, (_, n) => callerOf(`user-${n}`))
        const begun: Array<Run> = []
        let tasks: Started["tasks"] | undefined
        for (const one of callers) {
          for (let n = 0; n < 5; n++) {
            const started = yield* startedTaskOf(core, one)
            tasks = started.tasks
            yield* processing(started)
            begun.push(started.run)
          }
        }
        yield* TestClock.adjust("70 seconds")
        const again = yield* received(core)
        assert.lengthOf(again, 200)
        assert.strictEqual(new Set(again).size, 200)
        for (const run of begun) yield* reportTo(tasks!, { ...envelope(run), type: "completed", turn })
        yield* TestClock.adjust("10 minutes")
        assert.deepStrictEqual(yield* received(core), [])
      })))
})

describe("a core that declares 10 s and works 60 s before its event", () => {
  const declares10 = { onStart: accepts, silence: 10, sweepInterval: Duration.seconds(1) }

  it.effect("has a new run once, whose task fails after 30 s: its answer accepts nothing", () =>
    withCore(declares10, (core) =>
      Effect.gen(function*() {
        const started = yield* startedTask(core.starts)
        yield* TestClock.adjust("60 seconds")
        assert.deepStrictEqual(yield* received(core), [])
        assert.strictEqual(
          yield* statusOf(started.uuid),
          "failed: Task was not accepted by the processing core within 30 s"
        )
        const late = yield* Effect.result(processing(started))
        assert.isTrue(Result.isFailure(late) && late.failure._tag === "RunSuperseded")
      })))

  // The answers to what it gets again: it knows the run, refuses the repetition, or is busy for an hour.
  const busy = unavailable(Duration.hours(1))
  const answers: Record<string, ReturnType<CoreScript["onStart"]>> = {
    "2xx": Effect.void,
    "400": Effect.fail(new CoreRefused({ status: 400 })),
    "429": busy
  }
  for (const [name, answer] of Object.entries(answers)) {
    for (const isResumed of [false, true]) {
      it.effect(`keeps its ${isResumed ? "resumed" : "accepted"} run, which it gets again, and answers ${name} to that`, () =>
        withCore(
          { ...declares10, onStart: (_, attempt) => attempt === 1 ? Effect.void : answer },
          (core) =>
            Effect.gen(function*() {
              const started = yield* startedTask(core.starts)
              const { tasks, uuid } = started
              let { run } = started
              if (isResumed) {
                yield* reportTo(tasks, { ...envelope(run), type: "interrupted", tool_calls: [toolCall] })
                const task = yield* tasks.get(caller.principal, uuid)
                yield* answerTo(tasks, caller, task, [{ tool_call_id: toolCall.id, output: 1 }])
                run = yield* Queue.take(core.starts)
              } else yield* processing(started)
              yield* TestClock.adjust("60 seconds")
              assert.deepStrictEqual(yield* received(core), name === "429" ? [run.runId] : [run.runId, run.runId])
              assert.strictEqual(yield* statusOf(uuid), "processing")
              // A sign of life does not hold up what follows from the next silence, although the core asked for an hour.
              yield* reportTo(tasks, { ...envelope(run), type: "progress" })
              yield* TestClock.adjust("70 seconds")
              assert.include(yield* received(core), run.runId)
              yield* reportTo(tasks, { ...envelope(run), type: "completed", turn })
              assert.strictEqual(yield* statusOf(uuid), "completed")
              yield* TestClock.adjust("1 minute")
              assert.deepStrictEqual(yield* received(core), [])
            })
        ))
    }
  }
})
