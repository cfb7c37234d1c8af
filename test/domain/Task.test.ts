import { assert, describe, it } from "@effect/vitest"
import { Result, Schema } from "effect"
import * as Task from "../../src/domain/Task.ts"

const tags = Object.keys(Task.TaskEvent.cases) as ReadonlyArray<Task.TaskEventTag>
const Tag = Schema.Literals(tags)

describe("the transition table", () => {
  it.prop(
    "is total: returns a result for every status and event, and never throws",
    [Task.TaskStatus, Tag],
    ([from, event]) => {
      const result = Task.transition(from, event)
      assert.strictEqual(Result.isSuccess(result), Task.sourcesOf(event).includes(from))
      if (Result.isFailure(result)) assert.include(result.failure.message, `is ${from}`)
    }
  )

  it.prop("has no transition out of a terminal status", [Task.TaskStatus, Tag], ([from, event]) => {
    if (Task.isTerminal(from)) assert.isTrue(Result.isFailure(Task.transition(from, event)))
  })

  it.prop("leads each event to one status, whatever the source", [Task.TaskStatus, Tag], ([from, event]) => {
    const result = Task.transition(from, event)
    if (Result.isSuccess(result)) assert.strictEqual(result.success, Task.targetOf(event))
  })

  it("has a source for every event and a way into every status except pending", () => {
    for (const tag of tags) assert.isNotEmpty(Task.sourcesOf(tag))
    const targets = new Set<Task.TaskStatus>(tags.map(Task.targetOf))
    for (const status of Task.TaskStatus.literals) assert.strictEqual(targets.has(status), status !== "pending")
  })

  it("has six states, three of them terminal", () => {
    assert.deepStrictEqual(Task.TaskStatus.literals.filter(Task.isTerminal), ["completed", "failed", "canceled"])
    assert.deepStrictEqual(Task.activeStatuses, ["pending", "processing", "interrupted"])
  })

  it("contains the documented transitions", () => {
    const rows = [
      ["pending", "Accepted", "processing"],
      ["pending", "AcceptanceExpired", "failed"],
      ["processing", "Completed", "completed"],
      ["processing", "Failed", "failed"],
      ["processing", "TokenRevoked", "failed"],
      ["processing", "Interrupted", "interrupted"],
      ["interrupted", "ToolResultsSubmitted", "processing"],
      ["interrupted", "Canceled", "canceled"],
      ["pending", "Withdrawn", "canceled"],
      ["processing", "Withdrawn", "canceled"],
      ["pending", "TimeLimitExceeded", "failed"],
      ["processing", "TimeLimitExceeded", "failed"],
      ["interrupted", "TimeLimitExceeded", "failed"]
    ] as const
    for (const [from, event, to] of rows) assert.deepStrictEqual(Task.transition(from, event), Result.succeed(to))
    for (const from of ["pending", "processing"] as const) {
      assert.isTrue(Result.isFailure(Task.transition(from, "Canceled")))
      assert.isTrue(Result.isFailure(Task.transition(from, "ToolResultsSubmitted")))
    }
  })
})
