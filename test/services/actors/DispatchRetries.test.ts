/** No answer of the core keeps the service from using the time that a task has. */
import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect, Queue } from "effect"
import { TestClock } from "effect/testing"
import { now, type Timestamp } from "../../../src/domain/Timestamp.ts"
import { Tasks } from "../../../src/services/tasks/Tasks.ts"
import {
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
  unavailable,
  withCore
} from "../../kit/TestTasks.ts"

/** Seconds after the first attempt at which a run is dispatched, from a core that answers each attempt as `onStart` says. */
const recorded = (onStart: CoreScript["onStart"]) => {
  const moments: Array<Timestamp> = []
  return {
    seconds: () => moments.map((moment) => (moment - moments[0]!) / 1_000_000),
    onStart:
      ((run, attempt) =>
        Effect.andThen(Effect.map(now, (at) => moments.push(at)), onStart(run, attempt))) satisfies CoreScript[
          "onStart"
        ]
  }
}

const within = (maxExecutionTime: number) => ({ ...question, maxExecutionTime })

describe("a core that answers 503 with Retry-After", () => {
  for (const retryAfter of ["29 seconds", "31 seconds", "120 seconds", "12 hours", "10000 days"] as const) {
    it.effect(`once, ${retryAfter}, gets the run once more before the acceptance deadline, in time to accept it`, () => {
      const { onStart, seconds } = recorded((_, attempt) =>
        attempt === 1 ? unavailable(Duration.fromInputUnsafe(retryAfter)) : Effect.void
      )
      return withCore({ onStart }, ({ starts }) =>
        Effect.gen(function*() {
          const tasks = yield* Tasks
          const { uuid } = yield* tasks.create(caller, question)
          yield* TestClock.adjust("29 seconds")
          assert.deepStrictEqual(seconds(), [0, 28])
          const run = yield* Queue.take(starts)
          yield* reportTo(tasks, { ...envelope(run), type: "processing" })
          yield* TestClock.adjust("1 minute")
          assert.strictEqual(yield* statusOf(uuid), "processing")
        }))
    })
  }

  it.effect("each time gets one more attempt, and the task fails at its deadline", () => {
    const { onStart, seconds } = recorded(() => unavailable(Duration.seconds(120)))
    return withCore({ onStart }, () =>
      Effect.gen(function*() {
        const tasks = yield* Tasks
        const { uuid } = yield* tasks.create(caller, question)
        yield* TestClock.adjust("29999 millis")
        assert.strictEqual(yield* statusOf(uuid), "pending")
        yield* TestClock.adjust("1 milli")
        assert.include(yield* statusOf(uuid), "was not accepted by the processing core within 30 s")
        yield* TestClock.adjust("5 minutes")
        assert.deepStrictEqual(seconds(), [0, 28])
      }))
  })

  it.effect("gets the run when it asked for it while that leaves time, however often it asks", () => {
    const { onStart, seconds } = recorded((_, attempt) => attempt < 4 ? unavailable(Duration.seconds(9)) : Effect.void)
    return withCore({ onStart }, () =>
      Effect.gen(function*() {
        yield* (yield* Tasks).create(caller, question)
        yield* TestClock.adjust("1 minute")
        assert.deepStrictEqual(seconds(), [0, 9, 18, 27])
      }))
  })

  it.effect("gets a run once more before a time limit that is nearer than the acceptance deadline", () => {
    const { onStart, seconds } = recorded(() => unavailable(Duration.seconds(120)))
    return withCore({ onStart }, () =>
      Effect.gen(function*() {
        yield* (yield* Tasks).create(caller, within(2))
        yield* TestClock.adjust("1 minute")
        assert.deepStrictEqual(seconds(), [0, 1.5])
      }))
  })

  it.effect("gets a resumed run at least once a minute, and once more before its time limit", () => {
    const { onStart, seconds } = recorded(({ resume }) =>
      resume === null ? Effect.void : unavailable(Duration.hours(12))
    )
    return withCore({ onStart }, ({ starts }) =>
      Effect.gen(function*() {
        const tasks = yield* Tasks
        const { uuid } = yield* tasks.create(caller, within(150))
        const run = yield* Queue.take(starts)
        yield* reportTo(tasks, { ...envelope(run), type: "interrupted", tool_calls: [toolCall] })
        const task = yield* tasks.get(caller.principal, uuid)
        yield* answerTo(tasks, caller, task, [{ tool_call_id: "c1", output: 1 }])
        yield* TestClock.adjust("10 minutes")
        assert.deepStrictEqual(seconds(), [0, 0, 60, 120, 148])
        assert.strictEqual(yield* statusOf(uuid), "failed: Task exceeded maximum execution time (150s)")
      }))
  })

  it.effect("delays no other run", () =>
    withCore(
      { onStart: ({ principal }) => principal.sub === "ann" ? unavailable(Duration.hours(1)) : Effect.void },
      ({ starts }) =>
        Effect.gen(function*() {
          const tasks = yield* Tasks
          yield* tasks.create(caller, question)
          yield* Queue.take(starts)
          yield* tasks.create(callerOf("bob"), question)
          yield* Queue.take(starts)
        })
    ))
})

describe("a core that is away", () => {
  it.effect("gets a run until shortly before its acceptance deadline, at growing intervals up to 5 s", () => {
    const { onStart, seconds } = recorded(() => unavailable())
    return withCore({ onStart }, () =>
      Effect.gen(function*() {
        yield* (yield* Tasks).create(caller, question)
        yield* TestClock.adjust("2 minutes")
        const found = seconds()
        assert.isAtLeast(found.at(-1)!, 28)
        assert.isBelow(found.at(-1)!, 30)
        assert.isAbove(found.length, 8)
        assert.isBelow(found.length, 16)
      }))
  })

  it.effect("gets a run again that was accepted after its last attempt", () => {
    const { onStart, seconds } = recorded((_, attempt) =>
      attempt < 3 ? unavailable(Duration.seconds(120)) : Effect.void
    )
    return withCore({ onStart }, ({ starts }) =>
      Effect.gen(function*() {
        const tasks = yield* Tasks
        const { uuid } = yield* tasks.create(caller, question)
        const run = yield* Queue.take(starts)
        yield* TestClock.adjust("29 seconds")
        // The core has the run: its answers were lost, or come from another instance.
        yield* reportTo(tasks, { ...envelope(run), type: "processing" })
        yield* TestClock.adjust("1 minute")
        assert.deepStrictEqual(seconds(), [0, 28, 31])
        assert.strictEqual(yield* statusOf(uuid), "processing")
      }))
  })

  it.effect("gets no run of a task that has ended", () => {
    const { onStart, seconds } = recorded(() => unavailable(Duration.seconds(5)))
    return withCore({ onStart }, ({ starts }) =>
      Effect.gen(function*() {
        const { tasks, uuid } = yield* startedTask(starts)
        yield* tasks.withdraw(yield* tasks.getHead(caller.principal, uuid), null)
        yield* TestClock.adjust("1 minute")
        assert.deepStrictEqual(seconds(), [0])
      }))
  })
})
