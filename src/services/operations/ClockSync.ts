/**
 * Synchronizes the node's time with the database's clock: before any other layer starts, then every few seconds, and
 * within a second when the machine's wall clock and monotonic clock diverge, for example after a suspend. While the
 * database is unavailable, the last offset applies.
 */
import { Duration, Effect, Layer, Schema } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { best, type Sample, sampleOf } from "../../domain/ClockOffset.ts"
import { micros, query } from "../store/sql/Queries.ts"
import * as Metrics from "../telemetry/Metrics.ts"
import { type MachineClocks, NodeClock } from "../timing/NodeClock.ts"
import * as Worker from "../timing/Worker.ts"

/** Milliseconds between samples. */
const interval = 10_000
const pollInterval = Duration.seconds(1)
const timeout = Duration.seconds(5)

/**
 * Readings of the database's clock in one sample. Several, because a single round trip may have queued behind others, or opened a
 * connection; but only two from a distant database.
 */
const readings = 4
/** Milliseconds after which a sample has no third reading. */
const longSample = 200
/** Milliseconds. A sample that is so certain has no third reading either. */
const certain = 2

/** Milliseconds. A larger change of wall clock minus monotonic clock between two polls causes a sample. */
const maxDrift = 100

/** Milliseconds. A larger step of the node's time and a larger offset of the wall clock are logged. */
const notableStep = 250
const notableOffset = 500

const reading = query(Schema.Struct({ at: Schema.Finite }), `SELECT ${micros("clock_timestamp()")} AS at`)

/** Reads the database's clock a few times and returns the best reading. */
export const sample = (
  sql: SqlClient.SqlClient,
  { monotonic }: MachineClocks
): Effect.Effect<Sample, SqlError.SqlError> => {
  const read = Effect.suspend(() => {
    const sentAt = monotonic()
    return Effect.map(sql.unsafe(reading.text), (rows) => {
      const receivedAt = monotonic()
      const [row] = reading.decode(rows)
      return sampleOf(sentAt, (row?.at ?? Number.NaN) / 1000, receivedAt)
    })
  })
  return Effect.gen(function*() {
    const begunAt = monotonic()
    let found = best([yield* read, yield* read])
    for (
      let count = 2;
      count < readings && monotonic() - begunAt < longSample && found.uncertainty > certain;
      count++
    ) {
      found = best([found, yield* read])
    }
    return found
  })
}

const seconds = (millis: number) => (millis / 1000).toFixed(3)

export const layer = Layer.effectDiscard(Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const { follow, machine, status } = yield* NodeClock
  let isNotable = false
  let drift = machine.wall() - machine.monotonic()
  let dueAt = Number.NEGATIVE_INFINITY

  const sync = Effect.gen(function*() {
    const step = follow(yield* sample(sql, machine))
    dueAt = machine.monotonic() + interval
    if (Math.abs(step) > notableStep) {
      yield* Effect.logWarning(`this node's time was stepped by ${seconds(step)} s to the database's clock`)
    }
    const { wallOffset } = status()
    if (Math.abs(wallOffset) > notableOffset === isNotable) return
    isNotable = !isNotable
    yield* isNotable
      ? Effect.logWarning(
        `the machine's wall clock is ${
          seconds(wallOffset)
        } s ahead of the database's clock; the node follows the database's clock`
      )
      : Effect.logInfo("the machine's wall clock agrees with the database's clock again")
  })

  const poll = Effect.gen(function*() {
    const before = drift
    drift = machine.wall() - machine.monotonic()
    if (Math.abs(drift - before) > maxDrift) dueAt = Number.NEGATIVE_INFINITY
    if (machine.monotonic() >= dueAt) yield* Effect.timeout(sync, timeout)
  }).pipe(Effect.catchCause((cause) => Effect.logDebug("the database's clock could not be read", cause)))

  yield* sync
  yield* Metrics.clockOffset.observe(() => status().wallOffset / 1000)
  yield* Metrics.clockUncertainty.observe(() => status().uncertainty / 1000)
  yield* Metrics.clockSampleAge.observe(() => status().sampleAge / 1000)
  yield* Worker.make({ name: "the clock synchronization", runOnce: poll, interval: pollInterval })
}))
