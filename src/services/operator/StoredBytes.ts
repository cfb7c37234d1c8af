/**
 * Counts in the background what users keep, those first who created tasks lately, so that no request pays for it. With STORED_BYTES, a
 * user who keeps more creates no task until the next count, within seconds of a deletion. Without it nothing is counted until someone
 * asks: the operators' overview, or a reader of the metrics.
 */
import { Context, Duration, Effect, Layer, Schema } from "effect"
import type { StoreUnavailable } from "../../domain/StoreUnavailable.ts"
import { CreateRefused } from "../../domain/TaskErrors.ts"
import { now, plus, Timestamp } from "../../domain/Timestamp.ts"
import type { CreateLimit } from "../Extensions.ts"
import { PendingWork } from "../store/PendingWork.ts"
import { gauge } from "../telemetry/Instruments.ts"
import * as ScanFloor from "../timing/ScanFloor.ts"
import * as Worker from "../timing/Worker.ts"

/** The place of a task in the order of creation. */
export interface Place {
  readonly at: Timestamp
  readonly uuid: string
}

/** A count of a user's tasks from the newest on, so far. */
export interface Count {
  readonly sub: string
  readonly bytes: number
  readonly tasks: number
  /** The last task that was counted, when others may follow it. */
  readonly last: Place | null
}

export const UserStorage = Schema.Struct({
  sub: Schema.String,
  bytes: Schema.Finite,
  tasks: Schema.Int,
  countedAt: Timestamp
})
export type UserStorage = typeof UserStorage.Type

export class StoredBytesStore extends Context.Service<StoredBytesStore, {
  /** The moment of the latest count; null before the first. Users who created tasks before it have been noted. */
  readonly countedAt: Effect.Effect<Timestamp | null, StoreUnavailable>
  /**
   * Makes users due who created tasks after a place, one with many tasks `millisPerTask` for each after the last count. Reads a bounded
   * number of tasks and returns the place of the last one; null when there are no more.
   */
  readonly noteActive: (
    after: Place,
    at: Timestamp,
    millisPerTask: number
  ) => Effect.Effect<Place | null, StoreUnavailable>
  /** Users who are due since `from`; no other node gets them until `lease`. */
  readonly claim: (
    at: Timestamp,
    lease: Timestamp,
    limit: number,
    from?: Timestamp
  ) => Effect.Effect<ReadonlyArray<string>, StoreUnavailable>
  /** Begins or continues the counts of users, in one statement over a bounded number of tasks. */
  readonly count: (
    counts: ReadonlyArray<Pick<Count, "sub"> | Count>
  ) => Effect.Effect<ReadonlyArray<Count>, StoreUnavailable>
  /** Records counts in one statement. A user is due again at `next`, or earlier if noted since the claim. */
  readonly record: (
    counts: ReadonlyArray<UserStorage & { readonly next: Timestamp }>,
    lease: Timestamp
  ) => Effect.Effect<void, StoreUnavailable>
  /** The largest first. */
  readonly largest: (limit: number) => Effect.Effect<ReadonlyArray<UserStorage>, StoreUnavailable>
  /** Users who keep more than `bytes`, the largest first. */
  readonly above: (bytes: number, limit: number) => Effect.Effect<ReadonlyArray<string>, StoreUnavailable>
}>()("async-task-service/services/operator/StoredBytes/StoredBytesStore") {}

const largestUser = gauge({
  name: "task.storage.largest_user",
  unit: "bytes",
  meaning:
    "bytes of requests and turns that the largest user keeps, as last counted in the background; 0 before the first count",
  labels: []
})

const interval = Duration.seconds(5)
/** A round reads again what the last one may have missed, because clocks and commits differ. */
const overlap = Duration.seconds(30)
/** A count that takes longer is lost to another node. */
const lease = Duration.minutes(10)
/** Finds what retention deleted of users who create nothing. */
const recount = Duration.days(1)
const claimed = 100
/** Before each statement that counts, so that those of requests are not slowed by a long row of them. */
const spacing = Duration.millis(1)
/**
 * Milliseconds between two counts of a user who creates tasks, for each task that the count reads: without a limit, counts are little
 * beside what creates the tasks.
 */
const millisPerTask = { limited: 1, unlimited: 20 }
/** Maximum users over the limit that a node refuses. */
const refused = 100_000
const lowestUuid = "00000000-0000-0000-0000-000000000000"

export class StoredBytes extends Context.Service<StoredBytes, {
  /** STORED_BYTES. */
  readonly maximum: number | undefined
  /** Has users counted within seconds, which otherwise only a limit does. */
  readonly ask: Effect.Effect<void>
}>()("async-task-service/services/operator/StoredBytes") {}

/** The users of a process who keep more than `maximum`, and whether someone asks for counts. */
export const make = (maximum: number | undefined) => {
  let above = new Set<string>()
  let isAsked = false

  const limit = (maximum: number): CreateLimit => (sub) =>
    above.has(sub)
      ? new CreateRefused({
        limit: "stored_bytes",
        message:
          `Your tasks hold more than ${maximum} bytes. Delete ended tasks that you no longer need, and try again in a few seconds.`
      })
      : undefined

  const ask = Effect.sync(() => {
    isAsked = true
  })

  const count = Effect.gen(function*() {
    const store = yield* StoredBytesStore
    const demand = (yield* PendingWork).of("stored bytes")
    const floor = ScanFloor.make()
    let notedUntil: Timestamp | undefined

    const keepsMore = ({ bytes }: Count) => maximum !== undefined && bytes > maximum

    const nextCount = (countedAt: Timestamp, count: Count) =>
      plus(
        countedAt,
        keepsMore(count) ? Duration.millis(Math.max(5000, millisPerTask.limited * count.tasks)) : recount
      )

    const noteActive = Effect.gen(function*() {
      const at = yield* now
      const from = notedUntil ?? (yield* store.countedAt)
      let place: Place | null = {
        at: from === null ? Timestamp.make(0) : plus(from, Duration.negate(overlap)),
        uuid: lowestUuid
      }
      while (place !== null) {
        place = yield* store.noteActive(
          place,
          at,
          maximum === undefined ? millisPerTask.unlimited : millisPerTask.limited
        )
      }
      notedUntil = at
    })

    const recountDue = Effect.gen(function*() {
      const at = yield* now
      const leasedUntil = plus(at, lease)
      const due = yield* store.claim(at, leasedUntil, claimed, yield* floor.from(at))
      if (due.length < claimed) yield* floor.raise(at)
      let counts: ReadonlyArray<Pick<Count, "sub"> | Count> = due.map((sub) => ({ sub }))
      while (counts.length > 0) {
        const counted = yield* Effect.delay(store.count(counts), spacing)
        const countedAt = yield* now
        const whole = counted.filter(({ last }) => last === null)
        if (whole.length > 0) {
          yield* store.record(
            whole.map((count) => ({ ...count, countedAt, next: nextCount(countedAt, count) })),
            leasedUntil
          )
          // Those who were claimed with a user of many tasks need not wait for that count.
          for (const count of whole) {
            if (!keepsMore(count)) above.delete(count.sub)
            else if (above.size < refused) above.add(count.sub)
          }
        }
        counts = counted.filter(({ last }) => last !== null)
      }
      return due.length
    })

    largestUser.set(0)
    yield* Worker.make({
      name: "the count of stored bytes",
      interval,
      isDelayed: maximum === undefined,
      demand: maximum === undefined
        ? { isDue: Effect.sync(() => isAsked), ran: Effect.void }
        // Another node may have counted less of a user whom this one refuses.
        : { ...demand, isDue: Effect.suspend(() => above.size > 0 ? Effect.succeed(true) : demand.isDue) },
      runOnce: Effect.gen(function*() {
        isAsked = false
        yield* noteActive
        yield* Effect.repeat(recountDue, { while: (count) => count === claimed })
        if (maximum !== undefined) above = new Set(yield* store.above(maximum, refused))
        const [largest] = yield* store.largest(1)
        largestUser.set(largest?.bytes ?? 0)
      })
    })
  })

  return {
    limits: maximum === undefined ? [] : [limit(maximum)],
    ask,
    layer: Layer.succeed(StoredBytes, { maximum, ask }),
    /** Counts while its scope is open. */
    layerWorker: Layer.effectDiscard(count)
  }
}
