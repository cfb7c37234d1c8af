/**
 * Ready means: the database responds, its schema is current, this node's sweeps make progress, its time is that of the
 * database, and the node is not drained.
 */
import { Duration, Effect, Layer, Ref } from "effect"
import { SqlClient } from "effect/sql"
import { monotonicMillis } from "../../domain/Timestamp.ts"
import { TaskSweeper } from "../actors/TaskSweeper.ts"
import { TaskOwnership } from "../cluster/TaskOwnership.ts"
import * as Migrations from "../store/Migrations.ts"
import { NodeClock, problemOf } from "../timing/NodeClock.ts"
import { type Check, Readiness } from "./Readiness.ts"

const timeout = Duration.seconds(2)
/** Milliseconds without a finished sweep after which a node counts as stuck. */
const maxSweepAge = 15_000

export const layer = Layer.effect(
  Readiness,
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const sweeper = yield* TaskSweeper
    const ownership = yield* TaskOwnership
    const { status } = yield* NodeClock

    const isCurrent = yield* Ref.make(false)

    /**
     * Queried only until the schema is current, because it stays so. A newer node that migrates would block the query
     * with its lock.
     */
    const schema = Effect.gen(function*() {
      if (yield* Ref.get(isCurrent)) return yield* Effect.as(sql`SELECT`, null)
      const migration = yield* Migrations.current(sql)
      if (migration < Migrations.latest) return `at migration ${migration}, needs ${Migrations.latest}`
      yield* Ref.set(isCurrent, true)
      return null
    })

    const database = Effect.map(schema, (problem): ReadonlyArray<Check> => [
      { name: "database", problem: null },
      { name: "schema", problem }
    ]).pipe(
      Effect.timeout(timeout),
      Effect.orElseSucceed((): ReadonlyArray<Check> => [{ name: "database", problem: "does not answer" }])
    )

    const progress = Effect.gen(function*() {
      const age = (yield* monotonicMillis) - (yield* sweeper.lastSweep)
      const problem = age < maxSweepAge ? null : `no sweep for ${Math.round(age / 1000)} s`
      return { name: "progress", problem }
    })

    const membership = Effect.sync(() => ({ name: "membership", problem: ownership.isDrained() ? "drained" : null }))

    const clock = Effect.sync(() => ({ name: "clock", problem: problemOf(status()) }))

    return Readiness.of({
      checks: Effect.map(
        Effect.all([database, progress, membership, clock]),
        ([found, ...others]) => [...found, ...others]
      )
    })
  })
)
