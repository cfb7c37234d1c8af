import { assert, describe, it } from "@effect/vitest"
import * as Task from "../../src/domain/Task.ts"

const tags = Object.keys(Task.TaskEvent.cases) as ReadonlyArray<Task.TaskEventTag>

describe("the transition table", () => {
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
        const to = Task.statusAfter(from, event)
        assert.strictEqual(to, documented[event][from], `${event} of a task that is ${from}`)
      }
    }
  })
})
