/** Books the outbox of usage every few seconds, and deletes sums of hours that are older than their retention. */
import { Clock, Duration, Effect, Layer } from "effect"
import { monotonicMillisOf, now, plus } from "../../domain/Timestamp.ts"
import { PendingWork } from "../store/PendingWork.ts"
import { Intervals } from "../timing/Intervals.ts"
import * as ScanFloor from "../timing/ScanFloor.ts"
import * as Worker from "../timing/Worker.ts"
import { CurrentPrices } from "./Prices.ts"
import * as UsageMetrics from "./UsageMetrics.ts"
import { UsageStore } from "./UsageStore.ts"

const bookingInterval = Duration.seconds(2)
/** Rows of the outbox in one statement, which takes a few milliseconds. */
const bookingBatch = 2000
const deletionBatch = 5000

export const layer = (retention: Duration.Duration) =>
  Layer.effectDiscard(Effect.gen(function*() {
    const store = yield* UsageStore

    const clock = yield* Clock.Clock
    const demand = (yield* PendingWork).of("usage")
    let bookedAt = monotonicMillisOf(clock)
    yield* UsageMetrics.bookingAge.observe(() => (monotonicMillisOf(clock) - bookedAt) / 1000)

    const prices = yield* CurrentPrices
    const startedAt = yield* now
    let hasPrices = false
    /** Before the first booking: what an earlier process left has the prices of its moment. */
    const setPrices = Effect.suspend(() =>
      hasPrices ? Effect.void : Effect.map(store.setPrices(prices, startedAt), () => void (hasPrices = true))
    )

    const floor = ScanFloor.make()
    const book = Effect.gen(function*() {
      const at = yield* now
      const booked = yield* store.book(bookingBatch, yield* floor.from(at))
      bookedAt = monotonicMillisOf(clock)
      booked.forEach(UsageMetrics.record)
      const count = booked.reduce((sum, { rows }) => sum + rows, 0)
      // Nothing is also found while another node books.
      if (count > 0 && count < bookingBatch) yield* floor.raise(at)
      return count
    })
    yield* Worker.make({
      name: "the booking of usage",
      interval: bookingInterval,
      demand: {
        ...demand,
        isDue: Effect.map(demand.isDue, (isDue) => {
          if (!isDue) bookedAt = monotonicMillisOf(clock)
          return isDue
        })
      },
      // A booking that is cut off would be repeated, and its metrics are lost.
      runOnce: Effect.uninterruptible(
        Effect.andThen(setPrices, Effect.repeat(book, { while: (rows) => rows === bookingBatch }))
      )
    })

    const deleteOld = Effect.flatMap(
      now,
      (at) => store.deleteBefore(plus(at, Duration.negate(retention)), deletionBatch)
    )
    yield* Worker.make({
      name: "the deletion of old usage",
      interval: Duration.clamp(Duration.divideUnsafe(retention, 10), {
        minimum: Duration.seconds(1),
        maximum: (yield* Intervals).retention
      }),
      runOnce: Effect.repeat(deleteOld, { while: (deleted) => deleted === deletionBatch })
    })
  }))
