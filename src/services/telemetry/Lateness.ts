/** How late deadlines were met lately: the maximum in the current and the previous minute. */
import { minuteOf, type Timestamp } from "../../domain/Timestamp.ts"

export const make = () => {
  let currentMinute = -1
  let worst = 0
  let previousWorst = 0

  const advance = (at: Timestamp) => {
    const number = minuteOf(at)
    // A record for the previous minute may arrive after that minute ended.
    if (number === currentMinute || number === currentMinute - 1) return
    previousWorst = number === currentMinute + 1 ? worst : 0
    worst = 0
    currentMinute = number
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
      return Math.round(Math.max(worst, previousWorst) / 1000)
    }
  }
}
