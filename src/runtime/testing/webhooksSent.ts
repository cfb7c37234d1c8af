/** The condition for which the test kit waits, so that tests need no sleep. */
import { Effect } from "effect"
import { now } from "../../domain/Timestamp.ts"
import { MemoryTables } from "../../services/store/MemoryTables.ts"

/** Lets all fibers run that do not wait for the clock. */
export const runPending = Effect.promise(() => new Promise<void>((resolve) => setImmediate(resolve)))

/** Completes when no webhook is due: each was attempted, and the outcome is recorded. */
export const webhooksSent = Effect.gen(function*() {
  const { deliveries, isQuiet } = yield* MemoryTables
  while (true) {
    const at = yield* now
    const pending = [...deliveries.values()].filter(({ dueAt }) => dueAt !== null)
    const isSent = pending.every(({ dueAt, isSending }) => !isSending && dueAt !== null && dueAt > at)
    if (isSent && isQuiet.every((isQuietAt) => isQuietAt(at))) return
    yield* runPending
  }
})
