/**
 * The queue of runs that wait until the core has room. A task whose run waits has `room: "waiting"`. The next ones are the resumed runs,
 * the oldest answer first; then those of the highest class, whose users take turns by their tickets.
 */
import { Context, type Effect } from "effect"
import type { StoreUnavailable } from "../../../domain/StoreUnavailable.ts"
import type { RunId, TaskHead, TaskId } from "../../../domain/Task.ts"
import type { TaskShard } from "../../../domain/TaskShard.ts"
import type { Timestamp } from "../../../domain/Timestamp.ts"

/** The class of resumed runs. New runs have their priority as class. */
export const resumedClass = 10

/** Microseconds without an admission of its class after which the first run of a class rises by one class, so that nothing starves. */
export const risesAfter = 60_000_000

export { maxPosition } from "../../../domain/WaitingOn.ts"

/** Assistants that are listed: those with most waiting. */
export const listedAssistants = 200

/** The settings of an operator for an assistant. */
export interface AssistantLimit {
  /** The most runs of it that the core has; null: `CORE_RUNS_PER_ASSISTANT` holds. */
  readonly runs: number | null
  /** Whether its new runs are held. Resumed ones go on. */
  readonly isPaused: boolean
}

/** The queue of one assistant. */
export interface AssistantQueue extends AssistantLimit {
  readonly assistantId: number
  /** Runs that were dispatched, and have not ended or been interrupted. */
  readonly running: number
  readonly waiting: number
  readonly oldestWaitingSince: Timestamp | null
}

export interface QueueState {
  readonly running: number
  readonly waiting: number
  /** The creation of the task, or for a resumed run its answer. */
  readonly oldestWaitingSince: Timestamp | null
  /** Those with runs, waiting ones, a limit or a pause: most waiting first, `listedAssistants` of them. */
  readonly assistants: ReadonlyArray<AssistantQueue>
}

/** The runs that one node may take from the queue. */
export interface Admission {
  readonly at: Timestamp
  /** The most runs that are admitted. */
  readonly most: number
  /** `CORE_RUNS` and `CORE_RUNS_PER_ASSISTANT`. */
  readonly limits: RunLimits
  /** Only tasks of these shards; undefined for all. */
  readonly shards: ReadonlyArray<TaskShard> | undefined
  /** The ticket at which the search of each class begins, by class: entries before it have left the queue. */
  readonly floor: ReadonlyArray<number>
  /** When this node last admitted a run of each class, by class. */
  readonly servedAt: ReadonlyArray<Timestamp>
}

export interface RunLimits {
  readonly runs: number | null
  readonly runsPerAssistant: number | null
}

export interface Admitted {
  /**
   * `busy`: another node admits at this moment; `empty`: nothing waits; `full`: what waits has no room; `more`: as many as wanted were
   * admitted, and others may have room.
   */
  readonly outcome: "busy" | "empty" | "full" | "more"
  readonly heads: ReadonlyArray<TaskHead>
  /** See `Admission`: for the next call. */
  readonly floor: ReadonlyArray<number>
  readonly servedAt: ReadonlyArray<Timestamp>
}

export class RunQueue extends Context.Service<RunQueue, {
  readonly read: Effect.Effect<QueueState, StoreUnavailable>
  /**
   * The places of those tasks that wait, 1 for the next one: an estimate, because it does not know which assistants have room. Up to
   * `maxPosition`.
   */
  readonly positions: (uuids: ReadonlyArray<TaskId>) => Effect.Effect<ReadonlyMap<TaskId, number>, StoreUnavailable>
  /** Changes what is given and returns the row. An assistant that is not known is created. */
  readonly setAssistant: (
    assistantId: number,
    change: Partial<AssistantLimit>
  ) => Effect.Effect<AssistantQueue, StoreUnavailable>
  /**
   * Admits the next runs that have room, in one statement. The number of runs that count is exact over all nodes: one statement admits at
   * a time.
   */
  readonly admit: (admission: Admission) => Effect.Effect<Admitted, StoreUnavailable>
  /**
   * Puts runs back into the queue that the core did not take, and resets their acceptance deadlines. A run of which an event was recorded
   * stays as it is. Returns the present head of the task.
   */
  readonly putBack: (
    uuid: TaskId,
    runId: RunId,
    sub: string,
    at: Timestamp
  ) => Effect.Effect<TaskHead | undefined, StoreUnavailable>
  /** Makes runs count for the limits that began before there were any. */
  readonly count: (uuids: ReadonlyArray<TaskId>) => Effect.Effect<void, StoreUnavailable>
}>()("async-task-service/services/store/queue/RunQueue") {}
