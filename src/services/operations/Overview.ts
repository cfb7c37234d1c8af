/** The state of the service in one answer, and the alerts that hold now. All operators together cause one reading in 2 s. */
import { Context, Duration, Effect, Layer } from "effect"
import type { StoreUnavailable } from "../../domain/StoreUnavailable.ts"
import { now, plus, type Timestamp } from "../../domain/Timestamp.ts"
import type { HistoryName } from "../store/History.ts"
import { OperatorStore, type OriginStats } from "../store/OperatorStore.ts"
import type { TaskStats } from "../store/TaskScans.ts"
import { ClusterNodes, type Member, unownedShards } from "./ClusterNodes.ts"

const alertIds = ["clocks_late", "not_accepted", "webhooks_failing", "shards_unowned", "node_late"] as const

export interface Alert {
  readonly id: typeof alertIds[number]
  readonly message: string
}

interface Facts {
  readonly at: Timestamp
  readonly live: TaskStats
  /** Milliseconds since the earliest deadline of a live task passed. */
  readonly overdue: number
  /** About: a lost answer of the database counts 10 s twice. */
  readonly lastHour: (name: HistoryName) => number
  /** Those with pending deliveries, or failed ones in the last hour. */
  readonly origins: ReadonlyArray<OriginStats>
  readonly members: ReadonlyArray<Member>
  readonly unowned: number
}

export interface Overview extends Facts {
  readonly alerts: ReadonlyArray<Alert>
}

const maxAge = Duration.seconds(2)
/** Milliseconds. */
const lateClock = 15_000
const lateNode = 1000
const maxUnowned = Duration.seconds(10)
/** Names in a message. */
const named = 3

const alertsOf = (facts: Facts, notAccepted: number, unownedSince: Timestamp | undefined): ReadonlyArray<Alert> => {
  const failing = facts.origins.filter(({ failed }) => failed > 0)
  const late = facts.members.filter(({ lateness }) => lateness > lateNode)
  const found: Record<Alert["id"], string | false> = {
    clocks_late: facts.overdue > lateClock
      && `A deadline passed ${Math.round(facts.overdue / 1000)} s ago, and its task is still live.`,
    not_accepted: notAccepted > 0 && `${notAccepted} tasks were not accepted in time in the last 10 minutes.`,
    webhooks_failing: failing.length > 0
      && `Webhooks failed in the last hour: ${
        failing.slice(0, named).map(({ failed, origin }) => `${failed} to ${origin}`).join(", ")
      }${failing.length > named ? " and others" : ""}.`,
    shards_unowned: unownedSince !== undefined && facts.at >= plus(unownedSince, maxUnowned)
      && `${facts.unowned} shards have no owner.`,
    node_late: late.length > 0
      && `Late by more than a second: ${late.slice(0, named).map(({ address }) => address).join(", ")}.`
  }
  return alertIds.flatMap((id) => found[id] === false ? [] : [{ id, message: found[id] }])
}

const make = Effect.gen(function*() {
  const store = yield* OperatorStore
  const nodes = yield* ClusterNodes
  let unownedSince: Timestamp | undefined

  const sumsOf = Effect.fnUntraced(function*(at: Timestamp, minutes: number) {
    const points = yield* store.history.series(plus(at, Duration.minutes(-minutes)), minutes * 60, 1)
    const values = new Map(points.map(({ name, value }) => [name, value]))
    return (name: HistoryName) => values.get(name) ?? 0
  })

  return Effect.gen(function*() {
    const at = yield* now
    const live = yield* store.scans.liveStats
    const { origins } = yield* store.origins({ from: plus(at, Duration.hours(-1)), to: at })
    const members = yield* nodes.all
    const facts: Facts = {
      at,
      live,
      overdue: live.nextDeadline === null ? 0 : Math.max(0, Math.round((at - live.nextDeadline) / 1000)),
      lastHour: yield* sumsOf(at, 60),
      origins,
      members,
      unowned: unownedShards(members).length
    }
    unownedSince = facts.unowned === 0 ? undefined : unownedSince ?? at
    const notAccepted = (yield* sumsOf(at, 10))("acceptance_expired")
    return { ...facts, alerts: alertsOf(facts, notAccepted, unownedSince) }
  })
})

export class OverviewReader extends Context.Service<OverviewReader, {
  /** At most 2 s old. */
  readonly read: Effect.Effect<Overview, StoreUnavailable>
}>()("async-task-service/services/operations/Overview/OverviewReader") {
  static readonly layer = Layer.effect(
    OverviewReader,
    Effect.map(Effect.flatMap(make, (read) => Effect.cachedWithTTL(read, maxAge)), (read) => ({ read }))
  )
}
