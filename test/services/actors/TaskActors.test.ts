import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect, Logger, Queue } from "effect"
import { TestClock } from "effect/testing"
import { CoreRefused } from "../../../src/domain/DispatchRetry.ts"
import { TaskActors } from "../../../src/services/actors/TaskActors.ts"
import { Tasks } from "../../../src/services/tasks/Tasks.ts"
import {
  accepts,
  caller,
  callerOf,
  question,
  startedTask,
  statusOf,
  unavailable,
  withCore
} from "../../kit/TestTasks.ts"

describe("acceptance", () => {
  it.effect("fails a task that the core does not accept within 30 s, and sends a stop", () =>
    withCore({ onStart: accepts }, ({ starts, stops }) =>
      Effect.gen(function*() {
        const { run, uuid } = yield* startedTask(starts)
        yield* TestClock.adjust("29999 millis")
        assert.strictEqual(yield* statusOf(uuid), "pending")
        yield* TestClock.adjust("1 millis")
        assert.strictEqual(
          yield* statusOf(uuid),
          "failed: Task was not accepted by the processing core within 30 s"
        )
        yield* TestClock.adjust("1 second")
        assert.deepStrictEqual(yield* Queue.take(stops), { runId: run.runId, reason: "not_accepted" })
      })))

  for (const answers of [true, false]) {
    it.effect(`${answers ? "is" : "is not"} said in the log to take an event, when the core ${answers ? "answers" : "does not answer"} the start`, () => {
      const lines: Array<string> = []
      const logger = Logger.make(({ message }) => void lines.push(String(message)))
      return withCore({ onStart: answers ? accepts : () => unavailable() }, ({ starts }) =>
        Effect.gen(function*() {
          yield* startedTask(starts)
          yield* TestClock.adjust("31 seconds")
          const said = lines.filter((line) => line.includes("Only an event accepts a run"))
          assert.lengthOf(said, answers ? 1 : 0)
          if (answers) assert.include(said[0], "within 30s")
        })).pipe(Effect.provide(Logger.layer([logger])))
    })
  }
})

describe("dispatch", () => {
  it.effect("retries the same run with backoff while the core is unavailable", () =>
    withCore(
      { onStart: (_, attempt) => attempt < 4 ? unavailable() : Effect.void },
      ({ starts }) =>
        Effect.gen(function*() {
          const tasks = yield* Tasks
          yield* tasks.create(caller, question)
          const first = yield* Queue.take(starts)
          yield* TestClock.adjust("5 seconds")
          const others = yield* Queue.takeAll(starts)
          assert.deepStrictEqual(others.map(({ runId }) => runId), [first.runId, first.runId, first.runId])
        })
    ))

  it.effect("follows Retry-After", () =>
    withCore(
      { onStart: (_, attempt) => attempt === 1 ? unavailable(Duration.seconds(20)) : Effect.void },
      ({ starts }) =>
        Effect.gen(function*() {
          const tasks = yield* Tasks
          yield* tasks.create(caller, question)
          yield* Queue.take(starts)
          yield* TestClock.adjust("19 seconds")
          assert.strictEqual(yield* Queue.size(starts), 0)
          yield* TestClock.adjust("1 second")
          assert.strictEqual(yield* Queue.size(starts), 1)
        })
    ))

  it.effect("releases an ended task, whatever the Retry-After", () =>
    withCore({ onStart: () => unavailable(Duration.hours(12)) }, ({ starts }) =>
      Effect.gen(function*() {
        const tasks = yield* Tasks
        const actors = yield* TaskActors
        const callers = Array.from({ length: 60 }, (_, n) => callerOf(`crowd-${n}`))
        yield* Effect.forEach(callers.flatMap((one) => [one, one, one, one, one]), (one) => tasks.create(one, question))
        yield* TestClock.adjust("2 minutes")
        assert.strictEqual((yield* actors.load).tasks, 0)
        assert.strictEqual(yield* Queue.size(starts), 600)
      })))

  it.effect("fails the task immediately when the core refuses the run, and sends a stop for earlier attempts", () =>
    withCore({
      onStart: (_, attempt) => attempt === 1 ? unavailable() : Effect.fail(new CoreRefused({ status: 400 }))
    }, ({ starts, stops }) =>
      Effect.gen(function*() {
        const { run, uuid } = yield* startedTask(starts)
        yield* TestClock.adjust("1 second")
        assert.strictEqual(yield* statusOf(uuid), "failed: Task processing failed")
        assert.deepStrictEqual(yield* Queue.take(stops), { runId: run.runId, reason: "refused" })
      })))

  it.effect("sets the acceptance deadline of each task at its first attempt when many are created together", () =>
    withCore({ onStart: () => Effect.sleep("9 seconds") }, ({ starts }) =>
      Effect.gen(function*() {
        const tasks = yield* Tasks
        const callers = Array.from({ length: 1500 }, (_, n) => callerOf(`burst-${n}`))
        const created = yield* Effect.forEach(
          callers,
          (one) => Effect.map(tasks.create(one, question), ({ uuid }) => [one, uuid] as const),
          { concurrency: "unbounded" }
        )
        yield* TestClock.adjust("5 minutes")
        assert.strictEqual(yield* Queue.size(starts), 1500)
        for (const [{ principal }, uuid] of created) {
          assert.include((yield* tasks.get(principal, uuid)).error, "not accepted")
        }
      })))
})

describe("stop", () => {
  it.effect("is retried until the core accepts it", () => {
    let down = true
    return withCore(
      { onStart: accepts, onStop: () => down ? unavailable() : Effect.succeed(true) },
      ({ starts, stops }) =>
        Effect.gen(function*() {
          const tasks = yield* Tasks
          yield* tasks.create(caller, { ...question, maxExecutionTime: 10 })
          yield* Queue.take(starts)
          yield* TestClock.adjust("1 hour")
          assert.isAbove((yield* Queue.takeAll(stops)).length, 10)
          down = false
          yield* TestClock.adjust("2 minutes")
          assert.strictEqual((yield* Queue.takeAll(stops)).length, 1)
          yield* TestClock.adjust("1 hour")
          assert.strictEqual(yield* Queue.size(stops), 0)
        })
    )
  })

  it.effect("is sent again when the core was away and then did not know the run, which may still start", () => {
    const answers = [unavailable(), Effect.succeed(false)]
    return withCore(
      { onStart: accepts, onStop: () => answers.shift() ?? Effect.succeed(true) },
      ({ starts, stops }) =>
        Effect.gen(function*() {
          const tasks = yield* Tasks
          yield* tasks.create(caller, { ...question, maxExecutionTime: 10 })
          // Its end wakes the outbox three seconds after the first one's.
          yield* tasks.create(caller, { ...question, maxExecutionTime: 13 })
          const { runId } = yield* Queue.take(starts)
          yield* TestClock.adjust("1 hour")
          assert.lengthOf((yield* Queue.takeAll(stops)).filter((stop) => stop.runId === runId), 3)
        })
    )
  })

  it.effect("is sent once more when the core does not know the run, which another node may be starting", () =>
    withCore({ onStart: accepts, onStop: () => Effect.succeed(false) }, ({ starts, stops }) =>
      Effect.gen(function*() {
        const tasks = yield* Tasks
        yield* tasks.create(caller, { ...question, maxExecutionTime: 10 })
        yield* Queue.take(starts)
        yield* TestClock.adjust("11 seconds")
        assert.strictEqual((yield* Queue.takeAll(stops)).length, 1)
        yield* TestClock.adjust("1 hour")
        assert.strictEqual((yield* Queue.takeAll(stops)).length, 1)
      })))
})
