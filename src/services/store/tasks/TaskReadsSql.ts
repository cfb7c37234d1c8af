/**
 * Reads of known tasks in Postgres. Those of single tasks share a statement; every statement reads the rows again, so that no answer is
 * older than its request.
 */
import { Effect, Option, Schema } from "effect"
import * as OpaqueJson from "../../../domain/json/OpaqueJson.ts"
import * as Limits from "../../../domain/Limits.ts"
import * as Metadata from "../../../domain/Metadata.ts"
import type { StoreUnavailable } from "../../../domain/StoreUnavailable.ts"
import { RunId, TaskHead, TaskId, TaskSummary } from "../../../domain/Task.ts"
import { KeptFields } from "../../../domain/TaskRequest.ts"
import { Timestamp } from "../../../domain/Timestamp.ts"
import * as Batcher from "../sql/Batcher.ts"
import { hidden, make as makeQueries, micros, moment, query, utf8 } from "../sql/Queries.ts"
import * as ListReader from "./ListReader.ts"
import { headColumns, isRunning, keptColumns, taskColumns } from "./TaskColumns.ts"
import * as TaskSearch from "./TaskSearch.ts"
import { partOf, type PendingRun, RecordedEvent, type TaskStore, UsedKey } from "./TaskStore.ts"

type Store = TaskStore["Service"]

/**
 * Turns of the event loop in which reads gather. Changes that arrive meanwhile are sent first, so that a client that polls
 * often gets the new state one request earlier. On an idle node four turns take microseconds.
 */
const turns = 4

/** `LIMIT 1` makes the planner look up each id in the index, whatever it knows about the tables. */
const select = (columns: string, tables: string) =>
  `SELECT found.* FROM unnest(${hidden("$1::uuid[]")}) AS wanted (id)
  CROSS JOIN LATERAL (SELECT ${columns} FROM ${tables} WHERE uuid = wanted.id LIMIT 1) AS found`

export const headsById = query(TaskHead, select(headColumns, "tasks"))

const tasksById = (turn: Schema.Codec<OpaqueJson.OpaqueJson, string | Uint8Array>, selected: string) =>
  query(
    Schema.Struct({
      ...TaskSummary.fields,
      ...TaskHead.fields,
      turn: Schema.NullOr(turn),
      turnBytes: Schema.Int
    }),
    select(
      `${taskColumns}, ${selected} AS turn,
      coalesce(octet_length(turn), 0) AS "turnBytes"`,
      "tasks LEFT JOIN task_turns ON task_uuid = uuid"
    )
  )

export const withSmallTurns = tasksById(
  OpaqueJson.OpaqueJson,
  `CASE WHEN octet_length(turn) <= ${Limits.smallText} THEN turn END`
)
const withTurns = tasksById(OpaqueJson.FromBytes, utf8("turn"))

const makeRead = <Row extends { readonly uuid: TaskId }>(
  select: (uuids: ReadonlyArray<TaskId>) => Effect.Effect<ReadonlyArray<Row>, StoreUnavailable>
) =>
  Batcher.make({
    turns,
    run: (uuids: ReadonlyArray<TaskId>) =>
      Effect.map(select([...new Set(uuids)]), (rows) => {
        const found = new Map<string, Row>(rows.map((row) => [row.uuid, row]))
        // The database writes ids in lower case.
        return uuids.map((uuid) => Option.fromNullishOr(found.get(uuid.toLowerCase())))
      })
  })

const eventsAfter = query(
  RecordedEvent,
  `SELECT 0 AS revision, 'Created' AS type, 'pending' AS status, ${micros("created_at")} AS "occurredAt", NULL AS author
  FROM tasks WHERE uuid = $1 AND $2::int < 0
  UNION ALL
  SELECT revision, type, status, ${micros("occurred_at")}, actor FROM task_events
  WHERE task_uuid = $1 AND revision > $2::int ORDER BY revision LIMIT $3::int`
)

const PendingRunRow = Schema.Struct({
  sub: Schema.String,
  tokenId: Schema.String,
  /** Seconds, as in the token. */
  issuedAt: Schema.NullOr(Schema.Finite),
  runId: RunId,
  deadline: Timestamp,
  request: OpaqueJson.FromBytes,
  userToken: Schema.String,
  state: Schema.NullOr(OpaqueJson.FromBytes),
  results: Schema.NullOr(OpaqueJson.FromBytes)
})

const pendingRun = query(
  PendingRunRow,
  `SELECT sub, token_id AS "tokenId", extract(epoch FROM token_issued_at)::float8 AS "issuedAt", run_id AS "runId",
    ${micros("deadline_at")} AS deadline, user_token AS "userToken", ${utf8("request")} AS request,
    ${utf8("core_state")} AS state, ${utf8("tool_results")} AS results
  FROM tasks JOIN task_requests ON task_uuid = uuid WHERE uuid = $1 AND ${isRunning}`
)

const runOf = ({ issuedAt, results, state, sub, tokenId, ...run }: typeof PendingRunRow.Type): PendingRun => ({
  ...run,
  principal: { sub, tokenId, issuedAt },
  resume: results === null ? null : { state, results }
})

const turnById = query(
  Schema.Struct({ turn: OpaqueJson.FromBytes }),
  `SELECT ${utf8("turn")} AS turn FROM task_turns WHERE task_uuid = $1`
)

const metadataById = query(
  Schema.Struct({ uuid: TaskId, metadata: Metadata.FromJson }),
  `SELECT uuid, metadata::text AS metadata FROM task_metadata JOIN tasks ON uuid = task_uuid
  WHERE task_uuid = ANY($2::uuid[]) AND sub = $1`
)

const storedRequest = query(
  Schema.Struct({
    ...KeptFields.fields,
    metadata: Schema.NullOr(Metadata.FromJson),
    request: OpaqueJson.OpaqueJson
  }),
  `SELECT ${keptColumns}, request,
    (SELECT metadata FROM task_metadata WHERE task_uuid = uuid)::text AS metadata
  FROM tasks JOIN task_requests ON task_uuid = uuid
  WHERE uuid = $1 AND octet_length(request) <= ${Limits.keptRequestBytes}`
)

const usedKey = query(
  UsedKey,
  `SELECT fingerprint, task_uuid AS "taskId" FROM idempotency_keys
  WHERE sub = $1 AND key = $2 AND expires_at > ${moment("$3")}`
)

export const make = Effect.gen(function*() {
  const { first, rows } = yield* makeQueries
  const head = yield* makeRead((uuids) => rows(headsById, [uuids]))
  const outline = yield* makeRead((uuids) => rows(withSmallTurns, [uuids]))
  const list = yield* ListReader.make
  const { assistants, excerpts, search } = yield* TaskSearch.make

  const get: Store["get"] = Effect.fnUntraced(function*(uuid) {
    const small = yield* outline(uuid)
    const found = Option.isSome(small) && small.value.turnBytes > Limits.smallText
      ? yield* first(withTurns, [[uuid]])
      : small
    return Option.map(found, (row) => {
      const { turnBytes: _, ...task } = row
      return task
    })
  })

  return partOf({
    get,
    outline,
    turn: (uuid) => Effect.map(first(turnById, [uuid]), Option.map(({ turn }) => turn)),
    heads: ([uuid, ...others]) => {
      if (uuid === undefined) return Effect.succeed([])
      return others.length === 0 ? Effect.map(head(uuid), Option.toArray) : rows(headsById, [[uuid, ...others]])
    },
    list,
    metadata: (sub, uuids) =>
      Effect.map(
        rows(metadataById, [sub, uuids]),
        (found) => new Map(found.map(({ metadata, uuid }) => [uuid, metadata]))
      ),
    assistants,
    excerpts,
    search,
    storedRequest: (uuid) => first(storedRequest, [uuid]),
    eventsAfter: (uuid, revision, limit) => rows(eventsAfter, [uuid, revision, limit]),
    pendingRun: (uuid) => Effect.map(first(pendingRun, [uuid]), Option.map(runOf)),
    usedKey: (sub, key, at) => first(usedKey, [sub, key, at])
  })
})
