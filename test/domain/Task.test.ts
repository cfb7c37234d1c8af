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

  it("has the 21 documented transitions, typed by hand, and no other", () => {
    const documented: Readonly<Record<Task.TaskEventTag, Partial<Record<Task.TaskStatus, Task.TaskStatus>>>> = {
      Accepted: { pending: "processing" },
      Progressed: { pending: "processing", processing: "processing" },
      Interrupted: { pending: "interrupted", processing: "interrupted" },
      Completed: { pending: "completed", processing: "completed" },
      Failed: { pending: "failed", processing: "failed" },
      Refused: { pending: "failed", processing: "failed" },
      AcceptanceExpired: { pending: "failed" },
      TimeLimitExceeded: { pending: "failed", processing: "failed", interrupted: "failed" },
      TokenRevoked: { pending: "failed", processing: "failed" },
      ToolResultsSubmitted: { interrupted: "processing" },
      Canceled: { interrupted: "canceled" },
      Withdrawn: { pending: "canceled", processing: "canceled" }
    }
    assert.sameMembers([...tags], Object.keys(documented))
    for (const event of tags) {
      for (const from of Task.TaskStatus.literals) {
        const to = Result.getOrUndefined(Task.transition(from, event))
        assert.strictEqual(to, documented[event][from], `${event} of a task that is ${from}`)
      }
    }
  })
})
