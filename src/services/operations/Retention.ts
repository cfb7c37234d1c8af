/**
 * Deletes expired rows: terminal tasks after the retention period with all that belongs to them, proofs of webhook origins after the
 * same period, idempotency keys, and revocations of expired tokens. Batches are small, so that no delete holds its locks for long.
 */
import { Duration, Effect, Layer } from "effect"
import type { StoreUnavailable } from "../../domain/StoreUnavailable.ts"
import { now, plus, type Timestamp } from "../../domain/Timestamp.ts"
import { Settings } from "../settings/Settings.ts"
import { RevocationRepository } from "../store/revocations/RevocationRepository.ts"
import { TaskStore } from "../store/tasks/TaskStore.ts"
import { Intervals } from "../timing/Intervals.ts"
import * as ScanFloor from "../timing/ScanFloor.ts"
import * as Worker from "../timing/Worker.ts"

const batch = 200

/** The interval between passes: a tenth of the retention period, between 1 s and `maximum`. */
const intervalOf = (retention: Duration.Duration, maximum: Duration.Duration) =>
  Duration.clamp(Duration.divideUnsafe(retention, 10), { minimum: Duration.seconds(1), maximum })

export const layer = Layer.effectDiscard(
  Effect.gen(function*() {
    const store = yield* TaskStore
    const revocations = yield* RevocationRepository
    const { retention } = yield* Settings

    const whileFull = (deletion: Effect.Effect<number, StoreUnavailable>) =>
      Effect.repeat(deletion, { while: (deleted) => deleted === batch })
    const interval = intervalOf(retention, (yield* Intervals).retention)
    /** Deletes what has become old since an earlier pass, and sometimes whatever is old. */
    const fromFloor = (
      deletion: (before: Timestamp, limit: number, from: Timestamp) => Effect.Effect<number, StoreUnavailable>
    ) => {
      const floor = ScanFloor.make(5 * Duration.toMillis(interval))
      return Effect.fnUntraced(function*(before: Timestamp) {
        const deleted = yield* deletion(before, batch, yield* floor.from(before))
        if (deleted < batch) yield* floor.raise(before)
        return deleted
      })
    }
    const deleteExpiredKeys = Effect.flatMap(now, fromFloor(store.deleteExpiredKeys))
    const deleteExpiredRevocations = Effect.flatMap(now, (at) => revocations.deleteExpired(at, batch))
    const before = Effect.map(now, (at) => plus(at, Duration.negate(retention)))
    const deleteEnded = Effect.flatMap(before, fromFloor(store.deleteEnded))
    const deleteOrigins = Effect.flatMap(before, (at) => store.deleteOrigins(at, batch))
    yield* Worker.make({
      name: "the deletion of expired rows",
      runOnce: Effect.forEach([deleteExpiredKeys, deleteExpiredRevocations, deleteEnded, deleteOrigins], whileFull),
      interval
    })
  })
)
