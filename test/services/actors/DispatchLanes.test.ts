import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Queue } from "effect"
import { toCreateTask } from "../../../src/domain/TaskRequest.ts"
import type { Run } from "../../../src/services/core/CoreClient.ts"
import { Tasks } from "../../../src/services/tasks/Tasks.ts"
import { callerOf, question, withCore } from "../../kit/TestTasks.ts"

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
