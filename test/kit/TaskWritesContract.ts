/** The contract of `TaskStore`, run on memory and on Postgres. */
import { assert } from "@effect/vitest"
import { type Duration, Effect, Option, Result } from "effect"
import { type TaskEventTag, type TaskHead, TaskId } from "../../src/domain/Task.ts"
import { now, plus, Timestamp } from "../../src/domain/Timestamp.ts"
import { type NewTask, TaskStore } from "../../src/services/store/tasks/TaskStore.ts"
import { commit, eventOf, makeTask, newRunId, stored, type StoreTests, uuid } from "./StoredTasks.ts"

export const contract = (it: StoreTests) => {
  it.effect("stores an acknowledged create, with microseconds", () =>
    Effect.gen(function*() {
      const store = yield* TaskStore
      const createdAt = Timestamp.make(1_764_000_000_123_457)
      const task = yield* stored({ createdAt })
      const found = Option.getOrThrow(yield* store.get(task.uuid))
      assert.deepStrictEqual(found, {
        uuid: task.uuid,
        sub: task.principal.sub,
        status: "pending",
        error: null,
        createdAt,
        completedAt: null,
        pendingToolCalls: null,
        turn: null,
        revision: 0,
        runId: task.runId,
        maxExecutionTime: task.maxExecutionTime,
        deadline: task.deadline,
        acceptanceDeadline: task.acceptanceDeadline,
        resumedAt: null,
        lastEventAt: null,
        redispatches: null,
        room: null,
        queueRevision: 0
      })
      assert.isTrue(Option.isNone(yield* store.get(TaskId.make(yield* uuid))))
    }))

  it.effect("never exceeds a user's limit of active tasks under concurrent creates", () =>
    Effect.gen(function*() {
      const store = yield* TaskStore
      const { principal } = yield* makeTask()
      const outcomes = yield* Effect.forEach(
        Array.from({ length: 30 }),
        () => Effect.flatMap(makeTask({ principal }), (task) => Effect.result(store.create(task, 5))),
        { concurrency: "unbounded" }
      )
      assert.strictEqual(outcomes.filter(Result.isSuccess).length, 5)
      const { tasks } = yield* store.list({ sub: principal.sub, statuses: [], page: 1, perPage: 100 })
      assert.strictEqual(tasks.length, 5)
      yield* commit(tasks[0]!.uuid, "Failed")
      yield* store.create(yield* makeTask({ principal }), 5)
      assert.isTrue(Result.isFailure(yield* Effect.result(store.create(yield* makeTask({ principal }), 5))))
    }))

  it.effect("starts the acceptance clock of a pending run once, at its first attempt", () =>
    Effect.gen(function*() {
      const store = yield* TaskStore
      const { createdAt, runId, uuid } = yield* stored({ acceptanceDeadline: null })
      const deadline = Effect.map(store.heads([uuid]), ([head]) => head?.acceptanceDeadline)
      assert.isNull(yield* deadline)
      const first = plus(createdAt, "30 seconds")
      yield* store.startAcceptance(uuid, yield* newRunId, first)
      assert.isNull(yield* deadline)
      yield* store.startAcceptance(uuid, runId, first)
      yield* store.startAcceptance(uuid, runId, plus(first, "10 seconds"))
      assert.strictEqual(yield* deadline, first)
    }))

  it.effect("records when tool results began a run, until an event of the run changes the task", () =>
    Effect.gen(function*() {
      const { uuid } = yield* stored()
      const resumedAfter = Effect.fnUntraced(function*(tag: TaskEventTag) {
        const outcome = yield* commit(uuid, tag)
        return outcome._tag === "Applied" ? outcome.head.resumedAt : undefined
      })
      assert.isNull(yield* resumedAfter("Interrupted"))
      const before = yield* now
      const resumedAt = yield* resumedAfter("ToolResultsSubmitted")
      assert.isTrue(typeof resumedAt === "number" && resumedAt >= before && resumedAt <= (yield* now))
      assert.isNull(yield* resumedAfter("Progressed"))
    }))

  it.effect("claims a silent run once, and none of which an event was recorded or whose task has changed", () =>
    Effect.gen(function*() {
      const store = yield* TaskStore
      const tasks = yield* Effect.all(Array.from({ length: 5 }, () => stored()))
      for (const { uuid } of tasks) yield* commit(uuid, "Accepted")
      const [silent, alive, repeated, changed, ended] = tasks
      const since = yield* now
      const at = plus(since, "1 minute")
      const lifeOf = (task: NewTask, tag: TaskEventTag, id: string) =>
        Effect.flatMap(
          eventOf(tag),
          (event) => store.commit(task.uuid, event, at, { runId: task.runId, coreEventId: id })
        )
      assert.strictEqual((yield* lifeOf(alive!, "Accepted", "sign"))._tag, "NoEffect")
      yield* lifeOf(changed!, "Progressed", "e1")
      yield* commit(ended!.uuid, "Completed")
      const headOf = (task: NewTask) => Effect.map(store.heads([task.uuid]), ([head]) => head!)
      // As their node read them.
      const asked = yield* Effect.forEach(
        tasks,
        (task) => Effect.map(headOf(task), (head) => ({ ...head, revision: 1, lastEventAt: since, redispatches: null }))
      )
      const claim = (runs: ReadonlyArray<TaskHead>) =>
        Effect.map(store.claimSilent(runs), (claimed) => new Map(claimed.map((head) => [head.uuid, head])))
      // Two nodes at once.
      const both = yield* Effect.all([claim(asked), claim(asked)], { concurrency: "unbounded" })
      assert.deepStrictEqual(
        tasks.map(({ uuid }) => both.filter((claimed) => claimed.has(uuid)).length),
        [1, 0, 1, 0, 0]
      )
      const head = yield* headOf(silent!)
      assert.deepInclude(head, { lastEventAt: since, redispatches: 1, revision: 1, status: "processing" })
      assert.deepStrictEqual(
        both.flatMap((claimed) => [...claimed.values()]).find(({ uuid }) => uuid === head.uuid),
        head
      )
      assert.strictEqual((yield* claim(asked)).size, 0)
      assert.strictEqual((yield* lifeOf(repeated!, "Accepted", "again"))._tag, "NoEffect")
      assert.deepInclude(yield* headOf(repeated!), { lastEventAt: at, redispatches: null, revision: 1 })
      const [again] = yield* store.claimSilent([head])
      assert.deepInclude(again, { lastEventAt: since, redispatches: 2 })
      yield* commit(silent!.uuid, "Progressed")
      assert.deepInclude(yield* headOf(silent!), { lastEventAt: yield* now, redispatches: null, revision: 2 })
    }))

  const key = { value: "key-1", fingerprint: "print-1" }

  it.effect("replays a repeated create even at the limit, and rejects another create with the same key", () =>
    Effect.gen(function*() {
      const store = yield* TaskStore
      const { principal } = yield* makeTask()
      const create = Effect.fnUntraced(function*(given: { value: string; fingerprint: string }, at?: Timestamp) {
        const task = yield* makeTask({ principal, ...(at === undefined ? {} : { createdAt: at }) })
        return yield* Effect.result(store.create(task, 1, given))
      })
      const outcomes = yield* Effect.forEach([1, 2, 3, 4], () => create(key), { concurrency: "unbounded" })
      const made = outcomes.map((outcome) => Result.getOrThrow(outcome))
      assert.strictEqual(made.filter(({ isReplay }) => !isReplay).length, 1)
      assert.strictEqual(new Set(made.map(({ taskId }) => taskId)).size, 1)
      const failureOf = Effect.fnUntraced(function*(given: typeof key) {
        return Result.match(yield* create(given), { onFailure: ({ _tag }) => _tag, onSuccess: () => "" })
      })
      assert.strictEqual(yield* failureOf({ ...key, fingerprint: "other" }), "IdempotencyKeyReused")
      assert.strictEqual(yield* failureOf({ ...key, value: "other" }), "TooManyActiveTasks")
      assert.isTrue(Option.isNone(yield* store.usedKey(principal.sub, "other", yield* now)))

      yield* commit(made[0]!.taskId, "Failed")
      // The key expires between two creates that share a statement.
      const at = yield* now
      const [before, after] = yield* Effect.all(
        [create(key, plus(at, "23 hours")), create(key, plus(at, "25 hours"))],
        { concurrency: "unbounded" }
      )
      assert.deepStrictEqual(Result.getOrThrow(before), { isReplay: true, room: null, taskId: made[0]!.taskId })
      const { isReplay, taskId } = Result.getOrThrow(after)
      assert.isFalse(isReplay)
      assert.isTrue(Option.isSome(yield* store.get(taskId)))
      assert.notStrictEqual(taskId, made[0]!.taskId)
    }))

  it.effect("counts active tasks across a repeated key in between", () =>
    Effect.gen(function*() {
      const store = yield* TaskStore
      const ended = yield* makeTask()
      const create = Effect.fnUntraced(function*(given?: typeof key) {
        const task = yield* makeTask({ principal: ended.principal })
        return yield* store.create(task, 1, given).pipe(
          Effect.match({
            onFailure: ({ _tag }) => _tag,
            onSuccess: ({ isReplay }) => isReplay ? "replayed" : "created"
          })
        )
      })
      yield* store.create(ended, 1, key)
      yield* commit(ended.uuid, "Failed")
      // They share a statement.
      const outcomes = yield* Effect.all([create(), create(key), create()], { concurrency: "unbounded" })
      assert.deepStrictEqual(outcomes, ["created", "replayed", "TooManyActiveTasks"])
    }))

  it.effect("lets one of several changes with one key take effect, whatever their tasks are", () =>
    Effect.gen(function*() {
      const store = yield* TaskStore
      const { principal } = yield* makeTask()
      for (const withCreate of [false, true]) {
        const key = `shared ${withCreate}`
        const tasks = yield* Effect.forEach([1, 2, 3], () => stored({ principal }))
        for (const { uuid } of tasks) yield* commit(uuid, "Interrupted")
        const cancels = tasks.map(({ runId, uuid }, index) =>
          Effect.gen(function*() {
            const event = yield* eventOf("Canceled")
            const given = { value: key, fingerprint: String(index), sub: principal.sub }
            const outcome = yield* store.commit(uuid, event, yield* now, { runId }, given)
            return outcome._tag === "Applied" ? uuid : undefined
          })
        )
        const task = yield* makeTask({ principal })
        const create = Effect.match(store.create(task, 1000, { value: key, fingerprint: "create" }), {
          onFailure: () => undefined,
          onSuccess: ({ taskId }) => taskId
        })
        const done = yield* Effect.all(withCreate ? [create, ...cancels] : cancels, { concurrency: "unbounded" })
        const changed = done.filter((uuid) => uuid !== undefined)
        assert.lengthOf(changed, 1)
        const used = yield* store.usedKey(principal.sub, key, yield* now)
        assert.strictEqual(Option.getOrUndefined(used)?.taskId, changed[0])
        const left = yield* store.heads(tasks.map(({ uuid }) => uuid))
        const canceled = left.filter(({ status }) => status === "canceled").map(({ uuid }) => uuid)
        assert.deepStrictEqual(canceled, changed.filter((uuid) => uuid !== task.uuid))
        assert.strictEqual(Option.isSome(yield* store.get(task.uuid)), changed[0] === task.uuid)
      }
    }))

  it.effect("stores a key only with its event, per user, and deletes it after a day", () =>
    Effect.gen(function*() {
      const store = yield* TaskStore
      const task = yield* stored()
      const { sub } = task.principal
      const cancel = Effect.fnUntraced(function*() {
        const event = yield* eventOf("Canceled")
        return yield* store.commit(task.uuid, event, yield* now, { runId: task.runId }, { ...key, sub })
      })
      const find = (of: string, after: Duration.Input) =>
        Effect.flatMap(now, (at) => store.usedKey(of, key.value, plus(at, after)))
      assert.strictEqual((yield* cancel())._tag, "NoEffect")
      assert.isTrue(Option.isNone(yield* find(sub, 0)))
      yield* commit(task.uuid, "Interrupted")
      assert.strictEqual((yield* cancel())._tag, "Applied")
      assert.deepStrictEqual(Option.getOrThrow(yield* find(sub, "23 hours")), {
        fingerprint: key.fingerprint,
        taskId: task.uuid
      })
      assert.isTrue(Option.isNone(yield* find("another", 0)))
      assert.isTrue(Option.isNone(yield* find(sub, "25 hours")))
      yield* store.deleteExpiredKeys(plus(yield* now, "23 hours"), 10_000)
      assert.isTrue(Option.isSome(yield* find(sub, 0)))
      assert.isAtLeast(yield* store.deleteExpiredKeys(plus(yield* now, "25 hours"), 10_000), 1)
      assert.isTrue(Option.isNone(yield* find(sub, 0)))
    }))

  it.effect("cancels all interrupted tasks of one user", () =>
    Effect.gen(function*() {
      const store = yield* TaskStore
      const first = yield* stored()
      const second = yield* stored({ principal: first.principal })
      const pending = yield* stored({ principal: first.principal })
      const stranger = yield* stored()
      for (const { uuid } of [first, second, stranger]) yield* commit(uuid, "Interrupted")
      const canceled = yield* store.cancelInterrupted(first.principal.sub, yield* now, "rpc:ana")
      assert.sameMembers(canceled.map(({ uuid }) => uuid), [first.uuid, second.uuid])
      const [event] = yield* store.eventsAfter(first.uuid, 1, 10)
      assert.include(event, { type: "Canceled", author: "rpc:ana" })
      assert.strictEqual(Option.getOrThrow(yield* store.get(stranger.uuid)).status, "interrupted")
      assert.strictEqual(Option.getOrThrow(yield* store.get(pending.uuid)).status, "pending")
    }))
}
