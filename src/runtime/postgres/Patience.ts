/**
 * The time for which the database may be silent before it counts as gone: a multiple of the recent round trips, and the time that statements
 * under way take on a slow link. Slow is not gone.
 */
import { Duration, Effect, Option, Schema } from "effect"

/** Milliseconds. With the pause between heartbeats, a fast database that is gone is noticed within two seconds. */
const minSilence = 1500
/** With the pause between heartbeats, a distant database that is gone is noticed within three round trips. */
const roundTrips = 2.5
/** Milliseconds that a round trip counts for at most: it may have been this process that was suspended. */
const maxRoundTrip = 4000
/** Each shorter round trip takes this part of the way to it, so that one fast answer among slow ones changes little. */
const decay = 0.1
/** Round trips that are remembered. */
const kept = 10

/** Bytes per millisecond of the slowest link that statements may take, and the most milliseconds that they are given for it. */
const slowestLink = 64
const maxSending = 10_000

/** Milliseconds between two looks at the received bytes. */
const step = 100

export interface Patience {
  /** Notes the milliseconds of a round trip. */
  readonly observe: (roundTrip: number) => void
  /** Milliseconds of the shortest of the last `count` round trips, at most `kept`; 0 before so many. */
  readonly roundTrip: (count: number) => number
  /** Milliseconds of silence after which a database that has to answer `unanswered` bytes counts as gone. */
  readonly silence: (unanswered: number) => number
}

export const make = (): Patience => {
  let recent = 0
  const last: Array<number> = []
  return {
    observe: (observed) => {
      last.unshift(observed)
      last.length = Math.min(last.length, kept)
      const roundTrip = Math.min(observed, maxRoundTrip)
      recent = roundTrip > recent ? roundTrip : recent + (roundTrip - recent) * decay
    },
    roundTrip: (count) => last.length < count ? 0 : Math.min(...last.slice(0, count)),
    silence: (unanswered) => Math.max(minSilence, roundTrips * recent) + Math.min(maxSending, unanswered / slowestLink)
  }
}

export class Silent extends Schema.TaggedError<Silent>()("Silent", { message: Schema.String }) {}

/** The statements that a database has received and answered. */
export interface Traffic {
  /** Total bytes received from the database. Any byte is a sign of life. */
  readonly received: () => number
  /** Bytes of statements sent since the last sign of life. */
  readonly unanswered: () => number
}

/**
 * Runs `effect` until the database has been silent for too long, which is an error, or for at most `most` milliseconds, which is
 * none. Silence is counted in short sleeps: when a suspended process continues, the first sleep has expired, but a response that
 * arrived meanwhile is read before the second one.
 */
export const whileAnswering = <A, E, R>(
  effect: Effect.Effect<A, E, R>,
  { received, unanswered }: Traffic,
  { silence }: Patience,
  most = Infinity
) =>
  Effect.raceFirst(
    Effect.asSome(effect),
    Effect.gen(function*() {
      let before = received()
      let silent = 0
      for (let waited = 0; waited < most; waited += step) {
        yield* Effect.sleep(Duration.millis(step))
        const now = received()
        silent = now === before ? silent + step : 0
        if (silent >= silence(unanswered())) return yield* new Silent({ message: "it does not answer" })
        before = now
      }
      return Option.none<A>()
    })
  )
