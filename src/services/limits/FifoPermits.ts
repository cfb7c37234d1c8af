/**
 * A bounded number of turns, given in the order of asking. As `Semaphore`, but what a turn costs does not grow with those
 * who wait: a release of `Semaphore` looks at all of them, which is seconds of work with twenty thousand.
 */
import { Effect } from "effect"

interface Turn {
  isGiven: boolean
  give: () => void
}

export const make = (size: number) => {
  let free = size
  const waiting = new Set<Turn>()

  const wait = (turn: Turn) =>
    Effect.callback<void>((resume) => {
      if (free > 0) {
        free--
        turn.isGiven = true
        return resume(Effect.void)
      }
      turn.give = () => {
        turn.isGiven = true
        // Not in the giver's own stack: turns that end at once would pile up there.
        resume(Effect.yieldNow)
      }
      waiting.add(turn)
    })

  const leave = (turn: Turn) =>
    Effect.sync(() => {
      if (!turn.isGiven) return void waiting.delete(turn)
      const [next] = waiting
      if (next === undefined) return void free++
      waiting.delete(next)
      next.give()
    })

  /** Runs the effect in its turn. */
  return <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    Effect.uninterruptibleMask((restore) => {
      const turn: Turn = { isGiven: false, give: () => {} }
      return Effect.ensuring(Effect.andThen(restore(wait(turn)), restore(effect)), leave(turn))
    })
}
