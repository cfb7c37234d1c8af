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
      if (free > 0) {
        free--
        waiter.isGranted = true
        return resume(Effect.void)
      }
      waiter.grant = () => {
        waiter.isGranted = true
        // Yields, because permits that are released immediately would deepen the granting stack.
        resume(Effect.yieldNow)
      }
      waiting.add(waiter)
    })

  const release = (waiter: Waiter) =>
    Effect.sync(() => {
      if (!waiter.isGranted) return void waiting.delete(waiter)
      const [next] = waiting
      if (next === undefined) return void free++
      waiting.delete(next)
      next.grant()
    })

  /** Runs the effect with a permit. */
  return <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    Effect.uninterruptibleMask((restore) => {
      const waiter: Waiter = { isGranted: false, grant: () => {} }
      return Effect.ensuring(Effect.andThen(restore(wait(waiter)), restore(effect)), release(waiter))
    })
}
