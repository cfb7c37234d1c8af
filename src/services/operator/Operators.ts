/** The use cases of operators for the tasks and webhooks of all users. */
import { Context, Effect, Layer } from "effect"
import type { StoreUnavailable } from "../../domain/StoreUnavailable.ts"
import type { TaskId } from "../../domain/Task.ts"
import { now, type Timestamp } from "../../domain/Timestamp.ts"
import { parseDeliveryId } from "../../domain/Webhook.ts"
import { Changes } from "../signals/Changes.ts"
import * as ErrorFingerprint from "./ErrorFingerprint.ts"
import { type Failure, groupedFailures, OperatorStore, type Range } from "./OperatorStore.ts"
import { allDeliveries, type DeliverySelection } from "./Selection.ts"

export interface ErrorGroup {
  readonly fingerprint: string
  /** The newest. */
  readonly error: string
  readonly users: number
  readonly assistants: number
  readonly count: number
  readonly firstAt: Timestamp
  readonly lastAt: Timestamp
  /** Failures in each of 24 equal parts of the range, the oldest first. */
  readonly counts: ReadonlyArray<number>
  readonly samples: ReadonlyArray<TaskId>
}

interface ErrorGroups {
  /** The number of failures in the groups. */
  readonly failures: number
  /** False when there are more failures in the range, or more groups. */
  readonly isComplete: boolean
  /** The largest first. */
  readonly groups: ReadonlyArray<ErrorGroup>
}

export interface Redelivered {
  readonly matched: number
  /** Those that are due now. */
  readonly enqueued: number
  /** Those that were delivered, which deleted their secret. */
  readonly needsSecret: number
  /** Those that match but were not redelivered, because of the limit. */
  readonly left: number
}

/** Deliveries that match a filter are counted up to this number. */
const countedDeliveries = 10_000
const listedGroups = 100
const samples = 3
const parts = 24
/** Statements at a time, of the two connections of operators. */
const concurrency = 4

const countsIn = ({ from, to }: Range, failures: ReadonlyArray<Failure>) => {
  const counts = Array.from({ length: parts }, () => 0)
  for (const { at } of failures) {
    const part = Math.min(parts - 1, Math.max(0, Math.floor((at - from) / Math.max(1, to - from) * parts)))
    counts[part] = (counts[part] ?? 0) + 1
  }
  return counts
}

const groupsOf = (range: Range, failures: ReadonlyArray<Failure>): ErrorGroups => {
  const groups: Array<ErrorGroup> = []
  for (const [fingerprint, all] of Map.groupBy(failures, ({ error }) => ErrorFingerprint.of(error))) {
    const [newest, ...others] = all
    if (newest === undefined) continue
    groups.push({
      fingerprint,
      error: newest.error,
      count: all.length,
      users: new Set(all.map(({ sub }) => sub)).size,
      assistants: new Set(all.map(({ assistantId }) => assistantId)).size,
      firstAt: (others.at(-1) ?? newest).at,
      lastAt: newest.at,
      counts: countsIn(range, all),
      samples: [newest, ...others].slice(0, samples).map(({ uuid }) => uuid)
    })
  }
  return {
    failures: failures.length,
    isComplete: failures.length < groupedFailures && groups.length <= listedGroups,
    groups: groups.toSorted((one, other) => other.count - one.count || other.lastAt - one.lastAt).slice(0, listedGroups)
  }
}

export class Operators extends Context.Service<Operators, {
  readonly errors: (range: Range) => Effect.Effect<ErrorGroups, StoreUnavailable>
  readonly redeliver: (ids: ReadonlyArray<string>) => Effect.Effect<Redelivered, StoreUnavailable>
  /** Redelivers the newest failed deliveries that match, `limit` at most: 0 only counts them. */
  readonly redeliverFailed: (
    filter: Pick<DeliverySelection, "origin" | "error" | "from" | "to">,
    limit: number
  ) => Effect.Effect<Redelivered, StoreUnavailable>
}>()("async-task-service/services/operator/Operators") {
  static readonly layer = Layer.effect(
    Operators,
    Effect.gen(function*() {
      const store = yield* OperatorStore
      const changes = yield* Changes

      const redeliver = Effect.fnUntraced(function*(ids: ReadonlyArray<string>, matched: number | undefined) {
        const at = yield* now
        const keys = ids.flatMap((id) => parseDeliveryId(id) ?? [])
        const outcomes = yield* Effect.forEach(keys, (key) => store.webhooks.redeliver(key, at, null, null), {
          concurrency
        })
        const count = (wanted: typeof outcomes[number]) => outcomes.filter((outcome) => outcome === wanted).length
        const [enqueued, needsSecret] = [count("enqueued"), count("needs_secret")]
        if (enqueued > 0) changes.webhooks.due(at)
        const all = matched ?? enqueued + needsSecret
        return { matched: all, enqueued, needsSecret, left: all - enqueued - needsSecret }
      })

      return Operators.of({
        errors: (range) => Effect.map(store.failures(range), (failures) => groupsOf(range, failures)),
        redeliver: (ids) => redeliver([...new Set(ids)], undefined),
        redeliverFailed: Effect.fnUntraced(function*(filter, limit) {
          const { rows } = yield* store.keys({ ...allDeliveries, ...filter, state: "failed" }, null, countedDeliveries)
          return yield* redeliver(rows.slice(0, limit).map(({ id }) => id), rows.length)
        })
      })
    })
  )
}
