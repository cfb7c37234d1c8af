/** Whether a request was carried out before, by its idempotency key. */
import { Effect, Option } from "effect"
import { IdempotencyKeyReused } from "../../domain/TaskErrors.ts"
import { now } from "../../domain/Timestamp.ts"
import { type RequestKey, TaskStore } from "../store/tasks/TaskStore.ts"

/** Returns a function that returns whether the same request had the key before; it fails when another request had it. */
export const make = Effect.map(
  TaskStore,
  (reads) =>
    Effect.fnUntraced(function*(sub: string, key: RequestKey | undefined) {
      if (key === undefined) return false
      const found = Option.getOrUndefined(yield* reads.usedKey(sub, key.value, yield* now))
      if (found === undefined) return false
      return found.fingerprint === key.fingerprint || (yield* new IdempotencyKeyReused({}))
    })
)
