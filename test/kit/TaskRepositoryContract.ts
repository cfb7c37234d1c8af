/** The contract of every store of tasks, run on memory and on Postgres. */
import { assert, type Vitest } from "@effect/vitest"
import { Duration, Effect, Fiber, Option, Result } from "effect"
import { SecureRandom } from "effect/crypto"
import { fromValue, OpaqueJson } from "../../src/domain/OpaqueJson.ts"
import { isTerminal, RunId, sourcesOf, TaskEvent, type TaskEventTag, TaskId } from "../../src/domain/Task.ts"
import * as TaskShard from "../../src/domain/TaskShard.ts"
import { summarize } from "../../src/domain/TaskView.ts"
import { now, plus, Timestamp } from "../../src/domain/Timestamp.ts"
import { TaskNotifications } from "../../src/services/store/TaskNotifications.ts"
import { type NewTask, TaskRepository } from "../../src/services/store/TaskRepository.ts"

const uuid = Effect.flatMap(SecureRandom.SecureRandom, (random) => random.uuidV7())
const newRunId = Effect.map(uuid, (id) => RunId.make(id))

export const makeTask = Effect.fnUntraced(function*(overrides: Partial<NewTask> = {}) {
  const createdAt = yield* now
  const task: NewTask = {
    uuid: TaskId.make(yield* uuid),
    principal: { sub: `user-${yield* uuid}`, tokenId: "token", issuedAt: 1_700_000_000 },
    runId: yield* newRunId,
    callbackUrl: null,
    maxExecutionTime: 60,
    createdAt,
    deadline: plus(createdAt, "60 seconds"),
    acceptanceDeadline: plus(createdAt, "30 seconds"),
    request: OpaqueJson.make(`{"assistant_id":1}`),
    userToken: "sealed-token",
    callbackSecret: null,
    ...overrides
  }
  return task
})

export const stored = Effect.fnUntraced(function*(overrides: Partial<NewTask> = {}) {
  const repository = yield* TaskRepository
  const task = yield* makeTask(overrides)
  yield* repository.create(task, 5)
  return task
})

export const turn = OpaqueJson.make(`{"output":[{"type":"text","text":"\\u0000 é"}],"z":1,"a":2}`)
const call = { id: "c1", name: "look", arguments: { x: [1, null] } }

/** One event of each kind. */
const eventOf = Effect.fnUntraced(function*(tag: TaskEventTag) {
  const { cases } = TaskEvent
  const runId = yield* newRunId
  const events: { readonly [Tag in TaskEventTag]: TaskEvent } = {
    Accepted: cases.Accepted.make({}),
    Progressed: cases.Progressed.make({ turn }),
    Interrupted: cases.Interrupted.make({ toolCalls: [call], state: OpaqueJson.make(`{"at":1}`), turn: null }),
    Completed: cases.Completed.make({ turn }),
    Failed: cases.Failed.make({ error: "no", turn: null }),
    Refused: cases.Refused.make({ error: "no" }),
    AcceptanceExpired: cases.AcceptanceExpired.make({ error: "late" }),
    TimeLimitExceeded: cases.TimeLimitExceeded.make({ error: "long" }),
    TokenRevoked: cases.TokenRevoked.make({}),
    ToolResultsSubmitted: cases.ToolResultsSubmitted.make({
      results: fromValue([{ tool_call_id: "c1", output: 1 }]),
      runId,
      principal: { sub: "user", tokenId: "token-2", issuedAt: 1_700_000_001 },
      userToken: "sealed-again"
    }),
    Canceled: cases.Canceled.make({ reason: "enough" })
  }
  return events[tag]
})

const tags = Object.keys(TaskEvent.cases) as ReadonlyArray<TaskEventTag>

export const commit = Effect.fnUntraced(
  function*(id: TaskId, tag: TaskEventTag, fence?: { runId: RunId; coreEventId?: string }) {
    const repository = yield* TaskRepository
    return yield* repository.commit(id, yield* eventOf(tag), yield* now, fence)
  }
)

/** Events that move a new task to a status. */
const pathTo = {
  pending: [],
  processing: ["Accepted"],
  interrupted: ["Interrupted"],
  completed: ["Completed"],
  failed: ["Failed"],
  canceled: ["Interrupted", "Canceled"]
} as const

export const contract = (
  it: Vitest.MethodsNonLive<TaskRepository | TaskNotifications | SecureRandom.SecureRandom>
) => {
  it.effect("stores an acknowledged create, with microseconds", () =>
    Effect.gen(function*() {
      const repository = yield* TaskRepository
      const createdAt = Timestamp.make(1_764_000_000_123_457)
      const task = yield* stored({ createdAt })
      const found = Option.getOrThrow(yield* repository.get(task.uuid))
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
        deadline: task.deadline,
        acceptanceDeadline: task.acceptanceDeadline
      })
      assert.isTrue(Option.isNone(yield* repository.get(TaskId.make(yield* uuid))))
    }))

  it.effect("never exceeds a user's limit of active tasks under concurrent creates", () =>
    Effect.gen(function*() {
      const repository = yield* TaskRepository
      const { principal } = yield* makeTask()
      const outcomes = yield* Effect.forEach(
        Array.from({ length: 30 }),
        () => Effect.flatMap(makeTask({ principal }), (task) => Effect.result(repository.create(task, 5))),
        { concurrency: "unbounded" }
      )
      assert.strictEqual(outcomes.filter(Result.isSuccess).length, 5)
      const { tasks } = yield* repository.list({ sub: principal.sub, statuses: [], page: 1, perPage: 100 })
      assert.strictEqual(tasks.length, 5)
      yield* commit(tasks[0]!.uuid, "Failed")
      yield* repository.create(yield* makeTask({ principal }), 5)
      assert.isTrue(Result.isFailure(yield* Effect.result(repository.create(yield* makeTask({ principal }), 5))))
    }))

  for (const [status, path] of Object.entries(pathTo)) {
    for (const tag of tags) {
      const allowed = sourcesOf(tag).some((source) => source === status)
      it.effect(`${tag} ${allowed ? "moves" : "does not touch"} a ${status} task`, () =>
        Effect.gen(function*() {
          const repository = yield* TaskRepository
          const task = yield* stored()
          for (const step of path) yield* commit(task.uuid, step)
          const before = Option.getOrThrow(yield* repository.get(task.uuid))
          assert.strictEqual(before.status, status)
          const outcome = yield* commit(task.uuid, tag)
          const after = Option.getOrThrow(yield* repository.get(task.uuid))
          if (allowed) {
            assert.strictEqual(outcome._tag, "Applied")
            assert.strictEqual(after.revision, before.revision + 1)
            assert.strictEqual(after.completedAt !== null, isTerminal(after.status))
            assert.strictEqual(after.pendingToolCalls !== null, after.status === "interrupted")
            return
          }
          assert.strictEqual(outcome._tag, isTerminal(before.status) ? "Superseded" : "NoEffect")
          assert.deepStrictEqual(after, before)
        }))
    }
  }

  it.effect("ignores events of an older run and repeated events", () =>
    Effect.gen(function*() {
      const task = yield* stored()
      const fence = (coreEventId: string, runId = task.runId) => ({ runId, coreEventId })
      const other = yield* newRunId
      assert.strictEqual((yield* commit(task.uuid, "Completed", fence("e0", other)))._tag, "Superseded")
      assert.strictEqual((yield* commit(task.uuid, "Accepted", fence("e1")))._tag, "Applied")
      assert.strictEqual((yield* commit(task.uuid, "Accepted", fence("e1")))._tag, "NoEffect")
      assert.strictEqual((yield* commit(task.uuid, "Accepted", fence("e2")))._tag, "NoEffect")
      assert.strictEqual((yield* commit(task.uuid, "Progressed", fence("e1")))._tag, "NoEffect")
      assert.strictEqual((yield* commit(task.uuid, "Completed", fence("e3")))._tag, "Applied")
      assert.strictEqual((yield* commit(task.uuid, "Completed", fence("e3")))._tag, "NoEffect")
      assert.strictEqual((yield* commit(task.uuid, "Completed", fence("e4")))._tag, "Superseded")
      assert.strictEqual((yield* commit(TaskId.make(yield* uuid), "Completed", fence("e5")))._tag, "Unknown")
    }))

  it.effect("applies exactly one of racing events", () =>
    Effect.gen(function*() {
      const task = yield* stored()
      const racers: ReadonlyArray<TaskEventTag> = ["Completed", "Failed", "TimeLimitExceeded", "AcceptanceExpired"]
      const outcomes = yield* Effect.forEach(
        [...racers, ...racers],
        (tag) => commit(task.uuid, tag),
        { concurrency: "unbounded" }
      )
      assert.strictEqual(outcomes.filter(({ _tag }) => _tag === "Applied").length, 1)
    }))

  it.effect("keeps partial output and returns a turn unchanged", () =>
    Effect.gen(function*() {
      const repository = yield* TaskRepository
      const task = yield* stored()
      yield* commit(task.uuid, "Progressed")
      yield* commit(task.uuid, "TimeLimitExceeded")
      const found = Option.getOrThrow(yield* repository.get(task.uuid))
      assert.strictEqual(found.turn, turn)
      assert.strictEqual(found.error, "long")
    }))

  it.effect("resumes an interrupted task with a new run, the core's state and the results", () =>
    Effect.gen(function*() {
      const repository = yield* TaskRepository
      const task = yield* stored()
      assert.strictEqual(Option.getOrThrow(yield* repository.pendingRun(task.uuid)).resume, null)
      yield* commit(task.uuid, "Interrupted")
      const found = Option.getOrThrow(yield* repository.get(task.uuid))
      assert.deepStrictEqual(found.pendingToolCalls, [call])
      assert.isTrue(Option.isNone(yield* repository.pendingRun(task.uuid)))
      yield* commit(task.uuid, "ToolResultsSubmitted", { runId: task.runId })
      const run = Option.getOrThrow(yield* repository.pendingRun(task.uuid))
      assert.notStrictEqual(run.runId, task.runId)
      assert.strictEqual(run.userToken, "sealed-again")
      assert.deepStrictEqual(run.resume, {
        state: OpaqueJson.make(`{"at":1}`),
        results: OpaqueJson.make(`[{"tool_call_id":"c1","output":1}]`)
      })
      yield* commit(task.uuid, "Completed")
      assert.isTrue(Option.isNone(yield* repository.pendingRun(task.uuid)))
    }))

  const claim = { key: "key-1", fingerprint: "print-1" }

  it.effect("replays a repeated create even at the limit, and rejects another create with the same key", () =>
    Effect.gen(function*() {
      const repository = yield* TaskRepository
      const { principal } = yield* makeTask()
      const create = Effect.fnUntraced(function*(given: { key: string; fingerprint: string }, at?: Timestamp) {
        const task = yield* makeTask({ principal, ...(at === undefined ? {} : { createdAt: at }) })
        return yield* Effect.result(repository.create(task, 1, given))
      })
      const outcomes = yield* Effect.forEach([1, 2, 3, 4], () => create(claim), { concurrency: "unbounded" })
      const made = outcomes.map((outcome) => Result.getOrThrow(outcome))
      assert.strictEqual(made.filter(({ isReplay }) => !isReplay).length, 1)
      assert.strictEqual(new Set(made.map(({ taskId }) => taskId)).size, 1)
      const failureOf = Effect.fnUntraced(function*(given: typeof claim) {
        return Result.match(yield* create(given), { onFailure: ({ _tag }) => _tag, onSuccess: () => "" })
      })
      assert.strictEqual(yield* failureOf({ ...claim, fingerprint: "other" }), "IdempotencyKeyReused")
      assert.strictEqual(yield* failureOf({ ...claim, key: "other" }), "TooManyActiveTasks")
      assert.isTrue(Option.isNone(yield* repository.claimed(principal.sub, "other", yield* now)))

      yield* commit(made[0]!.taskId, "Failed")
      const almost = plus(yield* now, "23 hours")
      assert.isTrue(Result.getOrThrow(yield* create(claim, almost)).isReplay)
      const later = Result.getOrThrow(yield* create(claim, plus(yield* now, "25 hours")))
      assert.isFalse(later.isReplay)
      assert.notStrictEqual(later.taskId, made[0]!.taskId)
    }))

  it.effect("stores a claim only with its event, per user, and deletes it after a day", () =>
    Effect.gen(function*() {
      const repository = yield* TaskRepository
      const task = yield* stored()
      const { sub } = task.principal
      const cancel = Effect.fnUntraced(function*() {
        const event = yield* eventOf("Canceled")
        return yield* repository.commit(task.uuid, event, yield* now, { runId: task.runId }, { ...claim, sub })
      })
      const find = (of: string, after: Duration.Input) =>
        Effect.flatMap(now, (at) => repository.claimed(of, claim.key, plus(at, after)))
      assert.strictEqual((yield* cancel())._tag, "NoEffect")
      assert.isTrue(Option.isNone(yield* find(sub, 0)))
      yield* commit(task.uuid, "Interrupted")
      assert.strictEqual((yield* cancel())._tag, "Applied")
      assert.deepStrictEqual(Option.getOrThrow(yield* find(sub, "23 hours")), {
        fingerprint: claim.fingerprint,
        taskId: task.uuid
      })
      assert.isTrue(Option.isNone(yield* find("another", 0)))
      assert.isTrue(Option.isNone(yield* find(sub, "25 hours")))
      yield* repository.deleteExpiredKeys(plus(yield* now, "23 hours"), 10_000)
      assert.isTrue(Option.isSome(yield* find(sub, 0)))
      assert.isAtLeast(yield* repository.deleteExpiredKeys(plus(yield* now, "25 hours"), 10_000), 1)
      assert.isTrue(Option.isNone(yield* find(sub, 0)))
    }))

  it.effect("lists newest first, by status and page", () =>
    Effect.gen(function*() {
      const repository = yield* TaskRepository
      const { principal } = yield* makeTask()
      const created = yield* Effect.forEach([3, 1, 5, 2, 4], (second) =>
        stored({ principal, createdAt: Timestamp.make(1_764_000_000_000_000 + second) }))
      yield* commit(created[2]!.uuid, "Completed")
      const list = (filter: object) =>
        Effect.map(
          repository.list({ sub: principal.sub, statuses: [], page: 1, perPage: 25, ...filter }),
          ({ tasks, total }) => [
            tasks.map(({ createdAt }) =>
              createdAt % 10
            ),
            total
          ]
        )
      assert.deepStrictEqual(yield* list({}), [[5, 4, 3, 2, 1], 5])
      assert.deepStrictEqual(yield* list({ perPage: 2, page: 2 }), [[3, 2], 5])
      assert.deepStrictEqual(yield* list({ page: 1_000_000_000, perPage: 100 }), [[], 5])
      assert.deepStrictEqual(yield* list({ statuses: ["completed"] }), [[5], 1])
      assert.deepStrictEqual(yield* list({ statuses: ["completed", "pending"], perPage: 1 }), [[5], 5])
      assert.deepStrictEqual(yield* list({ statuses: ["completed", "pending"], perPage: 2, page: 3 }), [[1], 5])
      assert.deepStrictEqual(yield* list({ statuses: ["completed"], page: 2 }), [[], 1])
      assert.deepStrictEqual(yield* list({ statuses: ["failed"] }), [[], 0])
    }))

  it.effect("orders tasks of the same moment by id, with all fields of a summary", () =>
    Effect.gen(function*() {
      const repository = yield* TaskRepository
      const { createdAt, principal } = yield* makeTask()
      const created = yield* Effect.replicateEffect(stored({ principal, createdAt }), 4)
      yield* commit(created[0]!.uuid, "Interrupted")
      yield* commit(created[1]!.uuid, "Failed")
      yield* stored({ createdAt })
      const newestFirst = created.map(({ uuid }) => uuid).toSorted().toReversed()
      const expected = yield* Effect.forEach(
        newestFirst,
        (id) => Effect.map(repository.get(id), (found) => Option.getOrThrow(found))
      )
      for (const page of [1, 2]) {
        const { tasks, total } = yield* repository.list({ sub: principal.sub, statuses: [], page, perPage: 2 })
        assert.deepStrictEqual(tasks.map(summarize), expected.slice(2 * (page - 1), 2 * page).map(summarize))
        assert.strictEqual(total, 4)
      }
    }))

  it.effect("cancels all interrupted tasks of one user", () =>
    Effect.gen(function*() {
      const repository = yield* TaskRepository
      const first = yield* stored()
      const second = yield* stored({ principal: first.principal })
      const pending = yield* stored({ principal: first.principal })
      const stranger = yield* stored()
      for (const { uuid } of [first, second, stranger]) yield* commit(uuid, "Interrupted")
      const canceled = yield* repository.cancelInterrupted(first.principal.sub, yield* now)
      assert.sameMembers(canceled.map(({ uuid }) => uuid), [first.uuid, second.uuid])
      assert.strictEqual(Option.getOrThrow(yield* repository.get(stranger.uuid)).status, "interrupted")
      assert.strictEqual(Option.getOrThrow(yield* repository.get(pending.uuid)).status, "pending")
    }))

  it.effect("records events, returns heads and notifies subscribers of each change", () =>
    Effect.gen(function*() {
      const repository = yield* TaskRepository
      const notifications = yield* TaskNotifications
      const task = yield* stored()
      const { sub } = task.principal
      const changed = yield* notifications.subscribe(task.uuid, sub)
      for (const tag of ["Accepted", "Progressed", "Interrupted"] as const) {
        yield* commit(task.uuid, tag)
        assert.isTrue(yield* changed)
      }
      // A commit without a change sends no notification.
      const waiting = yield* Effect.forkChild(changed)
      yield* commit(task.uuid, "Accepted")
      assert.isUndefined(waiting.pollUnsafe())
      const [head, ...others] = yield* repository.heads([task.uuid, TaskId.make(yield* uuid)])
      assert.deepStrictEqual([head?.sub, head?.status, head?.revision, others.length], [sub, "interrupted", 3, 0])
      assert.deepStrictEqual(yield* repository.heads([]), [])
      yield* repository.cancelInterrupted(sub, yield* now)
      assert.isTrue(yield* Fiber.join(waiting))
      const events = (after: number, limit: number) =>
        Effect.map(
          repository.eventsAfter(task.uuid, after, limit),
          (found) => found.map(({ revision, status, type }) => `${revision} ${type} ${status}`)
        )
      assert.deepStrictEqual(yield* events(-1, 2), ["0 Created pending", "1 Accepted processing"])
      assert.deepStrictEqual(yield* events(0, 2), ["1 Accepted processing", "2 Progressed processing"])
      assert.deepStrictEqual(yield* events(2, 500), ["3 Interrupted interrupted", "4 Canceled canceled"])
      assert.deepStrictEqual(yield* events(4, 500), [])
    }))

  it.effect("deletes tasks that ended long enough ago, with all their rows, in batches", () =>
    Effect.gen(function*() {
      const repository = yield* TaskRepository
      const { principal } = yield* makeTask()
      const ended = yield* Effect.forEach([1, 2, 3], () => stored({ principal }))
      const live = yield* stored({ principal })
      for (const { uuid } of ended) yield* commit(uuid, "Completed")
      const at = yield* now
      assert.strictEqual(yield* repository.deleteEnded(plus(at, "-1 second"), 10_000), 0)
      const remaining = Effect.map(
        repository.list({ sub: principal.sub, statuses: [], page: 1, perPage: 100 }),
        ({ tasks }) => tasks.map(({ uuid }) => uuid)
      )
      assert.strictEqual((yield* remaining).length, 4)
      // Tasks of other suites may have ended earlier than these.
      yield* Effect.repeat(repository.deleteEnded(plus(at, "1 second"), 2), { while: (deleted) => deleted === 2 })
      assert.deepStrictEqual(yield* remaining, [live.uuid])
      for (const { uuid } of ended) {
        assert.isTrue(Option.isNone(yield* repository.get(uuid)))
        assert.deepStrictEqual(yield* repository.eventsAfter(uuid, -1, 10), [])
      }
    }))

  it.effect("finds live tasks and overdue tasks", () =>
    Effect.gen(function*() {
      const repository = yield* TaskRepository
      const start = yield* now
      const task = yield* stored()
      const waiting = yield* stored({ acceptanceDeadline: null })
      const ended = yield* stored()
      yield* commit(ended.uuid, "Completed")
      const ids = [task.uuid, waiting.uuid].toSorted()
      const isOurs = ({ uuid }: { readonly uuid: TaskId }) => [...ids, ended.uuid].includes(uuid)
      const live = (yield* repository.live(undefined, 10_000)).filter(isOurs)
      assert.deepStrictEqual(live.map(({ uuid }) => uuid), ids)
      assert.deepStrictEqual((yield* repository.live(ids[1], 10_000)).filter(isOurs), [])
      for (const id of ids) {
        const shards = [TaskShard.of(id)]
        const sharing = ids.filter((other) => TaskShard.of(other) === shards[0])
        const ours = (yield* repository.live(undefined, 10_000, shards)).filter(isOurs)
        assert.deepStrictEqual(ours.map(({ uuid }) => uuid), sharing)
      }
      assert.deepStrictEqual(yield* repository.live(undefined, 10_000, []), [])
      const overdue = (after: Duration.Input) =>
        Effect.map(repository.overdue(plus(start, after), 10_000), (heads) => heads.filter(isOurs).map((h) => h.uuid))
      assert.deepStrictEqual(yield* overdue("29 seconds"), [])
      assert.deepStrictEqual(yield* overdue("31 seconds"), [task.uuid])
      assert.sameMembers([...(yield* overdue("61 seconds"))], ids)
      yield* repository.startAcceptanceClock(waiting.uuid, waiting.runId, plus(start, "40 seconds"))
      assert.sameMembers([...(yield* overdue("41 seconds"))], ids)
    }))

  it.effect("counts tasks by status and returns the next deadline", () =>
    Effect.gen(function*() {
      const repository = yield* TaskRepository
      const before = yield* repository.stats
      const task = yield* stored()
      const ended = yield* stored()
      yield* commit(ended.uuid, "Completed")
      const after = yield* repository.stats
      assert.deepStrictEqual(after.counts, {
        ...before.counts,
        pending: before.counts.pending + 1,
        completed: before.counts.completed + 1
      })
      assert.isAtMost(after.nextDeadline ?? Infinity, task.acceptanceDeadline ?? 0)
      assert.deepStrictEqual(yield* repository.liveStats, {
        counts: { ...after.counts, completed: 0, failed: 0, canceled: 0 },
        nextDeadline: after.nextDeadline
      })
    }))

  it.effect("returns a pending stop until it is recorded", () =>
    Effect.gen(function*() {
      const repository = yield* TaskRepository
      const task = yield* stored()
      yield* commit(task.uuid, "TimeLimitExceeded")
      const at = yield* now
      const claim = (after: Duration.Input) =>
        Effect.map(
          repository.claimStops(plus(at, after), Duration.seconds(30), 10_000),
          (stops) => stops.filter(({ runId }) => runId === task.runId)
        )
      assert.deepStrictEqual(yield* claim(0), [
        { runId: task.runId, taskId: task.uuid, reason: "time_limit_exceeded", attempt: 1 }
      ])
      assert.deepStrictEqual(yield* claim("29 seconds"), [])
      assert.strictEqual((yield* claim("31 seconds"))[0]?.attempt, 2)
      yield* repository.postponeStop(task.runId, plus(at, "100 seconds"))
      assert.deepStrictEqual(yield* claim("99 seconds"), [])
      assert.strictEqual((yield* claim("101 seconds"))[0]?.attempt, 3)
      yield* repository.recordStop(task.runId)
      assert.deepStrictEqual(yield* claim("1000 seconds"), [])
    }))
}
