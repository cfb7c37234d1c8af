import { Context } from "effect"

/** Observations of the database client. The problem contains no address; null while the database works. */
export const StoreHealth = Context.Reference<{ readonly problem: () => string | null }>(
  "async-task-service/services/store/StoreHealth",
  { defaultValue: () => ({ problem: () => null }) }
)
