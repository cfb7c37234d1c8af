/**
 * Builds the guarded statement that commits a task event. It updates the task and, in the same statement, inserts the
 * event row, the turn and the outbox rows (stop, webhook), and deletes the stored request at the end. Its text depends
 * only on the event's tag.
 */
import { Record, Schema } from "effect"
import {
  activeStatuses,
  isTerminal,
  needsValidToken,
  sourcesOf,
  stopReasonOf,
  targetOf,
  TaskEvent,
  type TaskEventTag,
  TaskHead,
  type TaskStatus
} from "../../domain/Task.ts"
import * as TaskShard from "../../domain/TaskShard.ts"
import { sendsWebhook } from "../../domain/Webhook.ts"
import { micros, moment, type Query, query } from "./Queries.ts"
import * as WebhookOutbox from "./WebhookOutbox.ts"

/** Named parameters of a statement. */
export type Bindings = Readonly<Record<string, string | number | Uint8Array | null | undefined>>

interface Statement<Row> extends Query<Row> {
  readonly bind: (values: Bindings) => ReadonlyArray<unknown>
}

/** The columns of a `TaskHead`. */
export const headColumns = `uuid, sub, status, revision, run_id AS "runId", max_execution_time AS "maxExecutionTime",
  ${micros("deadline_at")} AS deadline, ${micros("acceptance_deadline_at")} AS "acceptanceDeadline"`

export const inStatuses = (statuses: ReadonlyArray<TaskStatus>) =>
  `status IN (${statuses.map((status) => `'${status}'`).join(", ")})`

export const isLive = inStatuses(activeStatuses)

/** `TaskShard.of` in SQL. */
export const shardOf = (uuid: string) => `(('x' || right(${uuid}::text, 4))::bit(16)::int % ${TaskShard.count})`

/** True when the task's token is revoked. */
const isRevoked = `(EXISTS (SELECT FROM token_revocations r WHERE r.token_id = tasks.token_id) OR EXISTS (
          SELECT FROM token_revocations r WHERE r.sub = tasks.sub
            AND (tasks.token_issued_at IS NULL OR tasks.token_issued_at < r.issued_before)))`

type Placeholder = (name: string, type: string) => string

/** A text bound as UTF-8 bytes, so that the driver does not encode a large one in a single turn of the event loop. */
const textOf = ($: Placeholder, name: string) => `convert_from(${$(name, "bytea")}, 'UTF8')`

const build = <Row extends Schema.ConstraintDecoder<unknown>>(
  row: Row,
  write: ($: Placeholder) => string
): Statement<Row["Type"]> => {
  const names: Array<string> = []
  const text = write((name, type) => {
    if (!names.includes(name)) names.push(name)
    return `$${names.indexOf(name) + 1}::${type}`
  })
  return { ...query(row, text), bind: (values) => names.map((name) => values[name] ?? null) }
}

const Moved = Schema.Struct({ ...TaskHead.fields, sendsWebhook: Schema.Boolean })

/** Events of client requests, which may claim an idempotency key. */
const claimable: ReadonlySet<TaskEventTag> = new Set(["ToolResultsSubmitted", "Canceled"])

/** `which` selects the tasks. Each effect is a common table expression over `moved`. */
const changeStatement = (tag: TaskEventTag, which: ($: Placeholder) => string) => {
  const target = targetOf(tag)
  const terminal = isTerminal(target)
  const stopReason = stopReasonOf(tag)
  const carriesTurn = "turn" in TaskEvent.cases[tag].fields
  return build(Moved, ($) => {
    const at = moment($("at", "float8"))
    const sets = [`status = '${target}'`, "revision = revision + 1", `error = ${$("error", "text")}`]
    sets.push(`pending_tool_calls = ${target === "interrupted" ? $("pendingToolCalls", "text") : "NULL"}`)
    if (terminal) sets.push(`completed_at = ${at}`)
    if (tag === "ToolResultsSubmitted") {
      sets.push(
        `run_id = ${$("newRunId", "uuid")}`,
        `token_id = ${$("tokenId", "text")}`,
        `token_issued_at = to_timestamp(${$("tokenIssuedAt", "float8")})`
      )
    }

    const effects = [
      `event AS (
        INSERT INTO task_events (task_uuid, revision, type, status, occurred_at, core_event_id)
        SELECT uuid, revision, '${tag}', status, ${at}, ${$("coreEventId", "text")} FROM moved)`
    ]
    if (carriesTurn) {
      effects.push(`turn AS (
        INSERT INTO task_turns (task_uuid, turn) SELECT uuid, ${textOf($, "turn")} FROM moved
        WHERE ${$("turn", "bytea")} IS NOT NULL
        ON CONFLICT (task_uuid) DO UPDATE SET turn = EXCLUDED.turn)`)
      effects.push(WebhookOutbox.keepTurn($))
    }
    if (sendsWebhook(target)) effects.push(WebhookOutbox.enqueue($))
    if (terminal) {
      effects.push(`request AS (DELETE FROM task_requests r USING moved WHERE r.task_uuid = moved.uuid)`)
    } else if (tag === "Interrupted") {
      effects.push(`request AS (
        UPDATE task_requests r SET core_state = ${textOf($, "coreState")}, tool_results = NULL
        FROM moved WHERE r.task_uuid = moved.uuid)`)
    } else if (tag === "ToolResultsSubmitted") {
      effects.push(`request AS (
        UPDATE task_requests r SET tool_results = ${textOf($, "toolResults")}, user_token = ${$("userToken", "text")}
        FROM moved WHERE r.task_uuid = moved.uuid)`)
    }
    if (stopReason !== undefined) {
      effects.push(`stop AS (
        INSERT INTO core_stops (run_id, task_uuid, reason, due_at)
        SELECT run_id, uuid, '${stopReason}', ${at} FROM moved ON CONFLICT DO NOTHING)`)
    }
    if (claimable.has(tag)) {
      effects.push(`claim AS (
        INSERT INTO idempotency_keys (sub, key, fingerprint, task_uuid, expires_at)
        SELECT sub, ${$("key", "text")}, ${$("fingerprint", "text")}, uuid, ${moment($("keyExpiresAt", "float8"))}
        FROM moved WHERE ${$("key", "text")} IS NOT NULL
        ON CONFLICT (sub, key) DO UPDATE SET
          fingerprint = EXCLUDED.fingerprint, task_uuid = EXCLUDED.task_uuid, expires_at = EXCLUDED.expires_at)`)
    }
    return `WITH moved AS (
        UPDATE tasks SET ${sets.join(", ")}
        WHERE ${which($)} AND ${inStatuses(sourcesOf(tag))}${needsValidToken(tag) ? ` AND NOT ${isRevoked}` : ""}
        RETURNING *),
      ${effects.join(",\n      ")}
      SELECT ${headColumns}, ${
      sendsWebhook(target) ? "callback_url IS NOT NULL" : "false"
    } AS "sendsWebhook" FROM moved`
  })
}

const byTag = Record.map(TaskEvent.cases, (_, tag) =>
  changeStatement(tag, ($) =>
    `uuid = ${$("uuid", "uuid")}
        AND (${$("runId", "uuid")} IS NULL OR run_id = ${$("runId", "uuid")})
        AND NOT EXISTS (
          SELECT FROM task_events WHERE task_uuid = ${$("uuid", "uuid")} AND core_event_id = ${
      $("coreEventId", "text")
    })`))

/** Commits one event to one task, if status and run allow it. A repeated core event changes nothing. */
export const commitStatement = (tag: TaskEventTag) => byTag[tag]

/** Cancels all interrupted tasks of a user. */
export const cancelInterrupted = changeStatement("Canceled", ($) => `sub = ${$("sub", "text")}`)

/** Uses the database's clock, which also timestamps the revocations. */
const since = ($: Placeholder) =>
  `coalesce(statement_timestamp() - make_interval(secs => ${$("within", "float8")}), '-infinity')`

/** At most `limit` processing tasks whose token was revoked in the last `within` seconds. */
export const revoked = build(TaskHead, ($) =>
  `SELECT ${headColumns} FROM tasks WHERE uuid IN (
      SELECT t.uuid FROM token_revocations r JOIN tasks t ON t.token_id = r.token_id
      WHERE r.revoked_at >= ${since($)} AND t.status = 'processing'
      UNION
      SELECT t.uuid FROM token_revocations r JOIN tasks t ON t.sub = r.sub
        AND (t.token_issued_at IS NULL OR t.token_issued_at < r.issued_before)
      WHERE r.revoked_at >= ${since($)} AND t.status = 'processing'
      LIMIT ${$("limit", "int")}
    ) AND status = 'processing'`)

/** The head of a task that a commit did not change, and possible reasons: a repeated event, a revoked token. */
export const currentState = build(
  Schema.Struct({ ...TaskHead.fields, repeated: Schema.Boolean, revoked: Schema.Boolean }),
  ($) =>
    `SELECT ${headColumns}, EXISTS (
      SELECT FROM task_events WHERE task_uuid = ${$("uuid", "uuid")} AND core_event_id = ${$("coreEventId", "text")}
    ) AS repeated, ${isRevoked} AS revoked
  FROM tasks WHERE uuid = ${$("uuid", "uuid")}`
)
