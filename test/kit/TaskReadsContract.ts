/** The contract of `TaskStore`, run on memory and on Postgres. */
import { assert } from "@effect/vitest"
import { Effect, Fiber, Option } from "effect"
import { fromValue, OpaqueJson } from "../../src/domain/json/OpaqueJson.ts"
import { TaskId } from "../../src/domain/Task.ts"
import { summarize } from "../../src/domain/TaskView.ts"
import { now, Timestamp } from "../../src/domain/Timestamp.ts"
import { Changes } from "../../src/services/signals/Changes.ts"
import { TaskStore } from "../../src/services/store/tasks/TaskStore.ts"
import { call, commit, makeTask, stored, type StoreTests, turn, uuid } from "./StoredTasks.ts"

const anything = { statuses: [], assistantId: null, from: null, to: null }

export const contract = (it: StoreTests) => {
  it.effect("keeps partial output and returns a turn unchanged", () =>
    Effect.gen(function*() {
      const store = yield* TaskStore
      const task = yield* stored()
      yield* commit(task.uuid, "Progressed")
      yield* commit(task.uuid, "TimeLimitExceeded")
      const found = Option.getOrThrow(yield* store.get(task.uuid))
      assert.strictEqual(found.turn, turn)
      assert.strictEqual(found.error, "long")
    }))

  it.effect("resumes an interrupted task with a new run, the core's state and the results", () =>
    Effect.gen(function*() {
      const store = yield* TaskStore
      const task = yield* stored()
      assert.strictEqual(Option.getOrThrow(yield* store.pendingRun(task.uuid)).resume, null)
      yield* commit(task.uuid, "Interrupted")
      const found = Option.getOrThrow(yield* store.get(task.uuid))
      assert.strictEqual(found.pendingToolCalls, fromValue([call]))
      assert.isTrue(Option.isNone(yield* store.pendingRun(task.uuid)))
      yield* commit(task.uuid, "ToolResultsSubmitted", { runId: task.runId })
      const run = Option.getOrThrow(yield* store.pendingRun(task.uuid))
      assert.notStrictEqual(run.runId, task.runId)
      assert.strictEqual(run.userToken, "sealed-again")
      assert.deepStrictEqual(run.resume, {
        state: OpaqueJson.make(`{"at":1}`),
        results: OpaqueJson.make(`[{"tool_call_id":"c1","output":1}]`)
      })
      yield* commit(task.uuid, "Completed")
      assert.isTrue(Option.isNone(yield* store.pendingRun(task.uuid)))
    }))

  it.effect("lists newest first, by status and page", () =>
    Effect.gen(function*() {
      const store = yield* TaskStore
      const { principal } = yield* makeTask()
      const created = yield* Effect.forEach([3, 1, 5, 2, 4], (second) =>
        stored({ principal, createdAt: Timestamp.make(1_764_000_000_000_000 + second) }))
      yield* commit(created[2]!.uuid, "Completed")
      const list = (filter: object) =>
        Effect.map(
          store.list({ sub: principal.sub, statuses: [], page: 1, perPage: 25, ...filter }),
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
      const store = yield* TaskStore
      const { createdAt, principal } = yield* makeTask()
      const created = yield* Effect.replicateEffect(stored({ principal, createdAt }), 4)
      yield* commit(created[0]!.uuid, "Interrupted")
      yield* commit(created[1]!.uuid, "Failed")
      yield* stored({ createdAt })
      const newestFirst = created.map(({ uuid }) => uuid).toSorted().toReversed()
      const expected = yield* Effect.forEach(
        newestFirst,
        (id) => Effect.map(store.get(id), (found) => Option.getOrThrow(found))
      )
      for (const page of [1, 2]) {
        const { tasks, total } = yield* store.list({ sub: principal.sub, statuses: [], page, perPage: 2 })
        assert.deepStrictEqual(tasks.map(summarize), expected.slice(2 * (page - 1), 2 * page).map(summarize))
        assert.strictEqual(total, 4)
      }
    }))

  it.effect("records events, returns heads and notifies subscribers of each change", () =>
    Effect.gen(function*() {
      const store = yield* TaskStore
      const changes = yield* Changes
      const task = yield* stored()
      const { sub } = task.principal
      const changed = yield* changes.subscribe(task.uuid, sub)
      const ended = yield* changes.subscribe(task.uuid, sub, ({ status }) => status === "interrupted")
      const interrupted = yield* Effect.forkChild(ended, { startImmediately: true })
      for (const tag of ["Accepted", "Progressed", "Interrupted"] as const) {
        assert.isUndefined(interrupted.pollUnsafe())
        yield* commit(task.uuid, tag)
        assert.strictEqual(yield* changed, "enough")
      }
      assert.strictEqual(yield* Fiber.join(interrupted), "enough")
      // A commit without a change sends no notification.
      const next = yield* Effect.forkChild(changed)
      yield* commit(task.uuid, "Accepted")
      assert.isUndefined(next.pollUnsafe())
      const [head, ...others] = yield* store.heads([task.uuid, TaskId.make(yield* uuid)])
      assert.deepStrictEqual([head?.sub, head?.status, head?.revision, others.length], [sub, "interrupted", 3, 0])
      assert.deepStrictEqual(yield* store.heads([]), [])
      yield* store.cancelInterrupted(sub, yield* now)
      assert.strictEqual(yield* Fiber.join(next), "enough")
      const events = (after: number, limit: number) =>
        Effect.map(
          store.eventsAfter(task.uuid, after, limit),
          (found) => found.map(({ revision, status, type }) => `${revision} ${type} ${status}`)
        )
      assert.deepStrictEqual(yield* events(-1, 2), ["0 Created pending", "1 Accepted processing"])
      assert.deepStrictEqual(yield* events(0, 2), ["1 Accepted processing", "2 Progressed processing"])
      assert.deepStrictEqual(yield* events(2, 500), ["3 Interrupted interrupted", "4 Canceled canceled"])
      assert.deepStrictEqual(yield* events(4, 500), [])
    }))

  it.effect("finds a user's tasks by what they ask, by id and by metadata", () =>
    Effect.gen(function*() {
      const store = yield* TaskStore
      const { principal } = yield* makeTask()
      const request = fromValue({ assistant_id: 1, input: [{ type: "text", text: "Refund the order" }] })
      const asked = yield* stored({ principal, request })
      const repeated = yield* stored({ principal, request: fromValue({ repeats: asked.uuid, llm_model_id: 2 }) })
      const labeled = yield* stored({ principal, metadata: { project: "Refunds" } })
      const foreign = yield* stored({ request })
      const all = [asked, repeated, labeled, foreign].map(({ uuid }) => uuid)
      const excerpts = yield* store.excerpts(principal.sub, all)
      assert.strictEqual(excerpts.get(asked.uuid), "Refund the order")
      assert.isFalse(excerpts.has(labeled.uuid) || excerpts.has(foreign.uuid))
      const search = (text: string) =>
        Effect.map(store.search(principal.sub, { ...anything, text }), (uuids) => uuids.toSorted())
      assert.includeMembers(yield* search("refund"), [asked.uuid, labeled.uuid])
      assert.deepStrictEqual(yield* search("project: ref"), [labeled.uuid])
      assert.deepStrictEqual(yield* search(labeled.uuid.slice(2)), [labeled.uuid])
      assert.deepStrictEqual(yield* search(`${asked.uuid.slice(0, 8)}…${asked.uuid.slice(-12)}`), [asked.uuid])
      for (const text of ["%", foreign.uuid, "assistant_id"]) assert.deepStrictEqual(yield* search(text), [], text)
    }))

  it.effect("finds a user's tasks by assistant and by when they were created", () =>
    Effect.gen(function*() {
      const store = yield* TaskStore
      const { principal } = yield* makeTask()
      const at = (second: number) => Timestamp.make(1_764_000_000_000_000 + second * 1_000_000)
      const made = yield* Effect.forEach([[1, 7], [2, 8], [3, 7]] as const, ([second, assistantId]) =>
        stored({ principal, assistantId, createdAt: at(second), metadata: { project: "x" } }))
      const foreign = yield* stored({ assistantId: 7, createdAt: at(2) })
      const uuids = made.map(({ uuid }) =>
        uuid
      )
      const numbersOf = (found: ReadonlyArray<TaskId>) => found.map((uuid) => uuids.indexOf(uuid) + 1).toSorted()
      for (const more of [{}, { metadata: { project: "x" } }, { uuids }, { statuses: ["pending"] as const }]) {
        const list = (wanted: object) =>
          Effect.map(
            store.list({ sub: principal.sub, statuses: [], page: 1, perPage: 25, ...more, ...wanted }),
            ({ tasks, total }) => {
              assert.strictEqual(total, tasks.length)
              return numbersOf(tasks.map(({ uuid }) => uuid))
            }
          )
        assert.deepStrictEqual(yield* list({ assistantId: 7 }), [1, 3])
        assert.deepStrictEqual(yield* list({ from: at(2) }), [2, 3])
        assert.deepStrictEqual(yield* list({ from: at(2), to: at(3) }), [2])
        assert.deepStrictEqual(yield* list({ assistantId: 7, to: at(3) }), [1])
        assert.deepStrictEqual(yield* list({ assistantId: 9 }), [])
      }
      const search = (wanted: object) =>
        Effect.map(store.search(principal.sub, { ...anything, text: "project: x", ...wanted }), numbersOf)
      assert.deepStrictEqual(yield* search({ assistantId: 7, to: at(3) }), [1])
      assert.deepStrictEqual(yield* search({ statuses: ["pending"] }), [1, 2, 3])
      assert.deepStrictEqual(yield* search({ statuses: ["failed"] }), [])
      assert.deepStrictEqual(
        [...yield* store.assistants(principal.sub, [...uuids, foreign.uuid])].map(([, assistant]) => assistant)
          .toSorted(),
        [7, 7, 8]
      )
    }))
}
