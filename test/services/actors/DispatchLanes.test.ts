import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Exit, FiberSet, Queue, Scope } from "effect"
import { toCreateTask } from "../../../src/domain/TaskRequest.ts"
import type { Run } from "../../../src/services/core/CoreClient.ts"
import { Tasks } from "../../../src/services/tasks/Tasks.ts"
import { callerOf, question, withCore } from "../../kit/TestTasks.ts"

const taskWith = (characters: number) =>
  toCreateTask({ assistant_id: 1, input: [{ type: "text", text: "x".repeat(characters) }] })

const text = "x".repeat(2 * 1024 * 1024)
const large = toCreateTask({ assistant_id: 1, input: [{ type: "text", text }] })

describe("large runs", () => {
  it.effect("are dispatched one at a time, without delaying small runs or losing any", () =>
    Effect.gen(function*() {
      const answer = yield* Deferred.make<void>()
      const onStart = ({ request }: Pick<Run, "request">) =>
        request.length > text.length ? Deferred.await(answer) : Effect.void
      yield* withCore({ onStart }, ({ starts }) =>
        Effect.gen(function*() {
          const tasks = yield* Tasks
          const create = (sub: string, body = large) => tasks.create(callerOf(sub), body)
          for (const sub of ["a", "b", "c", "d"]) yield* create(sub)
          const { uuid } = yield* create("e", question)
          const first = yield* Queue.takeN(starts, 2)
          assert.strictEqual(first.at(-1)?.taskId, uuid)
          assert.strictEqual(first[0]?.principal.sub, "a")
          assert.strictEqual(yield* Queue.size(starts), 0)
          yield* Deferred.succeed(answer, undefined)
          const rest = yield* Queue.takeN(starts, 3)
          assert.deepStrictEqual(rest.map(({ principal }) => principal.sub), ["b", "c", "d"])
          assert.strictEqual(rest[0]?.request, large.request)
        }))
    }))
})

describe("a run that waits for its lane", () => {
  it.effect("keeps its request up to 64 KiB, and reads a longer one again", () =>
    Effect.gen(function*() {
      const answer = yield* Deferred.make<void>()
      const read: Array<string> = []
      yield* withCore({
        onStart: () => Deferred.await(answer),
        withStore: (reads) => ({
          ...reads,
          pendingRun: (uuid) => Effect.andThen(Effect.sync(() => read.push(uuid)), reads.pendingRun(uuid))
        })
      }, ({ starts }) =>
        Effect.gen(function*() {
          const tasks = yield* Tasks
          const create = (sub: string, characters: number) => tasks.create(callerOf(sub), taskWith(characters))
          // A run that is attempted immediately is not read, however long its request is.
          for (let number = 0; number < 256; number++) yield* create(`fills ${number}`, number === 0 ? 100_000 : 10)
          yield* Queue.takeN(starts, 256)
          const [short, long] = [yield* create("short", 60_000), yield* create("long", 70_000)]
          assert.deepStrictEqual(read, [])
          yield* Deferred.succeed(answer, undefined)
          const rest = yield* Queue.takeN(starts, 2)
          assert.sameMembers(rest.map(({ taskId }) => taskId), [short.uuid, long.uuid])
          assert.deepStrictEqual(rest.map(({ request }) => request.length > 70_000).toSorted(), [false, true])
          assert.deepStrictEqual(read, [long.uuid])
        }))
    }))

  // The finalizer of the fiber of a dispatch gives back its places. A set that is closed starts no fiber: the node has ended.
  it.effect("runs its finalizer even if it is interrupted at its first step", () =>
    Effect.gen(function*() {
      const scope = yield* Scope.make()
      const run = yield* Scope.provide(FiberSet.makeRuntime(), scope)
      let ended = 0
      run(Effect.ensuring(Effect.never, Effect.sync(() => void ended++)))
      yield* Scope.close(scope, Exit.void)
      assert.strictEqual(ended, 1)
    }))
})
