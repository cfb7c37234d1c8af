/** The maximum lateness in the current and the previous minute. */
import type { Timestamp } from "../../domain/Timestamp.ts"

const minute = 60_000_000

export const make = () => {
  let present = -1
  let worst = 0
  let before = 0

  const advance = (at: Timestamp) => {
    const number = Math.floor(at / minute)
    // A note of the previous minute may arrive after that minute ended.
    if (number === present || number === present - 1) return
    before = number === present + 1 ? worst : 0
    worst = 0
    present = number
  }

  return {
    /** Records that something due at `due` happened at `at`. */
    note: (due: Timestamp, at: Timestamp) => {
      advance(at)
      worst = Math.max(worst, at - due)
    },
    /** Milliseconds. */
    worst: (at: Timestamp) => {
      advance(at)
      return Math.round(Math.max(worst, before) / 1000)
    }
  }
}
