import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect, Queue } from "effect"
import { TestClock } from "effect/testing"
import { CoreRefused } from "../../../src/domain/DispatchRetry.ts"
import { OpaqueJson } from "../../../src/domain/OpaqueJson.ts"
import { now } from "../../../src/domain/Timestamp.ts"
import { TaskActors } from "../../../src/services/actors/TaskActors.ts"
import { Tasks } from "../../../src/services/Tasks.ts"
import {
  accepts,
  answerTo,
  caller,
  callerOf,
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

describe("acceptance", () => {
  it.effect("dispatches a new task immediately, with all fields of the run", () =>
    withCore({ onStart: accepts }, ({ starts }) =>
      Effect.gen(function*() {
        const { run, tasks, uuid } = yield* startedTask(starts)
        assert.strictEqual(run.taskId, uuid)
        assert.strictEqual(run.principal.sub, "ann")
        assert.deepStrictEqual(JSON.parse(run.request), {
          assistant_id: 1,
          input: [{ type: "text", text: "Why?" }],
          turns: [],
          client_tools: [],
          llm_model_id: null,
          image_generator_id: null
        })
        yield* reportTo(tasks, { ...envelope(run), type: "processing" })
        assert.strictEqual(yield* statusOf(uuid), "processing")
      })))

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

  it.effect("ends at the acceptance deadline when the core stays unavailable", () =>
    withCore({ onStart: () => unavailable() }, ({ starts }) =>
      Effect.gen(function*() {
        const tasks = yield* Tasks
        const { uuid } = yield* tasks.create(caller, question)
        yield* TestClock.adjust("30 seconds")
        assert.match(yield* statusOf(uuid), /^failed: Task was not accepted/)
        yield* TestClock.adjust("10 seconds")
        yield* Queue.clear(starts)
        yield* TestClock.adjust("1 hour")
        assert.strictEqual(yield* Queue.size(starts), 0)
      })))

  it.effect("releases an ended task, whatever the Retry-After", () =>
    withCore({ onStart: () => unavailable(Duration.hours(12)) }, ({ starts }) =>
      Effect.gen(function*() {
        const tasks = yield* Tasks
        const actors = yield* TaskActors
        const callers = Array.from({ length: 60 }, (_, n) => callerOf(`crowd-${n}`))
        yield* Effect.forEach(callers.flatMap((one) => [one, one, one, one, one]), (one) => tasks.create(one, question))
        yield* TestClock.adjust("2 minutes")
        assert.strictEqual((yield* actors.load).tasks, 0)
        assert.strictEqual(yield* Queue.size(starts), 300)
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

describe("time limit", () => {
  it.effect("counts from creation, keeps partial output and sends a stop", () =>
    withCore({ onStart: accepts }, ({ starts, stops }) =>
      Effect.gen(function*() {
        const tasks = yield* Tasks
        const { uuid } = yield* tasks.create(caller, { ...question, max_execution_time: 3600 })
        const run = yield* Queue.take(starts)
        yield* reportTo(tasks, { ...envelope(run), type: "progress", turn })
        yield* TestClock.adjust("3599 seconds")
        assert.strictEqual(yield* statusOf(uuid), "processing")
        yield* TestClock.adjust("1 second")
        const task = yield* tasks.get(caller.principal, uuid)
        assert.strictEqual(task.error, "Task exceeded maximum execution time (3600s)")
        assert.strictEqual(task.turn, JSON.stringify(turn))
        assert.strictEqual(task.completedAt, yield* now)
        yield* TestClock.adjust("1 second")
        assert.deepStrictEqual(yield* Queue.take(stops), { runId: run.runId, reason: "time_limit_exceeded" })
        const actors = yield* TaskActors
        assert.strictEqual((yield* actors.load).tasks, 0)
      })))

  it.effect(
    "applies while the task is interrupted for a weekend",
    () =>
      withCore({ onStart: accepts }, ({ starts }) =>
        Effect.gen(function*() {
          const { run, tasks, uuid } = yield* startedTask(starts)
          yield* reportTo(tasks, { ...envelope(run), type: "interrupted", tool_calls: [toolCall] })
          yield* TestClock.adjust("23 hours")
          assert.strictEqual(yield* statusOf(uuid), "interrupted")
          yield* TestClock.adjust("2 days")
          assert.strictEqual(yield* statusOf(uuid), "failed: Task exceeded maximum execution time (86400s)")
        })),
    20_000
  )
})

describe("interrupt and resume", () => {
  it.effect("sends the core's state and the results with the new run, and rejects events of the old run", () =>
    withCore({ onStart: accepts }, ({ starts }) =>
      Effect.gen(function*() {
        const { run: first, tasks, uuid } = yield* startedTask(starts)
        yield* reportTo(tasks, { ...envelope(first), type: "interrupted", tool_calls: [toolCall], state: { at: 1 } })
        const task = yield* tasks.get(caller.principal, uuid)
        yield* answerTo(tasks, caller, task, [{ tool_call_id: "c1", output: 42 }])
        const second = yield* Queue.take(starts)
        assert.notStrictEqual(second.runId, first.runId)
        assert.deepStrictEqual(second.resume, {
          state: OpaqueJson.make(`{"at":1}`),
          results: OpaqueJson.make(`[{"tool_call_id":"c1","output":42}]`)
        })
        const late = yield* Effect.flip(reportTo(tasks, { ...envelope(first), type: "completed", turn }))
        assert.strictEqual(late._tag, "RunSuperseded")
        yield* reportTo(tasks, { ...envelope(second), type: "completed", turn })
        assert.strictEqual(yield* statusOf(uuid), "completed")
      })))

  it.effect("rejects results that do not answer each pending call exactly once", () =>
    withCore({ onStart: accepts }, ({ starts }) =>
      Effect.gen(function*() {
        const { run, tasks, uuid } = yield* startedTask(starts)
        yield* reportTo(tasks, {
          ...envelope(run),
          type: "interrupted",
          tool_calls: [toolCall, { ...toolCall, id: "c2" }]
        })
        const task = yield* tasks.get(caller.principal, uuid)
        const wrong = yield* Effect.flip(answerTo(tasks, caller, task, [
          { tool_call_id: "c1", output: 1 },
          { tool_call_id: "c1", output: 2 },
          { tool_call_id: "c9", output: 3 }
        ]))
        assert.strictEqual(wrong._tag, "ToolResultsMismatch")
        if (wrong._tag === "ToolResultsMismatch") {
          assert.deepStrictEqual(wrong.problems.map((p) => p.index), [1, 2, null])
        }
        assert.strictEqual(yield* statusOf(uuid), "interrupted")
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
          yield* tasks.create(caller, { ...question, max_execution_time: 10 })
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
          yield* tasks.create(caller, { ...question, max_execution_time: 10 })
          // Its end wakes the outbox three seconds after the first one's.
          yield* tasks.create(caller, { ...question, max_execution_time: 13 })
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
        yield* tasks.create(caller, { ...question, max_execution_time: 10 })
        yield* Queue.take(starts)
        yield* TestClock.adjust("11 seconds")
        assert.strictEqual((yield* Queue.takeAll(stops)).length, 1)
        yield* TestClock.adjust("1 hour")
        assert.strictEqual((yield* Queue.takeAll(stops)).length, 1)
      })))
})
