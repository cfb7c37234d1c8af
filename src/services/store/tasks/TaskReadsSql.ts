/** Reads of tasks in Postgres. */
import { Effect, Layer, Option, Schema } from "effect"
import * as OpaqueJson from "../../../domain/json/OpaqueJson.ts"
import * as Limits from "../../../domain/Limits.ts"
import * as Metadata from "../../../domain/Metadata.ts"
import { RunId, TaskHead, TaskId } from "../../../domain/Task.ts"
import { KeptFields } from "../../../domain/TaskRequest.ts"
import { Timestamp } from "../../../domain/Timestamp.ts"
import { make as makeQueries, micros, moment, query, utf8 } from "../sql/Queries.ts"
import * as ListReader from "./ListReader.ts"
import * as ReadBatcher from "./ReadBatcher.ts"
import { headColumns, isRunning, keptColumns } from "./TaskColumns.ts"
import { Claimed, type PendingRun, RecordedEvent, TaskReads } from "./TaskReads.ts"
import * as TaskSearch from "./TaskSearch.ts"

const headsById = query(TaskHead, `SELECT ${headColumns} FROM tasks WHERE uuid = ANY($1::uuid[])`)

const eventsAfter = query(
  RecordedEvent,
  `SELECT 0 AS revision, 'Created' AS type, 'pending' AS status, ${micros("created_at")} AS "occurredAt", NULL AS actor
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

const claimOfKey = query(
  Claimed,
  `SELECT fingerprint, task_uuid AS "taskId" FROM idempotency_keys
  WHERE sub = $1 AND key = $2 AND expires_at > ${moment("$3")}`
)

export const layer = Layer.effect(
  TaskReads,
  Effect.gen(function*() {
    const { first, rows } = yield* makeQueries
    const { get, head, outline } = yield* ReadBatcher.make
    const list = yield* ListReader.make
    const { assistants, excerpts, search } = yield* TaskSearch.make
    return TaskReads.of({
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
      claimed: (sub, key, at) => first(claimOfKey, [sub, key, at])
    })
  })
)
