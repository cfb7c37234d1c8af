/** The store of schedules in Postgres. */
import { Effect, Layer, Schema } from "effect"
import * as Limits from "../../domain/Limits.ts"
import { plus } from "../../domain/Timestamp.ts"
import { PendingWork } from "../store/PendingWork.ts"
import { make as makeQueries, moment, query } from "../store/sql/Queries.ts"
import * as FiringsSql from "./FiringsSql.ts"
import { Definition, dueAt, limits, type Schedule, ScheduleId } from "./Schedule.ts"
import * as ScheduleReadsSql from "./ScheduleReadsSql.ts"
import { SchedulesStore } from "./SchedulesStore.ts"

const seconds = (placeholder: string) => `to_timestamp(${placeholder}::float8)`

/** The columns of the table in their order, as `save_schedule` takes them. */
const save = query(
  Schema.Struct({
    outcome: Schema.Literals(["Saved", "Stale", "TooMany", "KeyTaken", "Revoked", "Replayed", "IdempotencyKeyReused"]),
    id: ScheduleId
  }),
  `SELECT outcome, saved_id AS id FROM save_schedule(
    ROW($1::uuid, $2::text, $3::text, $4::text, $5::text, $6::text, $7::text, $8::text, ${moment("$9")},
      ${moment("$10")}, ${moment("$11")}, $12::int, $13::int, $14::text, ${seconds("$15")}, ${moment("$16")}, $17::text,
      $18::int, $19::int, $20::int, NULL::uuid, ${moment("$21")}, ${moment("$22")})::schedules,
    $23::int, $24::int, $25::text, $26::text, ${moment("$27")})`
)

const encodeDefinition = Schema.encodeSync(Schema.fromJsonString(Definition))

const valuesOf = (schedule: Schedule) => {
  const { authorization, definition, id, nextAt } = schedule
  return [
    id,
    schedule.sub,
    schedule.key,
    encodeDefinition(definition),
    schedule.task,
    schedule.callbackSecret,
    schedule.state,
    schedule.pausedReason === null ? null : JSON.stringify(schedule.pausedReason),
    nextAt,
    nextAt === null ? null : dueAt(id, definition, nextAt),
    schedule.lastAt,
    schedule.revision,
    schedule.version,
    authorization.tokenId,
    authorization.issuedAt,
    authorization.at,
    authorization.token,
    definition.pauseAfterFailures,
    schedule.taskFailures,
    schedule.tokenFailures,
    schedule.createdAt,
    schedule.endedAt
  ]
}

export const layer = Layer.effect(
  SchedulesStore,
  Effect.gen(function*() {
    const { execute, rows } = yield* makeQueries
    const pendingWork = yield* PendingWork
    pendingWork.add("schedules", (soon) => [
      `FROM schedules WHERE state = 'active' AND due_at <= ${soon}`,
      `FROM schedule_runs WHERE try_at <= ${soon}`,
      "FROM schedule_runs WHERE watched"
    ])
    const store = (schedule: Schedule, revision: number | null, key: ReadonlyArray<unknown>) =>
      Effect.map(
        rows(save, [...valuesOf(schedule), revision, limits.ofUser, ...key]),
        ([saved]) => saved ?? { outcome: "Stale" as const, id: schedule.id }
      )
    return SchedulesStore.of({
      ...(yield* ScheduleReadsSql.make),
      ...(yield* FiringsSql.make),
      insert: Effect.fnUntraced(function*(schedule, given) {
        const keyExpires = plus(schedule.createdAt, Limits.idempotencyKeyTtl)
        const key = given === undefined ? [null, null, null] : [given.value, given.fingerprint, keyExpires]
        const { id, outcome } = yield* store(schedule, null, key)
        return outcome === "Replayed" ? { _tag: outcome, id } : { _tag: outcome === "Stale" ? "Saved" : outcome }
      }),
      save: (schedule, revision) =>
        Effect.map(store(schedule, revision, [null, null, null]), ({ outcome }) => ({
          _tag: outcome === "Replayed" || outcome === "IdempotencyKeyReused" ? "Stale" : outcome
        })),
      delete: (id) => execute(`DELETE FROM schedules WHERE id = $1::uuid`, [id])
    })
  })
)
