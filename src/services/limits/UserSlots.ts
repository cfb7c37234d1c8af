/** Limits the operations that each user has in progress on this node, so that no user exhausts a shared resource. */
import { Effect, Schema } from "effect"

/** The user has reached the limit of operations in progress. */
export class NoSlotLeft extends Schema.TaggedError<NoSlotLeft>()("NoSlotLeft", { maximum: Schema.Int }) {}

/** Runs an effect of a user while the user holds fewer than `maximum` slots, and fails otherwise. */
export const make = (maximum: number) => {
  const held = new Map<string, number>()

  const acquire = (sub: string) =>
    Effect.suspend(() => {
      const count = held.get(sub) ?? 0
      if (count >= maximum) return Effect.fail(new NoSlotLeft({ maximum }))
      held.set(sub, count + 1)
      return Effect.void
    })

  const release = (sub: string) =>
    Effect.sync(() => {
      const count = held.get(sub) ?? 1
      if (count === 1) held.delete(sub)
      else held.set(sub, count - 1)
    })

  return (sub: string) => <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E | NoSlotLeft, R> =>
    Effect.acquireUseRelease(acquire(sub), () => effect, () => release(sub))
}
