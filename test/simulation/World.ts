/** State that outlives a node: the store, the clock, and the observations of clients and the core. */
import { Context, Effect, Layer, Option, type Scope } from "effect"
import { pauseAfter } from "../../src/domain/Silence.ts"
import {
  isTerminal,
  type RunId,
  type TaskHead,
  type TaskId,
  type TaskStatus,
  type TaskSummary
} from "../../src/domain/Task.ts"
import { now, Timestamp } from "../../src/domain/Timestamp.ts"
import { Changes } from "../../src/services/signals/Changes.ts"
import { MemoryTables } from "../../src/services/store/MemoryTables.ts"
import type { RunQueue } from "../../src/services/store/queue/RunQueue.ts"
import type { RevocationRepository } from "../../src/services/store/revocations/RevocationRepository.ts"
import * as RevocationRepositoryMemory from "../../src/services/store/revocations/RevocationRepositoryMemory.ts"
import { TaskStore } from "../../src/services/store/tasks/TaskStore.ts"
import * as TaskStoreMemory from "../../src/services/store/tasks/TaskStoreMemory.ts"
import { WebhookStore } from "../../src/services/store/webhooks/WebhookStore.ts"
import { Dice } from "./Dice.ts"
import { Recorder } from "./Recorder.ts"
import { type Seen, seenOf } from "./Seen.ts"
import * as Shards from "./Shards.ts"

export const maxActiveTasks = 5
/** Settings of the service. */
export const acceptanceTimeout = 30_000
const sweepIntervals = [2000, 20_000]
/** Seconds. */
const declaredSilence = 20

/** A task whose create was acknowledged to a client. */
export interface Acknowledged {
  readonly uuid: TaskId
  readonly user: string
  readonly createdAt: Timestamp
  /** Milliseconds. */
  readonly limit: number
  /** Whether it was created with a callback URL. */
  readonly isHooked: boolean
  /** The end of the task as a client or the core learned it. */
  ended?: { readonly status: TaskStatus; readonly error: string | null | undefined; readonly at: number }
}

export type Stores =
  | TaskStore
  | RunQueue
  | WebhookStore
  | RevocationRepository

export interface World {
  readonly dice: Dice
  readonly recorder: Recorder
  readonly scope: Scope.Scope
  /** The sweep interval of the nodes. A long one reveals faults that a sweep would repair. */
  readonly sweepInterval: number
  /** Every store itself, without the faults of the nodes. */
  readonly stores: Context.Context<Stores>
  readonly store: TaskStore["Service"]
  readonly webhooks: WebhookStore["Service"]
  readonly tables: MemoryTables["Service"]
  /** The bodies that the target received, by `webhook-id`. */
  readonly posts: Map<string, Array<string>>
  /** Undefined when each node owns every task. */
  readonly shards: Shards.Shards | undefined
  readonly changes: Changes["Service"]
  readonly acknowledged: Map<TaskId, Acknowledged>
  /** Observations by task. */
  readonly seen: Map<string, Seen>
  /** Tokens whose revocation was requested, and users who requested to cancel all their interrupted tasks. */
  readonly revoking: Set<string>
  readonly cancelingAll: Set<string>
  /** The moments of faults of nodes, in milliseconds. */
  readonly faults: Array<number>
  /** Whether faults happen. After them every task has to end properly. */
  isRough: boolean
  /**
   * The moment when a node was last killed, frozen or started, in milliseconds; undefined while no node is up and
   * awake.
   */
  calmSince: number | undefined
  /** The moment from which the longest awake node has been awake, in milliseconds. */
  awakeSince: number
  /** The seconds of silence that the core declares, if it does. */
  readonly silence: number | undefined
  /** The setting `CORE_RUNS`. */
  readonly coreRuns: number | undefined
  /** How many runs the core takes. */
  readonly coreRoom: number
  /** When the core last said that it has no room, in milliseconds. */
  refusedAt: number
  /** Since when a run waits although there is room, in milliseconds. */
  idleSince: number | undefined
  /** When the core lost a run that it has not received again, in milliseconds. */
  readonly lost: Map<string, number>
  /** The end of the rough phase, in milliseconds. */
  calmFrom: number
  /** The moment when a run was first seen that has not been dispatched yet, in milliseconds. */
  readonly unoffered: Map<RunId, number>
}

export const make = Effect.fnUntraced(function*(seed: number) {
  const dice = new Dice(seed)
  const recorder = new Recorder()
  const scope = yield* Effect.scope
  const context = yield* Layer.build(
    TaskStoreMemory.layer.pipe(
      Layer.provideMerge([Changes.layer, RevocationRepositoryMemory.layer]),
      Layer.fresh
    )
  )
  const changes = Context.get(context, Changes)
  const isClustered = dice.chance(0.6)
  const shards = isClustered ? yield* Shards.make(dice, changes, () => world.isRough, scope) : undefined
  const world: World = {
    dice,
    recorder,
    scope,
    sweepInterval: dice.pick(sweepIntervals),
    stores: context,
    store: Context.get(context, TaskStore),
    webhooks: Context.get(context, WebhookStore),
    tables: Context.get(context, MemoryTables),
    posts: new Map(),
    shards,
    changes,
    acknowledged: new Map(),
    seen: new Map(),
    revoking: new Set(),
    cancelingAll: new Set(),
    faults: [],
    isRough: true,
    calmSince: undefined,
    awakeSince: Infinity,
    silence: dice.chance(0.7) ? declaredSilence : undefined,
    coreRuns: dice.chance(0.4) ? dice.between(1, 4) : undefined,
    coreRoom: dice.chance(0.3) ? dice.between(1, 4) : Infinity,
    refusedAt: -Infinity,
    idleSince: undefined,
    lost: new Map(),
    calmFrom: Infinity,
    unoffered: new Map()
  }
  return world
})

/** Milliseconds for which a core that was busy may count as busy: its longest `Retry-After`, and until that is forgotten. */
const busyTime = 31_000
/** Maximum lateness of a deadline on a healthy node, in milliseconds. */
const lateness = 1000
const latenessAfterFault = 13_000
/** A margin above the longest `Retry-After`. */
export const dispatchTime = 30_000
/** The time in addition to a sweep that a started node needs to load all tasks. */
const settling = 3000

const inMillis = (moment: Timestamp) => moment / 1000

/** The latest moment at which a deadline at `dueAt` must have ended its task. */
const latestEnd = ({ calmSince, sweepInterval }: World, dueAt: number) => {
  if (calmSince === undefined) return Infinity
  return dueAt > calmSince + settling + sweepInterval
    ? dueAt + lateness
    : Math.max(dueAt, calmSince) + latenessAfterFault + sweepInterval
}

export const liveTasks = ({ store }: World) =>
  store.dueWithin(Timestamp.make(0), Timestamp.make(Number.MAX_SAFE_INTEGER), undefined, 1_000_000)

/** Checks the invariants of the store, which have to hold whatever the nodes do. */
export const checkStore = Effect.fnUntraced(function*(world: World) {
  const { acknowledged, recorder, store } = world
  const present = inMillis(yield* now)
  const live = yield* liveTasks(world)
  for (const [user, heads] of Map.groupBy(live, ({ sub }) => sub)) {
    if (heads.length > maxActiveTasks) yield* recorder.violated(`${user} has ${heads.length} active tasks`)
  }
  yield* checkOffered(world, live, present)
  yield* checkLost(world, live, present)
  yield* checkQueue(world, live, present)
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
    if (task.error?.startsWith("Task was not accepted") === true) yield* checkNotAccepted(world, task, endedAt)
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

/** After the last fault, a run that the core has lost is dispatched again when it has been silent for long enough. */
const checkLost = Effect.fnUntraced(function*(world: World, live: ReadonlyArray<TaskHead>, present: number) {
  const { calmFrom, calmSince, lost, recorder, silence, sweepInterval } = world
  if (silence === undefined || calmSince === undefined) return
  for (const { redispatches, runId, status, uuid } of live) {
    const lostAt = status === "processing" ? lost.get(runId) : undefined
    if (lostAt === undefined) continue
    const silentFor = present - Math.max(lostAt, calmFrom, calmSince) - pauseAfter(silence, redispatches ?? 0) * 1000
    if (silentFor > 2 * sweepInterval + latenessAfterFault + dispatchTime) {
      yield* recorder.violated(`${uuid} is processing, the core has lost run ${runId}, and nobody hands it over again`)
    }
  }
})

/** Every run that waits is in the queue, no limit is exceeded, and no room is left while a run waits. */
const checkQueue = Effect.fnUntraced(function*(world: World, live: ReadonlyArray<TaskHead>, present: number) {
  const { calmSince, coreRoom, coreRuns = Infinity, faults, recorder, sweepInterval, tables } = world
  const waiting = live.filter(({ room }) => room === "waiting")
  if (waiting.length !== tables.waiting.size || waiting.some(({ uuid }) => !tables.waiting.has(uuid))) {
    yield* recorder.violated("the queue is not what the tasks say")
  }
  const held = live.filter(({ room }) => room === "held").length
  if (held > coreRuns) yield* recorder.violated(`${held} runs have room, of ${coreRuns}`)
  if (waiting.length === 0 || held >= coreRuns || coreRoom !== Infinity) {
    world.idleSince = undefined
    return
  }
  // A core that was busy is probed first, and a node may have lost an answer.
  world.idleSince = Math.max(
    world.idleSince ?? present,
    world.refusedAt + busyTime,
    (calmSince ?? Infinity) + settling,
    (faults.at(-1) ?? 0) + settling
  )
  if (present > world.idleSince + sweepInterval + lateness + 2000) {
    yield* recorder.violated(`${waiting.length} runs wait, and ${held} of ${coreRuns} have room`)
  }
})

/** A task fails because of its core only when that core may have had it for so long. */
const checkNotAccepted = Effect.fnUntraced(function*(world: World, { createdAt, uuid }: TaskSummary, endedAt: number) {
  // A node that died may have sent the run.
  if (world.faults.some((at) => at >= inMillis(createdAt) && at <= endedAt)) return
  const { handedAt } = seenOf(world, uuid)
  if (handedAt === undefined) yield* world.recorder.violated(`${uuid} failed although the core never had it`)
  else if (endedAt < handedAt + acceptanceTimeout - 3000) {
    yield* world.recorder.violated(`${uuid} failed ${endedAt - handedAt} ms after the core had it`)
  }
})

/** While any node is up, every run is dispatched, whichever node created it. */
const checkOffered = Effect.fnUntraced(function*(world: World, live: ReadonlyArray<TaskHead>, present: number) {
  for (const { room, runId, status, uuid } of live) {
    if (status === "interrupted" || room === "waiting" || seenOf(world, uuid).offered.has(runId)) {
      world.unoffered.delete(runId)
      continue
    }
    const since = world.unoffered.get(runId) ?? present
    world.unoffered.set(runId, since)
    const from = Math.max(since, world.awakeSince)
    if (present > from + latenessAfterFault + world.sweepInterval) {
      yield* world.recorder.violated(`${uuid} is ${status}, and nobody offers run ${runId}`)
    }
  }
})

/** Each revision occurs once, and nothing follows the only terminal event. */
const checkHistory = Effect.fnUntraced(function*({ recorder, store }: World, uuid: TaskId) {
  const events = yield* store.eventsAfter(uuid, -1, 1000)
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
