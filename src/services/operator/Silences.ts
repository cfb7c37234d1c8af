/** What operators have put aside for some time: causes of failures, and alerts that have ended. All operators see the same. */
import { Context, type Duration, Effect, Layer, Schema } from "effect"
import type { StoreUnavailable } from "../../domain/StoreUnavailable.ts"
import { now, plus, Timestamp } from "../../domain/Timestamp.ts"
import { make as makeQueries, micros, moment, query } from "../store/sql/Queries.ts"

export const SilenceKind = Schema.Literals(["cause", "alert"])

/** Rows that are kept: the newest. */
const maxKept = 1000

const Silence = Schema.Struct({
  kind: SilenceKind,
  /** The fingerprint of a cause, or what the console calls an alert. */
  key: Schema.String,
  until: Timestamp,
  operator: Schema.String
})
export interface Silence extends Schema.Schema.Type<typeof Silence> {}

const list = query(
  Silence,
  `SELECT kind, key, ${micros("until")} AS until, operator FROM operator_silences WHERE until > ${moment("$1")}
  ORDER BY at DESC, key LIMIT ${maxKept}`
)
const add = `INSERT INTO operator_silences (kind, key, until, operator, at)
  VALUES ($1::text, $2::text, ${moment("$3")}, $4::text, ${moment("$5")})
  ON CONFLICT (kind, key) DO UPDATE SET until = EXCLUDED.until, operator = EXCLUDED.operator, at = EXCLUDED.at`
const remove = "DELETE FROM operator_silences WHERE kind = $1::text AND key = $2::text"
const deleteSurplus = `DELETE FROM operator_silences WHERE until <= ${moment("$1")} OR (kind, key) IN (
  SELECT kind, key FROM operator_silences ORDER BY at DESC, key OFFSET ${maxKept})`

export class Silences extends Context.Service<Silences, {
  /** Those that hold, newest first. */
  readonly list: Effect.Effect<ReadonlyArray<Silence>, StoreUnavailable>
  /** Null ends it. Returns the end. */
  readonly set: (
    silence: Pick<Silence, "kind" | "key" | "operator">,
    lasts: Duration.Duration | null
  ) => Effect.Effect<Timestamp | null, StoreUnavailable>
}>()("async-task-service/services/operator/Silences") {
  static readonly layer = Layer.effect(Silences, Effect.suspend(() => make))
}

const make = Effect.map(makeQueries, ({ execute, rows }) =>
  Silences.of({
    list: Effect.flatMap(now, (at) => rows(list, [at])),
    set: Effect.fnUntraced(function*({ key, kind, operator }, lasts) {
      if (lasts === null) {
        yield* execute(remove, [kind, key])
        return null
      }
      const at = yield* now
      const until = plus(at, lasts)
      yield* execute(add, [kind, key, until, operator, at])
      yield* execute(deleteSurplus, [at])
      return until
    })
  }))
