/** The contract of queues of runs, on memory and on Postgres. */
import { assert, type Vitest } from "@effect/vitest"
import { Array as Arr, Effect } from "effect"
import type { SecureRandom } from "effect/crypto"
import { OpaqueJson } from "../../src/domain/json/OpaqueJson.ts"
import { type Room, TaskEvent, type TaskId } from "../../src/domain/Task.ts"
import { fromMicros, now, plus, type Timestamp } from "../../src/domain/Timestamp.ts"
import { resumedClass, RunQueue } from "../../src/services/store/queue/RunQueue.ts"
import { type NewTask, noQueue, TaskStore } from "../../src/services/store/tasks/TaskStore.ts"
import { makeTask, newRunId } from "./StoredTasks.ts"

const classes = resumedClass + 1
const none = { runs: null, runsPerAssistant: null }
const unused = 10_000_000

/** Assistants of one test are its own. */
let assistants = 1000
const newAssistant = () => ++assistants

const put = Effect.fnUntraced(function*(
  overrides: Partial<NewTask> = {},
  entry: Partial<Parameters<TaskStore["Service"]["create"]>[3] & object> = { waits: true }
) {
  const store = yield* TaskStore
  const task = yield* makeTask(overrides)
  const { room } = yield* store.create(task, unused, undefined, { ...noQueue, ...entry })
  return { ...task, room }
})

export const admit = Effect.fnUntraced(function*(most: number, more: object = {}) {
  const queue = yield* RunQueue
  return yield* queue.admit({
    at: yield* now,
    most,
    limits: none,
    shards: undefined,
    floor: Arr.replicate(0, classes),
    servedAt: Arr.replicate(fromMicros(0), classes),
    ...more
  })
})

const ids = (heads: ReadonlyArray<{ readonly uuid: TaskId }>) => heads.map(({ uuid }) => uuid)

/** Admits all that wait, one by one. */
const drain = Effect.fnUntraced(function*(more: object = {}) {
  const order: Array<TaskId> = []
  for (;;) {
    const { heads } = yield* admit(1, more)
    if (heads.length === 0) return order
    order.push(...ids(heads))
  }
})

const heads = (uuid: TaskId) => Effect.flatMap(TaskStore, (reads) => Effect.map(reads.heads([uuid]), ([head]) => head!))

const later = (at: Timestamp, seconds: number) => plus(at, `${seconds} seconds`)

/** The suite runs alone on its store: one queue is shared by all. */
export const runQueueContract = (
  it: Vitest.MethodsNonLive<TaskStore | RunQueue | SecureRandom.SecureRandom>
) => {
  // It comes first, while the store has no other runs.
  it.effect("never exceeds the limit of all runs, and uses all of it", () =>
    Effect.gen(function*() {
      const store = yield* TaskStore
      const limits = { runs: 2, runsPerAssistant: null }
      const tasks = yield* Effect.forEach([1, 2, 3, 4], () => put({}, { limits }))
      assert.deepStrictEqual(tasks.map(({ room }) => room), ["held", "held", "waiting", "waiting"])
      assert.deepStrictEqual(ids((yield* admit(10, { limits })).heads), [])
      yield* store.commit(tasks[0]!.uuid, TaskEvent.cases.Withdrawn.make({ reason: "x" }), yield* now)
      assert.deepStrictEqual(ids((yield* admit(10, { limits })).heads), [tasks[2]!.uuid])
      assert.deepStrictEqual(yield* drain(), [tasks[3]!.uuid])
    }))

  it.effect("admits a run once, and leaves none without its task", () =>
    Effect.gen(function*() {
      const queue = yield* RunQueue
      const { acceptanceDeadline, room, runId, uuid } = yield* put()
      assert.strictEqual(room, "waiting")
      assert.isNotNull(acceptanceDeadline)
      assert.deepInclude(yield* heads(uuid), { room: "waiting", acceptanceDeadline: null, queueRevision: 0 })
      assert.deepStrictEqual([...yield* queue.positions([uuid])], [[uuid, 1]])
      const found = yield* Effect.all([admit(5), admit(5)], { concurrency: "unbounded" })
      assert.deepStrictEqual(ids(found.flatMap(({ heads }) => heads)), [uuid])
      assert.deepInclude(yield* heads(uuid), { room: "held", queueRevision: 1 })
      assert.strictEqual((yield* admit(5)).outcome, "empty")
      const store = yield* TaskStore
      const deadline = plus(yield* now, "30 seconds")
      assert.strictEqual((yield* store.startAcceptance(uuid, runId, deadline))?.acceptanceDeadline, deadline)
      // It is set once, and whoever asks learns what it is.
      const again = yield* store.startAcceptance(uuid, runId, plus(deadline, "1 second"))
      assert.deepInclude(again, { acceptanceDeadline: deadline, queueRevision: 2 })
    }))

  it.effect("lets users take turns, and keeps the order of each", () =>
    Effect.gen(function*() {
      const at = yield* now
      const of = (sub: string, count: number) =>
        put({ principal: { sub: `turns ${sub}`, tokenId: "t", issuedAt: null }, createdAt: later(at, count) })
      const ann = [yield* of("ann", 0), yield* of("ann", 1), yield* of("ann", 2)]
      const bob = [yield* of("bob", 3), yield* of("bob", 4)]
      const carl = yield* of("carl", 5)
      const expected = [ann[0], bob[0], carl, ann[1], bob[1], ann[2]].map((task) => task!.uuid)
      const queue = yield* RunQueue
      const places = yield* queue.positions(expected)
      assert.deepStrictEqual(expected.map((uuid) => places.get(uuid)), [1, 2, 3, 4, 5, 6])
      assert.deepStrictEqual(yield* drain(), expected)
    }))

  it.effect("puts runs back in the order of their user, with a new acceptance clock", () =>
    Effect.gen(function*() {
      const queue = yield* RunQueue
      const at = yield* now
      const sub = "put back"
      const tasks = yield* Effect.forEach([0, 1, 2, 3], (count) =>
        put(
          { principal: { sub, tokenId: "t", issuedAt: null }, createdAt: later(at, count) },
          count === 3 ? { waits: true } : {}
        ))
      const [, second, third, last] = tasks.map((task) => task!)
      for (const { runId, uuid } of [third!, second!]) {
        const head = yield* queue.putBack(uuid, runId, sub, at)
        assert.deepInclude(head, { room: "waiting", acceptanceDeadline: null, queueRevision: 1 })
      }
      assert.deepStrictEqual(yield* drain(), [second!.uuid, third!.uuid, last!.uuid])
      const store = yield* TaskStore
      const { runId, uuid } = second!
      yield* store.commit(uuid, TaskEvent.cases.Accepted.make({}), at, { runId })
      assert.deepInclude(yield* queue.putBack(uuid, runId, sub, at), { status: "processing", room: "held" })
      assert.deepInclude(yield* queue.putBack(third!.uuid, runId, sub, at), { status: "pending", room: "held" })
    }))

  it.effect("admits resumed runs first, the oldest answer first, and counts their wait", () =>
    Effect.gen(function*() {
      const store = yield* TaskStore
      const at = yield* now
      const resumed = yield* Effect.forEach(
        [2, 1],
        Effect.fnUntraced(function*(seconds) {
          const task = yield* put({}, {})
          const fence = { runId: task.runId, recordsAcceptance: true }
          const calls = TaskEvent.cases.Interrupted.make({ toolCalls: OpaqueJson.make("[]"), state: null, turn: null })
          yield* store.commit(task.uuid, calls, at, fence)
          const answer = TaskEvent.cases.ToolResultsSubmitted.make({
            results: OpaqueJson.make("[]"),
            runId: yield* newRunId,
            principal: task.principal,
            userToken: "sealed"
          })
          const outcome = yield* store.commit(task.uuid, answer, later(at, seconds), undefined, undefined, true)
          assert.deepInclude(outcome._tag === "Applied" ? outcome.head : {}, { status: "processing", room: "waiting" })
          return task.uuid
        })
      )
      const high = yield* put({ priority: 9 })
      assert.deepStrictEqual(yield* drain({ at: later(at, 60) }), [resumed[1], resumed[0], high.uuid])
      // The run is new to the core.
      assert.strictEqual((yield* heads(resumed[0]!)).resumedAt, later(at, 60))
    }))

  it.effect("admits higher priorities first, and lets none starve", () =>
    Effect.gen(function*() {
      const at = yield* now
      const [low, usual, high] = yield* Effect.forEach([0, 5, 9], (priority) => put({ priority, createdAt: at }))
      const lower = yield* put({ priority: 0, createdAt: at })
      const first = yield* admit(1, { at: later(at, 59) })
      assert.deepStrictEqual(ids(first.heads), [high!.uuid])
      // The first one of class 0 has waited for six minutes, that of class 5 too.
      const another = yield* put({ priority: 9, createdAt: later(at, 360) })
      const next = yield* admit(1, { at: later(at, 361) })
      assert.deepStrictEqual(ids(next.heads), [usual!.uuid])
      assert.strictEqual(next.servedAt[5], later(at, 361))
      const young = yield* put({ priority: 5, createdAt: later(at, 361) })
      const rest = yield* admit(10, { at: later(at, 361), servedAt: next.servedAt })
      assert.deepStrictEqual(
        ids(rest.heads).toSorted(),
        [another, young, low!, lower].map(({ uuid }) => uuid).toSorted()
      )
      // A class that was served waits its minutes again.
      const [old, fresh] = [
        yield* put({ priority: 0, createdAt: at }),
        yield* put({ priority: 5, createdAt: later(at, 400) })
      ]
      const served = yield* admit(1, { at: later(at, 420), servedAt: rest.servedAt })
      assert.deepStrictEqual(ids(served.heads), [fresh.uuid])
      assert.deepStrictEqual(yield* drain({ at: later(at, 420) }), [old.uuid])
    }))

  it.effect("admits a run that has risen to a class before the later ones of that class", () =>
    Effect.gen(function*() {
      const at = yield* now
      const risen = yield* put({ priority: 4, createdAt: at })
      const usual = yield* put({ priority: 5, createdAt: later(at, 61) })
      const { heads } = yield* admit(1, { at: later(at, 62) })
      assert.deepStrictEqual(ids(heads), [risen.uuid])
      assert.deepStrictEqual(yield* drain({ at: later(at, 62) }), [usual.uuid])
    }))

  it.effect("never exceeds a limit, uses all of it, and passes over assistants without room", () =>
    Effect.gen(function*() {
      const queue = yield* RunQueue
      const store = yield* TaskStore
      const before = (yield* queue.read).running
      const [one, two] = [newAssistant(), newAssistant()]
      const limits = { runs: null, runsPerAssistant: 2 }
      const rooms: Array<Room | null> = []
      const tasks = yield* Effect.forEach(
        [0, 1, 2, 3, 4],
        Effect.fnUntraced(function*() {
          const task = yield* put({ assistantId: one }, { limits })
          rooms.push(task.room)
          return task
        })
      )
      assert.deepStrictEqual(rooms, ["held", "held", "waiting", "waiting", "waiting"])
      const other = yield* put({ assistantId: two }, { limits })
      // Somebody waits: the admission decides.
      assert.strictEqual(other.room, "waiting")
      const admission = yield* admit(10, { limits })
      assert.deepStrictEqual(ids(admission.heads), [other.uuid])
      assert.strictEqual(admission.outcome, "full")
      yield* store.commit(tasks[0]!.uuid, TaskEvent.cases.Withdrawn.make({ reason: "x" }), yield* now)
      // One that waits leaves the queue with its end.
      yield* store.commit(tasks[2]!.uuid, TaskEvent.cases.Withdrawn.make({ reason: "x" }), yield* now)
      assert.deepStrictEqual(ids((yield* admit(10, { limits })).heads), [tasks[3]!.uuid])
      assert.deepStrictEqual(ids((yield* admit(10, { limits })).heads), [])
      const state = yield* queue.read
      assert.strictEqual(state.running, before + 3)
      assert.deepStrictEqual(
        state.assistants.filter(({ assistantId }) => assistantId === one || assistantId === two),
        [
          {
            assistantId: one,
            runs: null,
            isPaused: false,
            running: 2,
            waiting: 1,
            oldestWaitingSince: tasks[4]!.createdAt
          },
          { assistantId: two, runs: null, isPaused: false, running: 1, waiting: 0, oldestWaitingSince: null }
        ]
      )
      assert.deepStrictEqual(yield* drain(), [tasks[4]!.uuid])
    }))

  it.effect("applies what operators set for an assistant: a limit counts what runs already, and a pause holds new runs", () =>
    Effect.gen(function*() {
      const queue = yield* RunQueue
      const assistantId = newAssistant()
      const running = yield* put({ assistantId }, {})
      assert.isNull(running.room)
      assert.deepInclude(yield* queue.setAssistant(assistantId, { runs: 2 }), { runs: 2, isPaused: false, running: 1 })
      assert.strictEqual((yield* heads(running.uuid)).room, "held")
      const rooms = [yield* put({ assistantId }, {}), yield* put({ assistantId }, {})]
      assert.deepStrictEqual(rooms.map(({ room }) => room), ["held", "waiting"])
      // Those of others are not concerned.
      assert.isNull((yield* put({ assistantId: newAssistant() }, {})).room)
      assert.deepInclude(yield* queue.setAssistant(assistantId, { isPaused: true, runs: null }), {
        isPaused: true,
        runs: null
      })
      assert.deepStrictEqual(yield* drain(), [])
      assert.deepInclude(yield* queue.setAssistant(assistantId, { isPaused: false }), { isPaused: false, waiting: 1 })
      assert.deepStrictEqual(yield* drain(), [rooms[1]!.uuid])
    }))

  it.effect("finds the first runs with room behind hundreds without", () =>
    Effect.gen(function*() {
      const [full, free] = [newAssistant(), newAssistant()]
      const queue = yield* RunQueue
      yield* queue.setAssistant(full, { isPaused: true })
      yield* Effect.forEach(Arr.range(1, 150), () => put({ assistantId: full }), { concurrency: "unbounded" })
      const last = yield* put({ assistantId: free, principal: { sub: "last", tokenId: "t", issuedAt: null } })
      assert.deepStrictEqual(ids((yield* admit(3)).heads), [last.uuid])
      yield* queue.setAssistant(full, { isPaused: false })
      assert.lengthOf(yield* drain(), 150)
      assert.strictEqual((yield* admit(1)).outcome, "empty")
    }))
}
