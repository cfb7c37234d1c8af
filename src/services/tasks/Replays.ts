/** Whether a request was carried out before, by its idempotency key. */
import { Effect, Option } from "effect"
import { IdempotencyKeyReused } from "../../domain/TaskErrors.ts"
import { now } from "../../domain/Timestamp.ts"
import { type IdempotencyClaim, TaskStore } from "../store/tasks/TaskStore.ts"

/** Returns a function that returns whether the key was claimed by the same request; it fails when another request claimed it. */
export const make = Effect.map(
  TaskStore,
  (reads) =>
    Effect.fnUntraced(function*(sub: string, claim: IdempotencyClaim | undefined) {
      if (claim === undefined) return false
      const found = Option.getOrUndefined(yield* reads.claimed(sub, claim.key, yield* now))
      if (found === undefined) return false
      return found.fingerprint === claim.fingerprint || (yield* new IdempotencyKeyReused({}))
    })
)
