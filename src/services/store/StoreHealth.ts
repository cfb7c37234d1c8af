import { Context } from "effect"

/** Observations of the database client. */
export const StoreHealth = Context.Reference<{
  /** Contains no address; null while the database works. */
  readonly problem: () => string | null
  /** Milliseconds of the shortest of the last `count` round trips, so that a pause of this process does not count; 0 before so many. */
  readonly roundTrip: (count: number) => number
}>(
  "async-task-service/services/store/StoreHealth",
  { defaultValue: () => ({ problem: () => null, roundTrip: () => 0 }) }
)
