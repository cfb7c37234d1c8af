/** Tasks in a store, for the contracts of the stores. */
import type { Vitest } from "@effect/vitest"
import { Effect, Record } from "effect"
import { SecureRandom } from "effect/crypto"
import { fromValue, OpaqueJson } from "../../src/domain/json/OpaqueJson.ts"
import { RunId, TaskEvent, type TaskEventTag, TaskId, TaskStatus } from "../../src/domain/Task.ts"
import { ownFieldsOf } from "../../src/domain/TaskRequest.ts"
import { now, plus } from "../../src/domain/Timestamp.ts"
import type { Changes } from "../../src/services/signals/Changes.ts"
import type { RevocationRepository } from "../../src/services/store/revocations/RevocationRepository.ts"
import { isLive } from "../../src/services/store/tasks/TaskColumns.ts"
import { type Fence, type NewTask, TaskStore } from "../../src/services/store/tasks/TaskStore.ts"
import type { WebhookStore } from "../../src/services/store/webhooks/WebhookStore.ts"

export type StoreTests = Vitest.MethodsNonLive<
  | TaskStore
  | WebhookStore
  | RevocationRepository
  | Changes
  | SecureRandom.SecureRandom
>

/** SQL: whether a row of `tasks` has a status, or values for a status, that cannot be. */
export const contradicts = `status <> ALL ('{${TaskStatus.literals.join()}}') OR (${isLive}) <> (completed_at IS NULL)
  OR (status = 'interrupted') <> (pending_tool_calls IS NOT NULL)`

export const uuid = Effect.flatMap(SecureRandom.SecureRandom, (random) => random.uuidV7())
export const newRunId = Effect.map(uuid, (id) => RunId.make(id))

export const makeTask = Effect.fnUntraced(function*(overrides: Partial<NewTask> = {}) {
  const createdAt = yield* now
  const task: NewTask = {
    uuid: TaskId.make(yield* uuid),
    principal: { sub: `user-${yield* uuid}`, tokenId: "token", issuedAt: 1_700_000_000 },
    runId: yield* newRunId,
    ...ownFieldsOf({ max_execution_time: 60 }),
    assistantId: 1,
    callbackFormat: null,
    createdAt,
    deadline: plus(createdAt, "60 seconds"),
    acceptanceDeadline: plus(createdAt, "30 seconds"),
    request: OpaqueJson.make(`{"assistant_id":1}`),
    priority: 5,
    userToken: "sealed-token",
    ...overrides
  }
  return task
})

export const stored = Effect.fnUntraced(function*(overrides: Partial<NewTask> = {}) {
  const store = yield* TaskStore
  const task = yield* makeTask(overrides)
  yield* store.create(task, 5)
  return task
})

export const turn = OpaqueJson.make(`{"output":[{"type":"text","text":"\\u0000 é"}],"z":1,"a":2}`)
export const call = { id: "c1", name: "look", arguments: { x: [1, null] } }

/** One event of each kind. */
export const eventOf = Effect.fnUntraced(function*(tag: TaskEventTag) {
  const { cases } = TaskEvent
  const runId = yield* newRunId
  const events: { readonly [Tag in TaskEventTag]: TaskEvent } = {
    Accepted: cases.Accepted.make({}),
    Progressed: cases.Progressed.make({ turn }),
    Interrupted: cases.Interrupted.make({
      toolCalls: fromValue([call]),
      state: OpaqueJson.make(`{"at":1}`),
      turn: null
    }),
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
    Canceled: cases.Canceled.make({ reason: "enough" }),
    Withdrawn: cases.Withdrawn.make({ reason: "withdrawn" })
  }
  return events[tag]
})

export const tags = Record.keys(TaskEvent.cases)

export const commit = Effect.fnUntraced(
  function*(id: TaskId, tag: TaskEventTag, fence?: Fence) {
    const store = yield* TaskStore
    return yield* store.commit(id, yield* eventOf(tag), yield* now, fence)
  }
)
