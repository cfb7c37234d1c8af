import { assert, layer } from "@effect/vitest"
import { Cause, Effect, Exit, Schedule, Schema } from "effect"
import { TestClock } from "effect/testing"
import { make as makeQueries, micros, moment, query } from "../../src/services/store/sql/Queries.ts"
import * as Database from "../kit/Database.ts"

const Row = Schema.Struct({ value: Schema.Int })

layer(Database.layer)("a statement", (it) => {
  it.effect("fails with StoreUnavailable when the server ends its connection", () =>
    Effect.gen(function*() {
      const { execute } = yield* makeQueries
      const error = yield* Effect.flip(execute("SELECT pg_terminate_backend(pg_backend_pid())", []))
      assert.strictEqual(error._tag, "StoreUnavailable")
    }))

  const outages = {
    "has no connection left": "53300",
    "has a full disk": "53100",
    "is read-only": "25006",
    "starts": "57P03",
    "cancels it after the statement timeout": "57014",
    "does not grant a lock in time": "55P03"
  }
  for (const [title, code] of Object.entries(outages)) {
    it.effect(`fails with StoreUnavailable when the server ${title}`, () =>
      Effect.gen(function*() {
        const { execute } = yield* makeQueries
        const error = yield* Effect.flip(execute(`DO $$ BEGIN RAISE 'x' USING ERRCODE = '${code}'; END $$`, []))
        assert.strictEqual(error._tag, "StoreUnavailable")
      }))
  }

  for (
    const [title, text] of [["is wrong", "SELECT 1 / 0 AS value"], [
      "returns another row",
      "SELECT 'x' AS value"
    ]] as const
  ) {
    it.effect(`dies when it ${title}`, () =>
      Effect.gen(function*() {
        const { rows } = yield* makeQueries
        const exit = yield* Effect.exit(rows(query(Row, text), []))
        assert.isTrue(Exit.isFailure(exit) && Cause.hasDies(exit.cause))
      }))
  }

  it.effect(
    "that runs alone ends with its request, and leaves its connection to others",
    () =>
      TestClock.withLive(Effect.gen(function*() {
        const { alone, rows } = yield* makeQueries
        const sleep = query(Row, "SELECT 1 AS value FROM pg_sleep(20)")
        for (let count = 0; count < 12; count++) {
          yield* Effect.timeoutOption(alone(sleep, []), "50 millis")
        }
        const one = query(Row, "SELECT 2 AS value")
        const found = yield* Effect.forEach(Array.from({ length: 40 }), () => rows(one, []), {
          concurrency: "unbounded"
        })
        assert.deepStrictEqual(found.flat(), Array.from({ length: 40 }, () => ({ value: 2 })))
        const active = query(
          Row,
          "SELECT count(*)::int AS value FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'"
        )
        yield* Effect.repeat(rows(active, []), {
          schedule: Schedule.spaced("50 millis"),
          until: ([row]) => row?.value === 0,
          times: 60
        })
        assert.deepStrictEqual(yield* rows(active, []), [{ value: 0 }])
      })),
    15_000
  )

  it.effect("binds and returns moments to the microsecond", () =>
    Effect.gen(function*() {
      const { rows } = yield* makeQueries
      const text = `SELECT ${micros(moment("$1"))} AS value`
      for (const value of [1, 1_764_000_000_123_457, 7_258_118_399_999_999]) {
        assert.deepStrictEqual(yield* rows(query(Row, text), [value]), [{ value }])
      }
    }))
})
