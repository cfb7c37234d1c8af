/** The state of the service in one answer, and the alerts that hold now. All operators together cause one reading in 2 s. */
import { Duration, Effect } from "effect"
import { format, now, plus, type Timestamp } from "../../domain/Timestamp.ts"
import { CoreClient } from "../core/CoreClient.ts"
import type { Unreachable } from "../core/CoreReach.ts"
import { ClusterNodes, type Member, unownedShards } from "../operations/ClusterNodes.ts"
import { CoreBusy } from "../queue/CoreBusy.ts"
import { Settings } from "../settings/Settings.ts"
import { type QueueState, RunQueue } from "../store/queue/RunQueue.ts"
import type { TaskStats } from "../store/tasks/TaskStore.ts"
import type { HistoryName } from "./History.ts"
import { OperatorStore, type OriginStats } from "./OperatorStore.ts"
import { StoredBytes, type UserStorage } from "./StoredBytes.ts"

const alertIds = [
  "core_unreachable",
  "core_busy",
  "queue_waits_long",
  "clocks_late",
  "not_accepted",
  "failures_many",
  "runs_stuck",
  "webhooks_failing",
  "webhooks_late",
  "shards_unowned",
  "node_late",
  "user_stores_much"
] as const

export interface Alert {
  readonly id: typeof alertIds[number]
  readonly message: string
}

interface Facts {
  readonly at: Timestamp
  readonly live: TaskStats
  /** Milliseconds since the earliest deadline of a live task passed. */
  readonly overdue: number
  /** Milliseconds since the oldest due webhook was due. */
  readonly webhooksOverdue: number
  /** About: a lost answer of the database counts 10 s twice. */
  readonly lastHour: (name: HistoryName) => number
  /** Those with pending deliveries, or failed ones in the last hour. */
  readonly origins: ReadonlyArray<OriginStats>
  /** The reach of the core from the node that answers. */
  readonly coreUnreachable: Unreachable | undefined
  readonly queue: QueueState
  /** The moment from which on the core says to the node that answers that it has no room. */
  readonly coreBusySince: Timestamp | undefined
  /** Runs without progress for `stuckAfter`. */
  readonly stuck: { readonly total: number; readonly oldest: Timestamp | null }
  readonly members: ReadonlyArray<Member>
  readonly unowned: number
  /** The largest first. */
  readonly largestUsers: ReadonlyArray<UserStorage>
}

export interface Overview extends Facts {
  readonly alerts: ReadonlyArray<Alert>
}

const maxAge = Duration.seconds(2)
/** Milliseconds. */
const lateClock = 15_000
const lateWebhook = 60_000
/** Seconds in the queue; the alert rule of Prometheus has the same. */
const longWait = 300
const lateNode = 1000
const listedUsers = 10
/** Failures of the last ten minutes, and their share of all tasks that ended then, of which an operator has to know. */
const manyFailures = { count: 3, share: 0.2 }
/** Operators learn at once that the core is not there. */
export const coreMaxAge = Duration.seconds(2)
/** Finding stuck runs reads more rows than the rest of the overview. */
const stuckMaxAge = Duration.seconds(15)
/** Bytes that are much for one user where STORED_BYTES sets no limit; the alert rule of Prometheus has the same. */
const muchStored = 10 * 1024 ** 3
const maxUnowned = Duration.seconds(10)
/** Names in a message. */
const named = 3

/** Counts of the last ten minutes. */
type Recent = (name: HistoryName) => number

/** In minutes from two minutes on, in hours from two hours on. */
const inWords = (seconds: number) => {
  const [length, unit] = seconds < 120 ? [1, "seconds"] : seconds < 7200 ? [60, "minutes"] : [3600, "hours"]
  return `${Math.floor(seconds / length)} ${unit}`
}

const stuckMessage = ({ at, stuck: { oldest, total } }: Facts, stuckAfter: Duration.Duration) =>
  oldest !== null
  && `${total === 1 ? "A run has" : `${total} runs have`} made no progress for ${
    inWords(Duration.toSeconds(stuckAfter))
  }, the oldest for ${inWords((at - oldest) / 1_000_000)}.`

const unreachableMessage = ({ coreUnreachable, live: { counts } }: Facts) =>
  coreUnreachable !== undefined
  && `The core cannot be reached since ${
    format(coreUnreachable.since)
  }: ${coreUnreachable.reason}. Tasks that wait for it: ${counts.pending + counts.processing}.`

const heldBy = ({ assistants }: QueueState) => assistants.filter(({ isPaused, waiting }) => isPaused && waiting > 0)
const sumOf = (assistants: ReadonlyArray<{ readonly waiting: number }>) =>
  assistants.reduce((sum, { waiting }) => sum + waiting, 0)

/** Of a core that is gone nobody knows whether it has room. */
const busyMessage = ({ coreBusySince, coreUnreachable, queue }: Facts) =>
  coreBusySince !== undefined && coreUnreachable === undefined
  && `The core is busy since ${format(coreBusySince)}, ${
    queue.waiting - sumOf(heldBy(queue))
  } wait. It has no room: give it more, or wait.`

/** Runs that wait for room, and those that only wait until an operator resumes their assistant. */
const longWaitMessage = ({ at, queue }: Facts) => {
  const paused = heldBy(queue)
  const held = sumOf(paused)
  const secondsSince = (moments: ReadonlyArray<Timestamp | null>) =>
    (at - Math.min(at, ...moments.filter((moment) => moment !== null))) / 1_000_000
  const ofHeld = secondsSince(paused.map(({ oldestWaitingSince }) => oldestWaitingSince))
  const ofAll = secondsSince([queue.oldestWaitingSince])
  const ofOthers = ofAll > ofHeld ? ofAll : secondsSince(
    queue.assistants.flatMap((one) => paused.includes(one) ? [] : one.oldestWaitingSince)
  )
  const wait = (count: number, seconds: number, what = "") =>
    `${count === 1 ? "A run waits" : `${count} runs wait`}${what}, the oldest for ${inWords(seconds)}.`
  const ids = paused.slice(0, named).map(({ assistantId }) => assistantId).join(", ")
  const messages = [
    ...(ofOthers > longWait ? [wait(queue.waiting - held, ofOthers, " for room")] : []),
    ...(ofHeld > longWait
      ? [
        `${wait(held, ofHeld, " for an assistant that is paused")} Paused: ${ids}${
          paused.length > named ? " and others" : ""
        }.`
      ]
      : [])
  ]
  return messages.length > 0 && messages.join(" ")
}

const failureMessage = (recent: Recent) => {
  const [failed, ended] = [recent("failed"), recent("failed") + recent("completed")]
  return failed >= manyFailures.count && failed >= manyFailures.share * ended
    && `${failed} of ${ended} tasks that ended in the last 10 minutes failed.`
}

const alertsOf = (
  facts: Facts,
  recent: Recent,
  unownedSince: Timestamp | undefined,
  { muchStored, stuckAfter }: { readonly muchStored: number; readonly stuckAfter: Duration.Duration }
): ReadonlyArray<Alert> => {
  const large = facts.largestUsers.filter(({ bytes }) => bytes > muchStored)
  const failing = facts.origins.filter(({ failed }) => failed > 0)
  const late = facts.members.filter(({ lateness }) => lateness > lateNode)
  const found: Record<Alert["id"], string | false> = {
    core_unreachable: unreachableMessage(facts),
    core_busy: busyMessage(facts),
    queue_waits_long: longWaitMessage(facts),
    clocks_late: facts.overdue > lateClock
      && `A deadline passed ${Math.round(facts.overdue / 1000)} s ago, and its task is still live.`,
    not_accepted: recent("acceptance_expired") > 0
      && `Tasks not accepted in time in the last 10 minutes: ${
        recent("acceptance_expired")
      }. An event of the core accepts a run, as "processing"; its answer to the call does not.`,
    failures_many: failureMessage(recent),
    runs_stuck: stuckMessage(facts, stuckAfter),
    webhooks_failing: failing.length > 0
      && `Webhooks failed in the last hour: ${
        failing.slice(0, named).map(({ failed, origin }) => `${failed} to ${origin}`).join(", ")
      }${failing.length > named ? " and others" : ""}.`,
    webhooks_late: facts.webhooksOverdue > lateWebhook
      && `A webhook has waited for its attempt for ${Math.round(facts.webhooksOverdue / 1000)} s.`,
    shards_unowned: unownedSince !== undefined && facts.at >= plus(unownedSince, maxUnowned)
      && `Shards without an owner: ${facts.unowned}.`,
    user_stores_much: large.length > 0
      && `Users with more than ${muchStored} stored bytes: ${large.slice(0, named).map(({ sub }) => sub).join(", ")}${
        large.length > named ? " and others" : ""
      }.`,
    node_late: late.length > 0
      && `Late by more than a second: ${late.slice(0, named).map(({ address }) => address).join(", ")}.`
  }
  return alertIds.flatMap((id) => found[id] === false ? [] : [{ id, message: found[id] }])
}

const makeReading = Effect.gen(function*() {
  const store = yield* OperatorStore
  const nodes = yield* ClusterNodes
  const core = yield* CoreClient
  const queue = yield* RunQueue
  const busy = yield* CoreBusy
  const { stuckAfter } = yield* Settings
  const storedBytes = yield* StoredBytes
  let unownedSince: Timestamp | undefined

  const sumsOf = Effect.fnUntraced(function*(at: Timestamp, minutes: number) {
    const points = yield* store.history.series(plus(at, Duration.minutes(-minutes)), minutes * 60, 1)
    const values = new Map(points.map(({ name, value }) => [name, value]))
    return (name: HistoryName) => values.get(name) ?? 0
  })

  const readStuck = yield* Effect.cachedWithTTL(
    Effect.gen(function*() {
      const { runs: [oldest], total } = yield* store.stuck(plus(yield* now, Duration.negate(stuckAfter)), 1)
      return { total, oldest: oldest?.progressAt ?? null }
    }),
    stuckMaxAge
  )

  return Effect.gen(function*() {
    yield* storedBytes.ask
    const at = yield* now
    const live = yield* store.store.liveStats
    const { origins } = yield* store.origins({ from: plus(at, Duration.hours(-1)), to: at })
    const members = yield* nodes.all
    const millisSince = (moment: Timestamp | null) =>
      moment === null ? 0 : Math.max(0, Math.round((at - moment) / 1000))
    const facts: Facts = {
      at,
      live,
      overdue: millisSince(live.nextDeadline),
      webhooksOverdue: millisSince(yield* store.webhooks.oldestDue(at)),
      lastHour: yield* sumsOf(at, 60),
      origins,
      coreUnreachable: yield* core.unreachable(coreMaxAge),
      queue: yield* queue.read,
      coreBusySince: busy.busySince(),
      stuck: yield* readStuck,
      members,
      unowned: unownedShards(members).length,
      largestUsers: yield* store.largestUsers(listedUsers)
    }
    unownedSince = facts.unowned === 0 ? undefined : unownedSince ?? at
    const limits = { muchStored: storedBytes.maximum ?? muchStored, stuckAfter }
    return { ...facts, alerts: alertsOf(facts, yield* sumsOf(at, 10), unownedSince, limits) }
  })
})

/** Reads the overview; the answer is at most 2 s old. */
export const make = Effect.flatMap(makeReading, (read) => Effect.cachedWithTTL(read, maxAge))
