/** Decides the next step of a task's actor: a pure function of the actor, a row and the time. `TaskActors` carries it out. */
import { Duration } from "effect"
import { nextDue } from "../../domain/Deadline.ts"
import { pauseAfter } from "../../domain/Silence.ts"
import { isRunning, type RunId, type TaskEvent, type TaskHead } from "../../domain/Task.ts"
import { fromMicros, plus, type Timestamp } from "../../domain/Timestamp.ts"

export interface Actor {
  /** The newest row that this node has seen. */
  readonly head: TaskHead
  /** The latest run that this node has dispatched or queued for recovery. */
  readonly dispatchedRun: RunId | undefined
  /** The run whose expired deadline is being committed. */
  readonly ending: RunId | undefined
  /**
   * The seconds of silence that the core declared when it answered 2xx to the dispatched run, null if none; "last" if it refused the run
   * that it has, because what it declared last counts then; undefined before.
   */
  readonly silence: number | "last" | null | undefined
  /** When it answered. */
  readonly answeredAt: Timestamp
  /** Whether it counts among the runs that the core has. */
  readonly isCounted: boolean
}

export type MutableActor = { -readonly [Key in keyof Actor]: Actor[Key] }

/** An actor that has done nothing yet. */
export const newActor = (head: TaskHead): MutableActor => ({
  head,
  dispatchedRun: undefined,
  ending: undefined,
  silence: undefined,
  answeredAt: fromMicros(0),
  isCounted: false
})

/** `until` is the task's next deadline. */
export type Decision =
  /** Nothing to do: the row is old, or the task is being ended. */
  | { readonly _tag: "Ignore" }
  /** The task has ended, or waits for its client and its deadline is far: it needs no actor. */
  | { readonly _tag: "Release" }
  /** A deadline has passed: commit its event. */
  | { readonly _tag: "Expire"; readonly event: TaskEvent }
  /** The run is in progress, or the client has to act: wait. */
  | { readonly _tag: "Park"; readonly until: Timestamp }
  /** The run waits until the core has room: nothing is dispatched, and no actor is needed while the deadline is far. */
  | { readonly _tag: "Queue"; readonly until: Timestamp }
  /** The core cannot know the run: dispatch it now. */
  | { readonly _tag: "Dispatch"; readonly until: Timestamp }
  /** The core may know the run, but this node cannot know: queue it for recovery. */
  | { readonly _tag: "Recover"; readonly until: Timestamp }

const ignore: Decision = { _tag: "Ignore" }
const release: Decision = { _tag: "Release" }

export interface Options {
  readonly acceptanceTimeout: Duration.Duration
  readonly sweepInterval: Duration.Duration
  /** This node has known every run of its tasks since then. */
  readonly ownedSince: Timestamp
  /** This node has just committed the run. */
  readonly isNew?: boolean
}

/** An interrupted task, or one whose run waits, has an actor only this long before its deadline. The sweep starts it. */
export const watchTime = (sweepInterval: Duration.Duration) =>
  Duration.sum(Duration.minutes(1), Duration.times(sweepInterval, 2))

/** Whether the core cannot have received the run from another node, or before a crash. */
const isNewToCore = ({ acceptanceDeadline, resumedAt, status }: TaskHead, { ownedSince }: Options) =>
  status === "pending" ? acceptanceDeadline === null : resumedAt !== null && resumedAt > ownedSince

/** Whether the core needs a run. An interrupted run has ended, although its task keeps its id until the next run. */
export const isWanted = <A extends Actor>(actor: A | undefined, runId: RunId): actor is A =>
  actor !== undefined && actor.head.runId === runId && actor.head.status !== "interrupted"

/** Whether the core works on the run, and no event of it was recorded for so long. Time before `from` does not count. */
export const isQuiet = (
  { lastEventAt, room, status }: TaskHead,
  duration: Duration.Duration,
  at: Timestamp,
  from = 0
): boolean =>
  status === "processing" && room !== "waiting" &&
  at - Math.max(lastEventAt ?? 0, from) >= Duration.toMillis(duration) * 1000

/** Whether the run has been silent for longer than its core declared, since its last event and since the core's last answer. */
export const isSilent = (
  { answeredAt, head, silence }: Actor,
  at: Timestamp,
  from: Timestamp,
  lastDeclared?: number
): boolean => {
  const seconds = silence === "last" ? lastDeclared : silence
  return typeof seconds === "number" &&
    isQuiet(head, Duration.seconds(pauseAfter(seconds, head.redispatches ?? 0)), at, Math.max(answeredAt, from))
}

/** Whether the core has accepted the run or reported of it, so that a later refusal does not end the task. */
export const isAccepted = ({ redispatches, resumedAt, status }: TaskHead): boolean =>
  status === "processing" && (redispatches !== null || resumedAt === null)

/** Whether the core has the run, as far as this node knows. */
export const hasRun = ({ dispatchedRun, head, silence }: Actor): boolean =>
  isRunning(head.status) && head.room !== "waiting" &&
  (isAccepted(head) || (silence !== undefined && dispatchedRun === head.runId))

/** Whether the run, which the core has answered, has reported since it was dispatched: nothing has to be dispatched. */
export const hasReported = ({ head, silence }: Actor): boolean => silence !== undefined && head.redispatches === null

/** Whether a row is older than another one of its task. */
const isOlder = (one: TaskHead, other: TaskHead) =>
  one.revision < other.revision || (one.revision === other.revision && one.queueRevision < other.queueRevision)

/**
 * Decides for a row that was read, or for the actor's own one when its timer is due. A run that this node has not dispatched
 * is dispatched even if no request asked for it: the reply to the commit that created the run, or the node that created
 * it, may have been lost.
 */
export const decide = (
  actor: Actor | undefined,
  head: TaskHead,
  now: Timestamp,
  options: Options
): Decision => {
  if (actor !== undefined && isOlder(head, actor.head)) return ignore
  const due = nextDue(head, options.acceptanceTimeout)
  if (due === undefined) return release
  if (due.at <= now) return actor?.ending === head.runId ? ignore : { _tag: "Expire", event: due.event() }
  if (head.status === "interrupted" && due.at > plus(now, watchTime(options.sweepInterval))) return release
  if (head.room === "waiting") return { _tag: "Queue", until: due.at }
  if (head.status === "interrupted" || actor?.dispatchedRun === head.runId) return { _tag: "Park", until: due.at }
  // A run is new that replaces the actor's, or that has just left the queue. Another node may have sent a pending one that has an acceptance deadline.
  const isNew = options.isNew === true || (actor === undefined || head.status === "pending"
    ? isNewToCore(head, options)
    : actor.head.runId !== head.runId || actor.head.room === "waiting")
  return { _tag: isNew ? "Dispatch" : "Recover", until: due.at }
}
