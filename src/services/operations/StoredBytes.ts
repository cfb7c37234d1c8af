/**
 * Counts in the background what users keep, those first who created tasks lately, so that no request pays for it. With STORED_BYTES, a
 * user who keeps more creates no task until the next count, within seconds of a deletion.
 */
import { Context, Duration, Effect, Layer } from "effect"
import { now, plus, type Timestamp } from "../../domain/Timestamp.ts"
import { Settings } from "../settings/Settings.ts"
import { PendingWork } from "../store/PendingWork.ts"
import { type Count, StoredBytesStore } from "../store/StoredBytesStore.ts"
import * as Metrics from "../telemetry/Metrics.ts"
import * as ScanFloor from "../timing/ScanFloor.ts"
import * as Worker from "../timing/Worker.ts"

const interval = Duration.seconds(5)
/** Activity that the first round looks for. Later rounds overlap, because clocks and commits differ. */
const firstWindow = Duration.days(1)
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

/** Users who keep more than STORED_BYTES. */
export const StoredBytes = Context.Reference<{ readonly isAbove: (sub: string) => boolean }>(
  "async-task-service/services/operations/StoredBytes",
  { defaultValue: () => ({ isAbove: () => false }) }
)

const make = Effect.gen(function*() {
  const store = yield* StoredBytesStore
  const demand = (yield* PendingWork).of("stored bytes")
  const { storedBytes: maximum } = yield* Settings
  const floor = ScanFloor.make()
  let above = new Set<string>()
  let since = plus(yield* now, Duration.negate(firstWindow))

  const keepsMore = ({ bytes }: Count) => maximum !== undefined && bytes > maximum

  const nextCount = (countedAt: Timestamp, count: Count) =>
    plus(
      countedAt,
      keepsMore(count) ? Duration.millis(Math.max(5000, millisPerTask.limited * count.tasks)) : recount
    )

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

  yield* Worker.make({
    name: "the count of stored bytes",
    interval,
    // Another node may have counted less of a user whom this one refuses.
    demand: { ...demand, isDue: Effect.suspend(() => above.size > 0 ? Effect.succeed(true) : demand.isDue) },
    runOnce: Effect.gen(function*() {
      const at = yield* now
      yield* store.noteActive(since, at, maximum === undefined ? millisPerTask.unlimited : millisPerTask.limited)
      since = plus(at, Duration.negate(overlap))
      yield* Effect.repeat(recountDue, { while: (count) => count === claimed })
      if (maximum !== undefined) above = new Set(yield* store.above(maximum, refused))
      const [largest] = yield* store.largest(1)
      Metrics.largestUser.set(largest?.bytes ?? 0)
    })
  })
  return { isAbove: (sub: string) => above.has(sub) }
})

export const layer = Layer.effect(StoredBytes, make)
