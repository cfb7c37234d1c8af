/** What outlives a node: the store, the time, and what clients and core have seen of the service. */
import { Context, Effect, Layer, Option, type Scope } from "effect"
import { isTerminal, type RunId, type TaskHead, type TaskId, type TaskStatus } from "../../src/domain/Task.ts"
import { now, type Timestamp } from "../../src/domain/Timestamp.ts"
import { RecoveryTrials } from "../../src/services/RecoveryTrials.ts"
import * as RecoveryTrialsMemory from "../../src/services/RecoveryTrialsMemory.ts"
import { RevocationRepository } from "../../src/services/RevocationRepository.ts"
import * as RevocationRepositoryMemory from "../../src/services/RevocationRepositoryMemory.ts"
import { TaskNotifications } from "../../src/services/TaskNotifications.ts"
import { TaskRepository } from "../../src/services/TaskRepository.ts"
import * as TaskRepositoryMemory from "../../src/services/TaskRepositoryMemory.ts"
import { WebhookStore } from "../../src/services/WebhookStore.ts"
import { Dice } from "./Dice.ts"
import { Recorder } from "./Recorder.ts"
import { type Seen, seenOf } from "./Seen.ts"
import * as Shards from "./Shards.ts"

export const maxActiveTasks = 5
/** Of the service's settings. */
export const acceptanceTimeout = 30_000
const sweepIntervals = [2000, 20_000]

/** A create that a client was told of. */
export interface Acknowledged {
  readonly uuid: TaskId
  readonly user: string
  readonly createdAt: Timestamp
  /** Milliseconds. */
  readonly limit: number
  /** What a client or the core was told of its end. */
  ended?: { readonly status: TaskStatus; readonly error: string | null | undefined }
}

export interface World {
  readonly dice: Dice
  readonly recorder: Recorder
  readonly scope: Scope.Scope
  /** Of the nodes' settings: with a long one, what only a sweep repairs is seen to be broken. */
  readonly sweepInterval: number
  /** The store itself, without the faults that nodes meet. */
  readonly store: TaskRepository["Service"]
  readonly webhooks: WebhookStore["Service"]
  /** The bodies that the target got, by `webhook-id`. */
  readonly posts: Map<string, Array<string>>
  readonly revocations: RevocationRepository["Service"]
  readonly trials: RecoveryTrials["Service"]
  /** Undefined where each node follows every task. */
  readonly shards: Shards.Shards | undefined
  readonly notifications: TaskNotifications["Service"]
  readonly acknowledged: Map<TaskId, Acknowledged>
  /** By task. */
  readonly seen: Map<string, Seen>
  /** Tokens whose revocation was asked for, and users who asked to cancel all that is interrupted. */
  readonly revoking: Set<string>
  readonly cancelingAll: Set<string>
  /** When nodes were killed or frozen, in milliseconds. */
  readonly losses: Array<number>
  /** Harmless tasks that failed because nodes were lost just when they were tried alone. */
  readonly unlucky: Set<TaskId>
  /** When nodes met faults, in milliseconds. */
  readonly faults: Array<number>
  /** Whether clients create tasks whose runs take down the node that offers them. */
  readonly hasPoison: boolean
  /** Faults happen while this is true; without them all must come to a good end. */
  isRough: boolean
  /** When a node was last killed, frozen or started, in milliseconds; undefined while none is up and awake. */
  calmSince: number | undefined
  /** Since when the node that is longest awake has been, in milliseconds. */
  awakeSince: number
  /** When a run was first seen that no core has been offered yet, in milliseconds. */
  readonly unoffered: Map<RunId, number>
}

export const make = Effect.fnUntraced(function*(seed: number) {
  const dice = new Dice(seed)
  const recorder = new Recorder()
  const scope = yield* Effect.scope
  const context = yield* Layer.build(
    Layer.merge(TaskRepositoryMemory.layer, RecoveryTrialsMemory.layer).pipe(
      Layer.provideMerge([TaskNotifications.layer, RevocationRepositoryMemory.layer]),
      Layer.fresh
    )
  )
  const isClustered = dice.chance(0.6)
  const notifications = Context.get(context, TaskNotifications)
  const shards = isClustered ? yield* Shards.make(dice, notifications, () => world.isRough, scope) : undefined
  const world: World = {
    dice,
    recorder,
    scope,
    sweepInterval: dice.pick(sweepIntervals),
    store: Context.get(context, TaskRepository),
    webhooks: Context.get(context, WebhookStore),
    posts: new Map(),
    revocations: Context.get(context, RevocationRepository),
    trials: Context.get(context, RecoveryTrials),
    hasPoison: dice.chance(0.3),
    shards,
    notifications,
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
    unoffered: new Map()
  }
  return world
})

/** Milliseconds: RELIABILITY, invariant 5. */
const lateness = 1000
const latenessAfterFault = 13_000
/** How long a node that came up needs to know all tasks, beyond a sweep. */
const settling = 3000

const inMillis = (moment: Timestamp) => moment / 1000

/** Until when a clock that runs out at `dueAt` must have ended its task. */
const latestEnd = ({ calmSince, sweepInterval }: World, dueAt: number) => {
  if (calmSince === undefined) return Infinity
  return dueAt > calmSince + settling + sweepInterval
    ? dueAt + lateness
    : Math.max(dueAt, calmSince) + latenessAfterFault + sweepInterval
}

/** Whether the store holds all that was promised, whatever the nodes did. */
export const checkStore = Effect.fnUntraced(function*(world: World) {
  const { acknowledged, recorder, store } = world
  const present = inMillis(yield* now)
  const live = yield* store.live(undefined, 1_000_000)
  for (const [user, heads] of Map.groupBy(live, ({ sub }) => sub)) {
    if (heads.length > maxActiveTasks) yield* recorder.violated(`${user} has ${heads.length} active tasks`)
  }
  yield* checkOffered(world, live, present)
  for (const { createdAt, limit, uuid } of acknowledged.values()) {
    const task = Option.getOrUndefined(yield* store.get(uuid))
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
    if (isLimited && endedAt < dueAt) {
      yield* recorder.violated(`${uuid} met its time limit ${dueAt - endedAt} ms early`)
    }
    yield* checkHistory(world, uuid)
  }
})

/** A run is offered to the core while a node is up, whoever made it. */
const checkOffered = Effect.fnUntraced(function*(world: World, live: ReadonlyArray<TaskHead>, present: number) {
  for (const { runId, status, uuid } of live) {
    if (status === "interrupted" || seenOf(world, uuid).offered.has(runId)) continue
    const since = world.unoffered.get(runId) ?? present
    world.unoffered.set(runId, since)
    if (present > Math.max(since, world.awakeSince) + latenessAfterFault + world.sweepInterval) {
      yield* world.recorder.violated(`${uuid} is ${status}, and nobody offers run ${runId}`)
    }
  }
})

/** One terminal event and nothing after it, each revision once. */
const checkHistory = Effect.fnUntraced(function*({ recorder, store }: World, uuid: TaskId) {
  const events = yield* store.eventsAfter(uuid, -1, 1000)
  const broken = events.findIndex(({ revision }, index) => revision !== index)
  if (broken !== -1) yield* recorder.violated(`${uuid} skips revision ${broken}`)
  const end = events.findIndex(({ status }) => isTerminal(status))
  if (end !== -1 && end !== events.length - 1) yield* recorder.violated(`${uuid} changed after its end`)
})

/** What anyone was told of a task must stay true once it has ended. Not everyone is told of its error. */
export const observe = Effect.fnUntraced(
  function*({ acknowledged, recorder }: World, uuid: TaskId, status: TaskStatus, error?: string | null) {
    const task = acknowledged.get(uuid)
    if (task === undefined) return
    const { ended } = task
    if (
      ended !== undefined &&
      (ended.status !== status || (error !== undefined && ended.error !== undefined && ended.error !== error))
    ) {
      yield* recorder.violated(`${uuid} was ${ended.status}: ${ended.error}, is now ${status}: ${error}`)
    }
    if (isTerminal(status)) task.ended = { status, error: error ?? ended?.error }
  }
)
