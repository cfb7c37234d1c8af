/**
 * A bounded number of works at a time, in the order in which they came. What waits is a function, so that thousands that wait cost an
 * entry each, and no fiber.
 */
import { Effect, MutableList } from "effect"

export interface Lane {
  /** Calls `begin` as soon as there is room: now, or when others have left. */
  readonly enter: (begin: () => void) => void
  /** Gives the room back. Call it once for each call of `begin`. */
  readonly leave: () => void
  /** Waits for room. It may be interrupted only when the lane is used no more. */
  readonly entered: Effect.Effect<void>
}

export const make = (size: number): Lane => {
  const waiting = MutableList.make<() => void>()
  let free = size
  let isBeginning = false

  /** A work that ends while it begins leaves room for the next turn of the loop, not a deeper stack. */
  const beginNext = () => {
    if (isBeginning) return
    isBeginning = true
    try {
      while (free > 0) {
        const begin = MutableList.take(waiting)
        if (begin === MutableList.Empty) break
        free--
        begin()
      }
    } finally {
      isBeginning = false
    }
  }

  const enter = (begin: () => void) => {
    MutableList.append(waiting, begin)
    beginNext()
  }

  return {
    enter,
    leave: () => {
      free++
      beginNext()
    },
    entered: Effect.callback((resume) => enter(() => resume(Effect.void)))
  }
}
