/** State that outlives a node: the store, the clock, and the observations of clients and the core. */
import { Context, Duration, Effect, Layer, Option, type Scope } from "effect"
import { isTerminal, type RunId, type TaskHead, type TaskId, type TaskStatus } from "../../src/domain/Task.ts"
import { now, Timestamp } from "../../src/domain/Timestamp.ts"
import { periodAfter } from "../../src/services/actors/Trials.ts"
import { RecoveryTrials } from "../../src/services/store/RecoveryTrials.ts"
import * as RecoveryTrialsMemory from "../../src/services/store/RecoveryTrialsMemory.ts"
import { RemoteChanges } from "../../src/services/store/RemoteChanges.ts"
import type { RevocationRepository } from "../../src/services/store/RevocationRepository.ts"
import * as RevocationRepositoryMemory from "../../src/services/store/RevocationRepositoryMemory.ts"
import type { StopOutbox } from "../../src/services/store/StopOutbox.ts"
import { TaskNotifications } from "../../src/services/store/TaskNotifications.ts"
import { TaskReads } from "../../src/services/store/TaskReads.ts"
import type { TaskRetention } from "../../src/services/store/TaskRetention.ts"
import { TaskScans } from "../../src/services/store/TaskScans.ts"
import * as TaskStoreMemory from "../../src/services/store/TaskStoreMemory.ts"
import type { TaskWrites } from "../../src/services/store/TaskWrites.ts"
import { WaitingRequests } from "../../src/services/store/WaitingRequests.ts"
import { WebhooksPending } from "../../src/services/store/WebhooksPending.ts"
import { WebhookStore } from "../../src/services/store/WebhookStore.ts"
import { Dice } from "./Dice.ts"
import { Recorder } from "./Recorder.ts"
import { type Seen, seenOf } from "./Seen.ts"
import * as Shards from "./Shards.ts"

export const maxActiveTasks = 5
/** Settings of the service. */
export const acceptanceTimeout = 30_000
const sweepIntervals = [2000, 20_000]

/** A task whose create was acknowledged to a client. */
export interface Acknowledged {
  readonly uuid: TaskId
  readonly user: string
  readonly createdAt: Timestamp
  /** Milliseconds. */
  readonly limit: number
  /** The end of the task as a client or the core learned it. */
  ended?: { readonly status: TaskStatus; readonly error: string | null | undefined; readonly at: number }
}

export type Stores =
  | TaskWrites
  | TaskReads
  | TaskScans
  | TaskRetention
  | StopOutbox
  | WebhookStore
  | RevocationRepository
  | RecoveryTrials

export interface World {
  readonly dice: Dice
  readonly recorder: Recorder
  readonly scope: Scope.Scope
  /** The sweep interval of the nodes. A long one reveals faults that a sweep would repair. */
  readonly sweepInterval: number
  /** Every store itself, without the faults of the nodes. */
  readonly stores: Context.Context<Stores>
  readonly reads: TaskReads["Service"]
  readonly scans: TaskScans["Service"]
  readonly webhooks: WebhookStore["Service"]
  /** The bodies that the target received, by `webhook-id`. */
  readonly posts: Map<string, Array<string>>
  /** Undefined when each node owns every task. */
  readonly shards: Shards.Shards | undefined
  readonly notifications: Context.Context<Layer.Success<typeof TaskNotifications.layer>>
  readonly acknowledged: Map<TaskId, Acknowledged>
  /** Observations by task. */
  readonly seen: Map<string, Seen>
  /** Tokens whose revocation was requested, and users who requested to cancel all their interrupted tasks. */
  readonly revoking: Set<string>
  readonly cancelingAll: Set<string>
  /** The moments when nodes were killed or frozen, in milliseconds. */
  readonly losses: Array<number>
  /** Harmless tasks that failed because nodes were lost during their separate trials. */
  readonly unlucky: Set<TaskId>
  /** The moments of faults of nodes, in milliseconds. */
  readonly faults: Array<number>
  /** Whether clients create tasks whose runs kill the node that dispatches them. */
  readonly hasPoison: boolean
  /** Whether faults happen. After them every task has to end properly. */
  isRough: boolean
  /**
   * The moment when a node was last killed, frozen or started, in milliseconds; undefined while no node is up and
   * awake.
   */
  calmSince: number | undefined
  /** The moment from which the longest awake node has been awake, in milliseconds. */
  awakeSince: number
  /** The moment when the last trial of runs passes, in milliseconds. */
  trialsUntil: number
  /** The moment when a run was first seen that has not been dispatched yet, in milliseconds. */
  readonly unoffered: Map<RunId, number>
}

export const make = Effect.fnUntraced(function*(seed: number) {
  const dice = new Dice(seed)
  const recorder = new Recorder()
  const scope = yield* Effect.scope
  const context = yield* Layer.build(
    Layer.merge(TaskStoreMemory.layer, RecoveryTrialsMemory.layer).pipe(
      Layer.provideMerge([TaskNotifications.layer, RevocationRepositoryMemory.layer]),
      Layer.fresh
    )
  )
  const trials = Context.get(context, RecoveryTrials)
  const begin: typeof trials.begin = Effect.fnUntraced(function*(node, runs, concurrentTrials) {
    yield* trials.begin(node, runs, concurrentTrials)
    const losses = (yield* trials.lost("", runs)).map((trial) => trial.losses - 1)
    const period = Duration.toMillis(periodAfter(Math.max(0, ...losses)))
    world.trialsUntil = Math.max(world.trialsUntil, inMillis(yield* now) + period)
  })
  const isClustered = dice.chance(0.6)
  const shards = isClustered ? yield* Shards.make(dice, context, () => world.isRough, scope) : undefined
  const world: World = {
    dice,
    recorder,
    scope,
    sweepInterval: dice.pick(sweepIntervals),
    stores: Context.add(context, RecoveryTrials, { ...trials, begin }),
    reads: Context.get(context, TaskReads),
    scans: Context.get(context, TaskScans),
    webhooks: Context.get(context, WebhookStore),
    posts: new Map(),
    hasPoison: dice.chance(0.3),
    shards,
    notifications: Context.pick(TaskNotifications, WaitingRequests, RemoteChanges, WebhooksPending)(context),
    acknowledged: new Map(),
    seen: new Map(),
    revoking: new Set(),
    cancelingAll: new Set(),
    losses: [],
    unlucky: new Set(),
    faults: [],
    isRough: true,
    calmSince: undefined,
    awakeSince: Infinity,
    trialsUntil: 0,
    unoffered: new Map()
  }
  return world
})

/** Maximum lateness of a deadline on a healthy node, in milliseconds. */
const lateness = 1000
const latenessAfterFault = 13_000
/** Suspects are tried when none has been found for this long, in milliseconds. */
const quietTime = 5000
/** The time in addition to a sweep that a started node needs to load all tasks. */
const settling = 3000

export const inMillis = (moment: Timestamp) => moment / 1000

/** The latest moment at which a deadline at `dueAt` must have ended its task. */
const latestEnd = ({ calmSince, sweepInterval }: World, dueAt: number) => {
  if (calmSince === undefined) return Infinity
  return dueAt > calmSince + settling + sweepInterval
    ? dueAt + lateness
    : Math.max(dueAt, calmSince) + latenessAfterFault + sweepInterval
}

export const liveTasks = ({ scans }: World) =>
  scans.dueWithin(Timestamp.make(0), Timestamp.make(Number.MAX_SAFE_INTEGER), undefined, 1_000_000)

/** Checks the invariants of the store, which have to hold whatever the nodes do. */
export const checkStore = Effect.fnUntraced(function*(world: World) {
  const { acknowledged, reads, recorder } = world
  const present = inMillis(yield* now)
  const live = yield* liveTasks(world)
  for (const [user, heads] of Map.groupBy(live, ({ sub }) => sub)) {
    if (heads.length > maxActiveTasks) yield* recorder.violated(`${user} has ${heads.length} active tasks`)
  }
  yield* checkOffered(world, live, present)
  for (const { createdAt, limit, uuid } of acknowledged.values()) {
    const task = Option.getOrUndefined(yield* reads.get(uuid))
    if (task === undefined) {
      yield* recorder.violated(`${uuid} was acknowledged and does not exist`)
      continue
    }
    const dueAt = inMillis(createdAt) + limit
    const acceptanceDueAt = task.status === "pending"
      ? (seenOf(world, uuid).offeredAt ?? Infinity) + acceptanceTimeout
      : Infinity
    const endedAt = task.completedAt === null ? present : inMillis(task.completedAt)
    const isLimited = task.error?.startsWith("Task exceeded") === true
    if ((isLimited || !isTerminal(task.status)) && endedAt >= latestEnd(world, Math.min(dueAt, acceptanceDueAt))) {
      yield* recorder.violated(`${uuid}, ${task.status}, is ${endedAt - Math.min(dueAt, acceptanceDueAt)} ms late`)
    }
    // Microseconds, because fractions of a millisecond are not exact.
    if (isLimited && Math.round(endedAt * 1000) < createdAt + limit * 1000) {
      yield* recorder.violated(`${uuid} met its time limit ${dueAt - endedAt} ms early`)
    }
    yield* checkHistory(world, uuid)
  }
})

/** Whether a node was lost while the run was on trial. It is dispatched after all others. */
export const isSuspect = ({ stores }: World, runId: RunId) =>
  Effect.map(
    Context.get(stores, RecoveryTrials).lost("", [runId]),
    (found) => found.some(({ concurrentTrials }) => concurrentTrials > 0)
  )

/**
 * While any node is up, every run is dispatched, whichever node created it, and a suspect again when its nodes are lost. A suspect
 * waits for other trials, and each loss of a node adds suspects, even while another node stays awake: its time counts from the last
 * loss and the last trial.
 */
const checkOffered = Effect.fnUntraced(function*(world: World, live: ReadonlyArray<TaskHead>, present: number) {
  for (const { runId, status, uuid } of live) {
    const isSuspected = yield* isSuspect(world, runId)
    const nodes = seenOf(world, uuid).offered.get(runId)
    const isOffered = nodes !== undefined && (!isSuspected || [...nodes].some(({ isUp }) => isUp))
    if (status === "interrupted" || isOffered) {
      world.unoffered.delete(runId)
      continue
    }
    const since = world.unoffered.get(runId) ?? present
    world.unoffered.set(runId, since)
    const others = isSuspected ? [(world.losses.at(-1) ?? 0) + quietTime, world.trialsUntil + quietTime] : []
    const from = Math.max(since, world.awakeSince, ...others)
    if (present > from + latenessAfterFault + world.sweepInterval) {
      yield* world.recorder.violated(`${uuid} is ${status}, and nobody offers run ${runId}`)
    }
  }
})

/** Each revision occurs once, and nothing follows the only terminal event. */
const checkHistory = Effect.fnUntraced(function*({ reads, recorder }: World, uuid: TaskId) {
  const events = yield* reads.eventsAfter(uuid, -1, 1000)
  const broken = events.findIndex(({ revision }, index) => revision !== index)
  if (broken !== -1) yield* recorder.violated(`${uuid} skips revision ${broken}`)
  const end = events.findIndex(({ status }) => isTerminal(status))
  if (end !== -1 && end !== events.length - 1) yield* recorder.violated(`${uuid} changed after its end`)
})

/**
 * The end of a task that anyone has learned must never change. Not every response contains the error. A response may be as old as
 * its request, sent at `askedAt`: a frozen node sends it when it wakes.
 */
export const observe = Effect.fnUntraced(
  function*(
    { acknowledged, recorder }: World,
    uuid: TaskId,
    status: TaskStatus,
    askedAt: number,
    error?: string | null
  ) {
    const task = acknowledged.get(uuid)
    if (task === undefined) return
    const { ended } = task
    if (
      ended !== undefined && (isTerminal(status) || ended.at < askedAt) &&
      (ended.status !== status || (error !== undefined && ended.error !== undefined && ended.error !== error))
    ) {
      yield* recorder.violated(`${uuid} was ${ended.status}: ${ended.error}, is now ${status}: ${error}`)
    }
    if (isTerminal(status)) {
      task.ended = { status, error: error ?? ended?.error, at: ended?.at ?? inMillis(yield* now) }
    }
  }
)
