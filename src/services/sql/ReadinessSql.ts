/**
 * Ready: the database answers, its schema is the one this code was written for, this node's sweeps go on, its time is the
 * database's, and no one drained it.
 */
import { Duration, Effect, Layer, Ref } from "effect"
import { SqlClient } from "effect/sql"
import { monotonicMillis } from "../../domain/Timestamp.ts"
import { NodeClock, problemOf } from "../NodeClock.ts"
import { type Check, Readiness } from "../Readiness.ts"
import { TaskOwnership } from "../TaskOwnership.ts"
import { TaskSweeper } from "../TaskSweeper.ts"
import * as Migrations from "./Migrations.ts"

const patience = Duration.seconds(2)
/** Milliseconds without a finished sweep after which a node counts as stuck. */
const maxSweepAge = 15_000

export const layer = Layer.effect(
  Readiness,
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const sweeper = yield* TaskSweeper
    const ownership = yield* TaskOwnership
    const { standing } = yield* NodeClock

    const isCurrent = yield* Ref.make(false)

    /** Asked until it is current, since it stays so: while a newer node migrates, it holds the lock on what would be read here. */
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
      Effect.timeout(patience),
      Effect.orElseSucceed((): ReadonlyArray<Check> => [{ name: "database", problem: "does not answer" }])
    )

    const progress = Effect.gen(function*() {
      const age = (yield* monotonicMillis) - (yield* sweeper.lastSweep)
      const problem = age < maxSweepAge ? null : `no sweep for ${Math.round(age / 1000)} s`
      return { name: "progress", problem }
    })

    const membership = Effect.sync(() => ({ name: "membership", problem: ownership.hasLeft() ? "drained" : null }))

    const clock = Effect.sync(() => ({ name: "clock", problem: problemOf(standing()) }))

    return Readiness.of({
      checks: Effect.map(
        Effect.all([database, progress, membership, clock]),
        ([found, ...others]) => [...found, ...others]
      )
    })
  })
)
