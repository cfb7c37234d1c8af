import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit, Layer, Queue } from "effect"
import { SecureRandom } from "effect/crypto"
import { TestClock } from "effect/testing"
import { StoreUnavailable } from "../../../src/domain/StoreUnavailable.ts"
import type { TaskId } from "../../../src/domain/Task.ts"
import { monotonicMillis, now, plus } from "../../../src/domain/Timestamp.ts"
import { TaskSweeper } from "../../../src/services/actors/TaskSweeper.ts"
import { TaskOwnership } from "../../../src/services/cluster/TaskOwnership.ts"
import { Changes } from "../../../src/services/signals/Changes.ts"
import { Tasks } from "../../../src/services/tasks/Tasks.ts"
import { commit, stored } from "../../kit/StoredTasks.ts"
import {
  accepts,
  answerTo,
  caller,
  callerOf,
  envelope,
  interruptedTask,
  question,
  reportTo,
  statusOf,
  toolCall,
  withCore
} from "../../kit/TestTasks.ts"

const connectionLost = Effect.fail(new StoreUnavailable({ cause: "connection lost" }))

describe("during a fault of the store, the service", () => {
  it.effect("delays a resume and strands no task", () => {
    let faults = 3
    return withCore({
      onStart: accepts,
      withStore: (reads) => ({
        ...reads,
        pendingRun: (uuid) => Effect.suspend(() => faults-- > 0 ? connectionLost : reads.pendingRun(uuid))
      })
    }, ({ starts }) =>
      Effect.gen(function*() {
        const tasks = yield* Tasks
        const { run: first, task } = yield* interruptedTask(starts)
        yield* answerTo(tasks, caller, task, [{ tool_call_id: "c1", output: 1 }])
        yield* TestClock.adjust("10 seconds")
        assert.strictEqual(faults, -1)
        assert.notStrictEqual((yield* Queue.take(starts)).runId, first.runId)
      }))
  })

  it.effect("dispatches a task once when a sweep reads its row before the reply to its create", () => {
    return withCore({
      onStart: accepts,
      withStore: (writes) => ({
        ...writes,
        create: (...args) => Effect.tap(writes.create(...args), () => Effect.sleep("10 seconds"))
      })
    }, ({ starts }) =>
      Effect.gen(function*() {
        const tasks = yield* Tasks
        yield* TestClock.adjust("55 seconds")
        yield* Effect.forkChild(tasks.create(caller, question))
        yield* TestClock.adjust("20 seconds")
        assert.lengthOf(yield* Queue.takeAll(starts), 1)
      }))
  })

  for (const reader of ["the sweep", "a report of the core"]) {
    it.effect(`dispatches a resumed run when the reply of the commit is lost and ${reader} reads the new head first`, () => {
      let isLost = false
      return withCore({
        onStart: accepts,
        withStore: (writes) => ({
          ...writes,
          commit: (...args) => {
            if (args[1]._tag !== "ToolResultsSubmitted" || isLost) return writes.commit(...args)
            isLost = true
            return Effect.andThen(writes.commit(...args), connectionLost)
          }
        })
      }, ({ starts }) =>
        Effect.gen(function*() {
          const tasks = yield* Tasks
          const { interrupt, run: first, task } = yield* interruptedTask(starts)
          const answer = answerTo(tasks, caller, task, [{ tool_call_id: "c1", output: 1 }])
          assert.isTrue(Exit.isFailure(yield* Effect.exit(answer)))
          if (reader === "a report of the core") yield* reportTo(tasks, interrupt)
          assert.strictEqual(yield* statusOf(task.uuid), "processing")
          yield* TestClock.adjust("1 minute")
          assert.notStrictEqual((yield* Queue.take(starts)).runId, first.runId)
        }))
    })
  }

  it.effect("ends a task in time when it was interrupted without the actor's knowledge and both its deadlines coincide", () =>
    withCore({
      onStart: accepts,
      withStore: (writes) => ({
        ...writes,
        commit: (...args) =>
          args[1]._tag === "Interrupted"
            ? Effect.andThen(writes.commit(...args), connectionLost)
            : writes.commit(...args)
      })
    }, ({ starts }) =>
      Effect.gen(function*() {
        const tasks = yield* Tasks
        const { uuid } = yield* tasks.create(caller, { ...question, maxExecutionTime: 30 })
        const run = yield* Queue.take(starts)
        const interrupt = { ...envelope(run), type: "interrupted", tool_calls: [toolCall] } as const
        assert.isTrue(Exit.isFailure(yield* Effect.exit(reportTo(tasks, interrupt))))
        yield* TestClock.adjust("30 seconds")
        assert.strictEqual(yield* statusOf(uuid), "failed: Task exceeded maximum execution time (30s)")
      })))

  it.effect("ends a task in time that another process created and interrupted", () =>
    withCore({ onStart: accepts }, () =>
      Effect.gen(function*() {
        const { principal } = caller
        const { uuid } = yield* stored({ principal, maxExecutionTime: 150, deadline: plus(yield* now, "150 seconds") })
        yield* commit(uuid, "Interrupted")
        yield* TestClock.adjust("150 seconds")
        assert.strictEqual(yield* statusOf(uuid), "failed: Task exceeded maximum execution time (150s)")
      }).pipe(Effect.provide(SecureRandom.layerWebCrypto))))

  it.effect("sweeps the other tasks when one task cannot be ended, and tries that one at a steady rate", () => {
    let stuck = ""
    let attempts = 0
    return withCore({
      onStart: accepts,
      withStore: (writes) => ({
        ...writes,
        commit: (...args) =>
          Effect.suspend(() => {
            if (args[0] === stuck) attempts++
            return args[0] === stuck ? connectionLost : writes.commit(...args)
          })
      })
    }, () =>
      Effect.gen(function*() {
        const tasks = yield* Tasks
        const sweeper = yield* TaskSweeper
        const { uuid } = yield* tasks.create(caller, { ...question, maxExecutionTime: 1 })
        stuck = uuid
        yield* TestClock.adjust("10 minutes")
        assert.strictEqual(yield* statusOf(uuid), "pending")
        assert.strictEqual(yield* sweeper.lastProgress, yield* monotonicMillis)
        // Every 2 s by its actor and every minute by the sweep.
        assert.isBelow(attempts, 330)
        stuck = ""
        yield* TestClock.adjust("1 minute")
        assert.include(yield* statusOf(uuid), "failed")
      }))
  })

  it.effect("starts the acceptance deadline of a dispatch that waited for its slot", () => {
    let faults = 3
    return withCore({
      onStart: () => Effect.sleep("35 seconds"),
      withStore: (writes) => ({
        ...writes,
        startAcceptance: (...args) =>
          Effect.suspend(() => faults-- > 0 ? connectionLost : writes.startAcceptance(...args))
      })
    }, ({ starts }) =>
      Effect.gen(function*() {
        const tasks = yield* Tasks
        for (let user = 0; user < 256; user++) yield* tasks.create(callerOf(`user-${user}`), question)
        yield* Queue.takeN(starts, 256)
        const { uuid } = yield* tasks.create(caller, { ...question, maxExecutionTime: 3600 })
        yield* TestClock.adjust("29 seconds")
        const waiting = yield* tasks.get(caller.principal, uuid)
        assert.deepInclude(waiting, { status: "pending", acceptanceDeadline: null })
        // The core responds to the others, and the waiting dispatch begins through three faults of the store.
        yield* TestClock.adjust("10 seconds")
        const begun = yield* tasks.get(caller.principal, uuid)
        assert.isNotNull(begun.acceptanceDeadline)
        assert.strictEqual(faults, -1)
        yield* TestClock.adjust("31 seconds")
        assert.include(yield* statusOf(uuid), "was not accepted")
      }))
  })
})

describe("a repeated request", () => {
  const layerOthers = Layer.effect(
    TaskOwnership,
    Effect.map(TaskOwnership, (alone) => ({ ...alone, isMine: () => false, shards: () => [] }))
  ).pipe(Layer.provide(TaskOwnership.layerAlone))

  it.effect("notifies the owner of the task, which may have missed the first notification", () =>
    withCore({ onStart: accepts, layerOwnership: layerOthers }, () =>
      Effect.gen(function*() {
        const tasks = yield* Tasks
        const key = { value: "key", fingerprint: "create" }
        const { uuid } = yield* tasks.create(caller, question, key)
        const told: Array<TaskId> = []
        yield* (yield* Changes).relay((id) => told.push(id))
        const { isReplay } = yield* tasks.create(caller, question, key)
        assert.isTrue(isReplay)
        assert.deepStrictEqual(told, [uuid])
      }).pipe(Effect.scoped)))
})
