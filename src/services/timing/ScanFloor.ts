/**
 * The moment at which the next scan of a queue begins. While another session keeps a snapshot open, as a backup does, Postgres keeps the
 * index entries of rows that have left a queue, and each scan from the first moment reads all of them again. So a scan begins where an
 * earlier one found nothing older. Full scans find rows that became visible late, as after a slow commit.
 */
import { Duration, Effect } from "effect"
import { monotonicMillis, plus, Timestamp } from "../../domain/Timestamp.ts"

/** Milliseconds. A row that becomes visible sooner than this after its moment does not wait for a full scan. */
const minMargin = 250
/** The margin is at least as many times the duration of the last scan: what slows scans slows commits too. */
const marginOfDuration = 20

/** Milliseconds. */
const shortest = 5000
const longest = 15_000
/** Full scans that take longer than others are repeated after this many times the difference: the least of the last three counts. */
const pauseOfDuration = 2000
const counted = 3

/** Before every moment. */
export const lowest = Timestamp.make(0)

/** `interval` is the least time between full scans, in milliseconds. */
export const make = (interval = shortest) => {
  let floor = lowest
  let margin = minMargin
  let begunAt = 0
  let isFull = false
  let fullFrom = -Infinity
  /** Milliseconds that the last scan took that was not full, and those that the last full scans took more. */
  let usual: number | undefined
  let excess: ReadonlyArray<number> = []
  /** The oldest moment of rows that were committed since the last scan began. */
  let committed = Infinity
  const below = (moment: Timestamp) => plus(moment, Duration.millis(-margin))
  return {
    /** The moment at which the scan of rows that are due at `at` begins: at `lowest` for a full scan. */
    from: (at: Timestamp): Effect.Effect<Timestamp> =>
      Effect.map(monotonicMillis, (millis) => {
        begunAt = millis
        isFull = millis >= fullFrom
        if (isFull) {
          fullFrom = millis + interval
          floor = lowest
        }
        // After the clock went back, new rows have older moments.
        floor = Timestamp.make(Math.min(floor, committed, below(at)))
        committed = Infinity
        return floor
      }),
    /** The scan has ended, and left no row that is older than `oldest`. */
    raise: (oldest: Timestamp): Effect.Effect<void> =>
      Effect.map(monotonicMillis, (millis) => {
        const took = millis - begunAt
        if (!isFull) usual = took
        else if (usual !== undefined) {
          excess = [...excess, took - usual].slice(-counted)
          const pause = excess.length < counted ? 0 : Math.min(longest, pauseOfDuration * Math.min(...excess))
          fullFrom = begunAt + Math.max(interval, pause)
        }
        margin = Math.max(minMargin, marginOfDuration * took)
        floor = below(oldest)
      }),
    /** Rows that are due since `at` were committed by this node: the next scan finds them, however long the commit took. */
    lower: (at: Timestamp): void => {
      committed = Math.min(committed, at)
    }
  }
}

export type ScanFloor = ReturnType<typeof make>
