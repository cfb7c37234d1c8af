/**
 * Bulk actions as rows. One node at a time has the lease of an action; what it writes about the action without the lease is ignored. The ids of
 * a page are stored before they are carried out, and a node that takes over carries them out again, which changes nothing twice.
 */
import { PgTypes } from "@effect/sql-pg"
import { Context, Duration, Effect, Layer, type Option, Schema } from "effect"
import type { StoreUnavailable } from "../../domain/StoreUnavailable.ts"
import { TaskId } from "../../domain/Task.ts"
import { plus, Timestamp } from "../../domain/Timestamp.ts"
import { PendingWork } from "../store/PendingWork.ts"
import { array, countQuery, deletionQuery, make as makeQueries, micros, moment, query } from "../store/sql/Queries.ts"
import { notEnded } from "../store/tasks/TaskColumns.ts"
import type { Position } from "./OperatorStore.ts"
import type { Selection } from "./Selection.ts"

export const BulkAction = Schema.Literals(["cancel", "rerun", "redeliver", "delete", "erase"])
export type BulkAction = typeof BulkAction.Type

export const BulkState = Schema.Literals(["running", "done", "stopped"])

export const BulkError = Schema.Struct({ id: Schema.String, message: Schema.String })
export type BulkError = typeof BulkError.Type

export const Bulk = Schema.Struct({
  id: Schema.String,
  action: BulkAction,
  /** JSON, as it was given, without the user. */
  filter: Schema.fromJsonString(Schema.Record(Schema.String, Schema.Unknown)),
  sub: Schema.NullOr(Schema.String),
  reason: Schema.NullOr(Schema.String),
  /** Tasks or deliveries in a second. */
  rate: Schema.Int,
  operator: Schema.String,
  startedAt: Timestamp,
  endedAt: Schema.NullOr(Timestamp),
  state: BulkState,
  matched: Schema.Int,
  done: Schema.Int,
  skipped: Schema.Int,
  failed: Schema.Int,
  /** The first ones. */
  errors: Schema.fromJsonString(Schema.Array(BulkError))
})
export type Bulk = typeof Bulk.Type

/** An action that a node carries out. */
export const LeasedBulk = Schema.Struct({
  ...Bulk.fields,
  selection: Schema.fromJsonString(Schema.Unknown),
  positionAt: Schema.NullOr(Timestamp),
  positionId: Schema.NullOr(Schema.String),
  /** Whether all keys were read. */
  isRead: Schema.Boolean,
  /** Ids that another node may have carried out in part. */
  page: Schema.NullOr(Schema.Array(Schema.String))
})
export type LeasedBulk = typeof LeasedBulk.Type

export interface NewBulk
  extends Pick<Bulk, "id" | "action" | "filter" | "sub" | "reason" | "rate" | "operator" | "startedAt" | "matched">
{
  readonly selection: Selection | null
}

export interface Counts {
  readonly done: number
  readonly skipped: number
  readonly failed: number
  /** All of the action so far. */
  readonly errors: ReadonlyArray<BulkError>
  /** Those of the done ones that get a line of the audit here. */
  readonly noted: ReadonlyArray<{ readonly target: string; readonly sub: string }>
}

/** A user with a task that waits to run again. */
export const Candidate = Schema.Struct({
  sub: Schema.String,
  uuid: TaskId,
  maximum: Schema.Int
})
export type Candidate = typeof Candidate.Type

/** Errors that an action keeps. */
export const keptErrors = 20
const listedBulks = 100
/** A node that has not written for this long has lost the action. */
const lease = Duration.seconds(10)
/** Users whose turn one statement looks for. */
const searchedUsers = 5000

const columns = `id::text AS id, action, filter, sub, reason, rate, operator, ${micros("started_at")} AS "startedAt",
  ${micros("ended_at")} AS "endedAt", state, matched, done, skipped, failed, errors`
const leasedColumns = `${columns}, selection, ${micros("position_at")} AS "positionAt", position_id AS "positionId",
  is_read AS "isRead", page`

const insert =
  `INSERT INTO operator_bulk (id, action, filter, selection, sub, reason, rate, operator, started_at, state, matched, lease_until)
  VALUES ($1::uuid, $2::text, $3::text, $4::text, $5::text, $6::text, $7::int, $8::text, ${
    moment("$9")
  }, 'running', $10::int, ${moment("$9")})`

const get = query(Bulk, `SELECT ${columns} FROM operator_bulk WHERE id = $1::uuid`)
const list = query(Bulk, `SELECT ${columns} FROM operator_bulk ORDER BY started_at DESC, id DESC LIMIT $1::int`)

/** The oldest action that no node has. */
const claim = query(
  LeasedBulk,
  `UPDATE operator_bulk SET lease_owner = $1::uuid, lease_until = ${moment("$3")} WHERE id = ANY (ARRAY(
    SELECT id FROM operator_bulk WHERE ended_at IS NULL AND lease_until <= ${moment("$2")}
    ORDER BY lease_until LIMIT 1 FOR UPDATE SKIP LOCKED
  )) RETURNING ${leasedColumns}`
)

const owned = "id = $1::uuid AND lease_owner = $2::uuid AND state = 'running'"

/** Takes a page: binds lease, position, whether it is the last, and the ids. */
const takePage = countQuery(
  `WITH taken AS (
    UPDATE operator_bulk SET lease_until = ${moment("$3")}, position_at = coalesce(${moment("$4")}, position_at),
      position_id = coalesce($5::text, position_id), is_read = $6::boolean, page = $7::text[]
    WHERE ${owned} RETURNING 1
  ) SELECT count(*)::int AS count FROM taken`
)

/** Adds what became of the page, with a line of the audit for each of the targets. */
const addCounts = countQuery(
  `WITH written AS (
    UPDATE operator_bulk SET lease_until = ${
    moment("$3")
  }, page = NULL, done = done + $4::int, skipped = skipped + $5::int,
      failed = failed + $6::int, errors = $7::text
    WHERE ${owned} RETURNING id, operator, action, reason
  ), noted AS (
    INSERT INTO operator_actions (operator, via, action, target, sub, reason, outcome, bulk_id)
    SELECT operator, 'bulk', action, item.target, item.sub, reason, 'done', id
    FROM written, unnest($8::text[], $9::text[]) AS item (target, sub)
  ) SELECT count(*)::int AS count FROM written`
)

/** Takes a page of tasks to run again. */
const takeReruns = countQuery(
  `WITH taken AS (
    UPDATE operator_bulk SET lease_until = ${moment("$3")}, position_at = coalesce(${moment("$4")}, position_at),
      position_id = coalesce($5::text, position_id), is_read = $6::boolean
    WHERE ${owned} RETURNING id
  ), added AS (
    INSERT INTO operator_reruns (bulk_id, sub, uuid) SELECT taken.id, t.sub, t.uuid FROM taken, tasks t WHERE t.uuid = ANY ($7::uuid[])
    ON CONFLICT DO NOTHING
  ) SELECT count(*)::int AS count FROM taken`
)

/**
 * Users with a task that waits, none that this or another action runs again now, and more than one free slot. Those with a limit of one are
 * returned too: they never have a turn.
 */
const candidates = query(
  Candidate,
  `WITH RECURSIVE users AS (
    (SELECT sub, 1 AS n FROM operator_reruns WHERE bulk_id = $1::uuid AND sub > $2::text ORDER BY sub LIMIT 1)
    UNION ALL
    SELECT (SELECT r.sub FROM operator_reruns r WHERE r.bulk_id = $1::uuid AND r.sub > users.sub ORDER BY r.sub LIMIT 1), n + 1
    FROM users WHERE users.sub IS NOT NULL AND n < ${searchedUsers}
  )
  SELECT users.sub, waiting.uuid, bound.maximum FROM users CROSS JOIN LATERAL (
    SELECT uuid FROM operator_reruns r WHERE r.bulk_id = $1::uuid AND r.sub = users.sub AND new_task IS NULL ORDER BY uuid LIMIT 1
  ) AS waiting CROSS JOIN LATERAL (
    SELECT coalesce((SELECT max_active_tasks FROM user_limits u WHERE u.sub = users.sub), $3::int) AS maximum
  ) AS bound
  WHERE NOT EXISTS (SELECT FROM operator_reruns l WHERE l.sub = users.sub AND l.new_task IS NOT NULL)
    AND (bound.maximum < 2 OR bound.maximum - 1 > (SELECT count(*) FROM tasks t WHERE t.sub = users.sub AND t.${notEnded}))
  ORDER BY users.sub LIMIT $4::int`
)

/** Records the new task of one that ran again, once, with its line of the audit. */
const started = `WITH taken AS (
    UPDATE operator_reruns SET new_task = $4::uuid WHERE bulk_id = $1::uuid AND sub = $2::text AND uuid = $3::uuid AND new_task IS NULL
    RETURNING uuid
  ), counted AS (
    UPDATE operator_bulk SET done = done + 1 WHERE id = $1::uuid AND EXISTS (SELECT FROM taken) RETURNING operator, reason
  )
  INSERT INTO operator_actions (operator, via, action, target, sub, reason, outcome, bulk_id)
  SELECT operator, 'bulk', 'rerun', $3::text, $2::text, reason, 'done', $1::uuid FROM counted`

/** Takes a task out that does not run again: skipped, or failed with an error. */
const dropped = `WITH taken AS (
    DELETE FROM operator_reruns WHERE bulk_id = $1::uuid AND sub = $2::text AND uuid = $3::uuid AND new_task IS NULL RETURNING 1
  )
  UPDATE operator_bulk SET skipped = skipped + CASE WHEN $4::text IS NULL THEN 1 ELSE 0 END,
    failed = failed + CASE WHEN $4::text IS NULL THEN 0 ELSE 1 END,
    errors = CASE WHEN $4::text IS NULL OR json_array_length(errors::json) >= ${keptErrors} THEN errors
      ELSE (errors::jsonb || jsonb_build_object('id', $3::text, 'message', $4::text))::text END
  WHERE id = $1::uuid AND EXISTS (SELECT FROM taken)`

/** Those whose new task has ended make room for the next of their user. */
const settleReruns = `DELETE FROM operator_reruns r WHERE bulk_id = $1::uuid AND new_task IS NOT NULL
  AND NOT EXISTS (SELECT FROM tasks t WHERE t.uuid = r.new_task AND t.${notEnded})`

const waitingReruns = countQuery(
  `SELECT count(*)::int AS count FROM (
    SELECT FROM operator_reruns WHERE bulk_id = $1::uuid AND new_task IS NULL LIMIT 1
  ) AS waiting`
)

const renew = countQuery(
  `WITH renewed AS (UPDATE operator_bulk SET lease_until = ${moment("$3")} WHERE ${owned} RETURNING 1)
  SELECT count(*)::int AS count FROM renewed`
)

// In one statement: a rerun that stays behind would keep its user out of all later actions.
const forgetReruns = "DELETE FROM operator_reruns r USING ended WHERE r.bulk_id = ended.id"
// Only a running action needs its selection, which names the user.
const ended = "page = NULL, selection = '{}'"
/** Binds what stands for the user from then on, if that changes. What has left the selection before its turn was skipped. */
const end = `WITH ended AS (UPDATE operator_bulk SET state = 'done', ended_at = ${
  moment("$3")
}, ${ended}, sub = coalesce($4::text, sub), skipped = greatest(skipped, matched - done - failed)
  WHERE ${owned} RETURNING id) ${forgetReruns}`
const stop = query(
  Bulk,
  `WITH ended AS (
    UPDATE operator_bulk SET state = 'stopped', ended_at = ${moment("$2")}, ${ended}
    WHERE id = $1::uuid AND state = 'running' RETURNING *
  ), forgotten AS (${forgetReruns}) SELECT ${columns} FROM ended`
)

const deleteOld = deletionQuery("operator_bulk", `ended_at < ${moment("@before")}`)
const deleteOldFiles =
  `DELETE FROM operator_erased_files f WHERE NOT EXISTS (SELECT FROM operator_bulk b WHERE b.id = f.bulk_id)`

const addFiles =
  `INSERT INTO operator_erased_files (bulk_id, file_id) SELECT $1::uuid, unnest($2::text[]) ON CONFLICT DO NOTHING`
const files = query(
  Schema.Struct({ id: Schema.String }),
  `SELECT file_id AS id FROM operator_erased_files WHERE bulk_id = $1::uuid ORDER BY file_id LIMIT $2::int`
)

type Run<A> = Effect.Effect<A, StoreUnavailable>

/** Identifies the lease with which a node writes about an action. */
export interface Owner {
  readonly id: string
  readonly owner: string
}

type TakePage = (
  of: Owner,
  at: Timestamp,
  position: Position | null,
  isLast: boolean,
  ids: ReadonlyArray<string>
) => Run<boolean>

export class BulkStore extends Context.Service<BulkStore, {
  readonly insert: (bulk: NewBulk) => Run<void>
  readonly get: (id: string) => Run<Option.Option<Bulk>>
  readonly list: Run<ReadonlyArray<Bulk>>
  /** Leases an action that no node carries out. */
  readonly claim: (owner: string, at: Timestamp) => Run<Option.Option<LeasedBulk>>
  /** These return false when the node has lost the action, or it was stopped. */
  readonly renew: (of: Owner, at: Timestamp) => Run<boolean>
  readonly takePage: TakePage
  readonly takeReruns: TakePage
  readonly addCounts: (of: Owner, at: Timestamp, counts: Counts) => Run<boolean>
  /** Users after `sub`, in their order. `maxActive` holds for users without a limit of their own. */
  readonly candidates: (id: string, sub: string, maxActive: number, limit: number) => Run<ReadonlyArray<Candidate>>
  readonly started: (id: string, candidate: Candidate, newTask: TaskId) => Run<void>
  /** `error` is null for a task that is skipped. */
  readonly dropped: (id: string, candidate: Candidate, error: string | null) => Run<void>
  readonly settleReruns: (id: string) => Run<void>
  readonly hasWaiting: (id: string) => Run<boolean>
  /** `sub` stands for the user from then on. */
  readonly end: (of: Owner, at: Timestamp, sub?: string) => Run<void>
  readonly stop: (id: string, at: Timestamp) => Run<Option.Option<Bulk>>
  /** Deletes actions that ended before a moment, with what belongs to them. */
  readonly deleteOld: (before: Timestamp) => Run<void>
  readonly addFiles: (id: string, files: ReadonlyArray<string>) => Run<void>
  readonly files: (id: string, limit: number) => Run<ReadonlyArray<string>>
}>()("async-task-service/services/operator/BulkStore") {
  static readonly layer = Layer.effect(BulkStore, Effect.suspend(() => make))
}

const deletionBatch = 1000

const textArray = (values: ReadonlyArray<string>) => array(values, PgTypes.OID.text)

const make = Effect.gen(function*() {
  const { count, execute, first, rows } = yield* makeQueries
  const leaseFrom = (at: Timestamp) => plus(at, lease)
  const isOne = (counted: Run<number>) => Effect.map(counted, (count) => count === 1)
  const take = (query: typeof takePage): TakePage => ({ id, owner }, at, position, isLast, ids) =>
    isOne(
      count(query, [id, owner, leaseFrom(at), position?.at ?? null, position?.id ?? null, isLast, textArray(ids)])
    )
  const pendingWork = yield* PendingWork
  pendingWork.add("bulk actions", (soon) => [`FROM operator_bulk WHERE ended_at IS NULL AND lease_until <= ${soon}`])

  return BulkStore.of({
    insert: ({ action, filter, id, matched, operator, rate, reason, selection, startedAt, sub }) =>
      execute(insert, [
        id,
        action,
        JSON.stringify(filter),
        JSON.stringify(selection),
        sub,
        reason,
        rate,
        operator,
        startedAt,
        matched
      ]),
    get: (id) => first(get, [id]),
    list: rows(list, [listedBulks]),
    claim: (owner, at) => first(claim, [owner, at, leaseFrom(at)]),
    renew: ({ id, owner }, at) => isOne(count(renew, [id, owner, leaseFrom(at)])),
    takePage: take(takePage),
    takeReruns: take(takeReruns),
    addCounts: ({ id, owner }, at, { done, errors, failed, noted, skipped }) =>
      isOne(count(addCounts, [
        id,
        owner,
        leaseFrom(at),
        done,
        skipped,
        failed,
        JSON.stringify(errors),
        textArray(noted.map(({ target }) => target)),
        textArray(noted.map(({ sub }) => sub))
      ])),
    candidates: (id, sub, maxActive, limit) => rows(candidates, [id, sub, maxActive, limit]),
    started: (id, { sub, uuid }, newTask) => execute(started, [id, sub, uuid, newTask]),
    dropped: (id, { sub, uuid }, error) => execute(dropped, [id, sub, uuid, error]),
    settleReruns: (id) => execute(settleReruns, [id]),
    hasWaiting: (id) => Effect.map(count(waitingReruns, [id]), (waiting) => waiting > 0),
    end: ({ id, owner }, at, sub) => execute(end, [id, owner, at, sub ?? null]),
    stop: (id, at) => first(stop, [id, at]),
    deleteOld: (before) =>
      Effect.andThen(count(deleteOld, { before, limit: deletionBatch }), execute(deleteOldFiles, [])),
    addFiles: (id, found) => found.length === 0 ? Effect.void : execute(addFiles, [id, textArray(found)]),
    files: (id, limit) => Effect.map(rows(files, [id, limit]), (found) => found.map(({ id }) => id))
  })
})
