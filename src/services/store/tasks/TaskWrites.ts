/**
 * Changes of tasks. Each is one guarded statement: of two racing events one wins, and the other gets the current head as
 * a value. The same statement inserts the event row and the outbox rows (stop, webhook). `Changes` are
 * published after it.
 */
import { Context, type Duration, type Effect } from "effect"
import type { OpaqueJson } from "../../../domain/json/OpaqueJson.ts"
import type { Principal } from "../../../domain/Principal.ts"
import type { StoreUnavailable } from "../../../domain/StoreUnavailable.ts"
import type { Room, RunId, TaskEvent, TaskHead, TaskId } from "../../../domain/Task.ts"
import type { IdempotencyKeyReused, TooManyActiveTasks } from "../../../domain/TaskErrors.ts"
import type { KeptFields } from "../../../domain/TaskRequest.ts"
import type { Timestamp } from "../../../domain/Timestamp.ts"
import type { RunLimits } from "../queue/RunQueue.ts"

/** A user's idempotency key for one request. The statement of the change also claims it. */
export interface IdempotencyClaim {
  readonly key: string
  /** Distinguishes requests: it covers operation, task and body. */
  readonly fingerprint: string
  /** How long a new task keeps the key; `Limits.idempotencyKeyTtl` if absent. */
  readonly keptFor?: Duration.Duration
}

export interface NewTask extends KeptFields {
  readonly uuid: TaskId
  readonly principal: Principal
  readonly runId: RunId
  /** See `CallbackFormats`. */
  readonly callbackFormat: string | null
  /** Slots of the user that have to be left free. */
  readonly sparedSlots?: number
  readonly createdAt: Timestamp
  readonly deadline: Timestamp
  /** Null when the dispatch waits for a slot: the deadline is set at the first attempt. */
  readonly acceptanceDeadline: Timestamp | null
  /** The `RunRequest`, encoded. */
  readonly request: OpaqueJson
  /** From 0 to 9. */
  readonly priority: number
  /** Encrypted. */
  readonly userToken: string
  /** Encrypted. */
  readonly callbackSecret: string | null
}

/** How a new run enters the queue. */
export interface QueueEntry {
  /** Whether it waits even where no limit holds it: this node knows that the core has no room, or that others wait. */
  readonly waits: boolean
  readonly limits: RunLimits
}

/** The run of a core that needs no room. */
export const noQueue: QueueEntry = { waits: false, limits: { runs: null, runsPerAssistant: null } }

/** The created task; on a replay, the task that the first request created. */
export interface Created {
  readonly taskId: TaskId
  readonly isReplay: boolean
  /** The place of the run. The acceptance deadline of one that waits is null. */
  readonly room: Room | null
}

/** Fences an event to its run and deduplicates it by an id, if it has one. Absent for events that do not come from a run. */
export interface Fence {
  readonly runId: RunId
  readonly coreEventId?: string
  /** Whether a pending task is accepted first, as a change of its own in the same transaction. */
  readonly recordsAcceptance?: boolean
}

export type Commit =
  /** `recordedAcceptance`: the commit also accepted the task, as a change before the event. */
  | { readonly _tag: "Applied"; readonly head: TaskHead; readonly recordedAcceptance: boolean }
  /** Nothing changed: the event is a repetition, or is illegal in the task's status. */
  | { readonly _tag: "NoEffect"; readonly head: TaskHead }
  /** Nothing changed: the run is not the task's current run, or the task has ended. */
  | { readonly _tag: "Superseded"; readonly head: TaskHead }
  /** Nothing changed: the run's token is revoked. */
  | { readonly _tag: "Revoked"; readonly head: TaskHead }
  | { readonly _tag: "Unknown" }

export class TaskWrites extends Context.Service<TaskWrites, {
  /**
   * Checks the claim and the active limit and inserts, atomically per user and in one round trip. `maxActive` holds for users without a
   * limit of their own.
   */
  readonly create: (
    task: NewTask,
    maxActive: number,
    claim?: IdempotencyClaim,
    entry?: QueueEntry
  ) => Effect.Effect<Created, TooManyActiveTasks | IdempotencyKeyReused | StoreUnavailable>
  /**
   * Applies `event` if the transition table allows it and stores the claim, in one statement. `NoEffect` too when another request has
   * claimed the key. A run that begins is put into the queue if it `waits` or its assistant has a limit.
   */
  readonly commit: (
    uuid: TaskId,
    event: TaskEvent,
    at: Timestamp,
    fence?: Fence,
    claim?: IdempotencyClaim & { readonly sub: string },
    waits?: boolean
  ) => Effect.Effect<Commit, StoreUnavailable>
  /** Cancels all interrupted tasks of a user in one statement. */
  readonly cancelInterrupted: (
    sub: string,
    at: Timestamp,
    actor?: string
  ) => Effect.Effect<ReadonlyArray<TaskHead>, StoreUnavailable>
  /**
   * Claims silent runs in order to hand them over again, for this node alone, and counts the hand-over. A run is not claimed when its
   * task has changed, or any node has recorded an event of it or claimed it, since its head was read.
   */
  readonly claimSilent: (runs: ReadonlyArray<TaskHead>) => Effect.Effect<ReadonlyArray<TaskHead>, StoreUnavailable>
  /**
   * Sets the acceptance deadline of a pending run whose dispatch had to wait, unless it has one or waits again. Returns the present head;
   * undefined for a task that was deleted.
   */
  readonly startAcceptance: (
    uuid: TaskId,
    runId: RunId,
    deadline: Timestamp
  ) => Effect.Effect<TaskHead | undefined, StoreUnavailable>
}>()("async-task-service/services/store/tasks/TaskWrites") {}
