/**
 * A bounded number of permits in FIFO order with constant cost. `Semaphore` visits all waiters at each release, which
 * takes seconds with twenty thousand of them.
 */
import { Effect } from "effect"

interface Waiter {
  isGranted: boolean
  grant: () => void
}

export const make = (size: number) => {
  let free = size
  const waiting = new Set<Waiter>()

  const wait = (waiter: Waiter) =>
    Effect.callback<void>((resume) => {
      waiter.grant = () => {
        waiter.isGranted = true
        // Yields, because permits that are released immediately would deepen the granting stack.
        resume(Effect.yieldNow)
      }
      waiting.add(waiter)
    })

  const release = Effect.sync(() => {
    const [next] = waiting
    if (next === undefined) return void free++
    waiting.delete(next)
    next.grant()
  })

  /** Runs the effect with a permit. */
  return <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    Effect.uninterruptibleMask((restore) => {
      if (free > 0) {
        free--
        return Effect.ensuring(restore(effect), release)
      }
      const waiter: Waiter = { isGranted: false, grant: () => {} }
      const leave = Effect.suspend(() => waiter.isGranted ? release : Effect.sync(() => waiting.delete(waiter)))
      return Effect.ensuring(Effect.andThen(restore(wait(waiter)), restore(effect)), leave)
    })
}
