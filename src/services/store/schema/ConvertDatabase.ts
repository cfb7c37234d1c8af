/**
 * Converts a database that was made before the first release, at the last of its migrations, instead of creating the schema. No node of
 * that time may run meanwhile. This file goes when no such database is left.
 */
import { Effect, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { query } from "../sql/Queries.ts"
import { labelOf } from "../tasks/ListStatement.ts"
import { taskLabels, usageColumns, usageOutbox, webhookQueues } from "./0001_schema.ts"

/** The table that recorded the migrations before the first release. */
export const oldLedger = "async_task_service_migrations"
const last = 18

export const selectOldVersion = query(
  Schema.Struct({ version: Schema.Int }),
  `SELECT coalesce(max(migration_id), 0)::int AS version FROM ${oldLedger}`
)

/** Why a database at a version of the old ledger cannot be converted. */
export const problemOf = (version: number): string | undefined =>
  version === last
    ? undefined
    : `it was made before the first release and is at migration ${version}, of which only ${last} can be converted: `
      + (version < last ? "start the last version before the first release on it once" : "it is of another version")

export class NotConvertible extends Schema.TaggedError<NotConvertible>()("NotConvertible", {
  message: Schema.String
}) {}

/** Whether the database has to be converted. */
export const isNeeded = Effect.fnUntraced(function*(sql: SqlClient.SqlClient) {
  const found = yield* sql`SELECT FROM pg_class WHERE relname = ${oldLedger} AND pg_table_is_visible(oid)`
  if (found.length === 0) return false
  const [row] = selectOldVersion.decode(yield* sql.unsafe(selectOldVersion.text))
  const problem = problemOf(row?.version ?? 0)
  if (problem !== undefined) return yield* new NotConvertible({ message: `The database cannot be used: ${problem}` })
  return true
})

/** The indexes that were built after the migrations, where a build may have been cut off. */
const built: Readonly<Record<string, string>> = {
  tasks_running: "tasks (uuid) WHERE status IN ('pending', 'processing')",
  tasks_list: "tasks (sub, created_at DESC, uuid DESC) INCLUDE (status)",
  tasks_ended: "tasks (completed_at) WHERE completed_at IS NOT NULL",
  tasks_token: "tasks (token_id) WHERE status = 'processing'"
}

export const statements: ReadonlyArray<string> = [
  `DO $$
  DECLARE
    old record;
  BEGIN
    FOR old IN
      SELECT indexrelid::regclass AS name FROM pg_index
      WHERE NOT indisvalid AND indrelid IN ('tasks'::regclass, 'webhook_deliveries'::regclass)
    LOOP
      EXECUTE 'DROP INDEX ' || old.name;
    END LOOP;
  END $$`,
  ...Object.entries(built).map(([name, definition]) => `CREATE INDEX IF NOT EXISTS ${name} ON ${definition}`),
  `DROP INDEX IF EXISTS tasks_live, tasks_of_user, tasks_created`,
  `ALTER TABLE tasks RESET (fillfactor)`,
  `ALTER TABLE tasks ADD COLUMN assistant_id bigint, ADD COLUMN resumed_at timestamptz,
    ADD COLUMN silence_from timestamptz, ADD COLUMN silent_since timestamptz, ADD COLUMN hand_overs integer,
    ${usageColumns.map((column) => `ADD COLUMN ${column}`).join(", ")}`,
  // Requests begin with it. The text may have escapes that JSON in Postgres refuses.
  `UPDATE tasks SET assistant_id = substring(left(request, 64) FROM '^[{]"assistant_id":([0-9]+)[,}]')::bigint
  FROM task_requests WHERE task_uuid = uuid`,
  `DROP INDEX task_metadata_by_user`,
  `ALTER TABLE task_metadata ADD COLUMN metadata jsonb`,
  `UPDATE task_metadata SET metadata = by_user -> sub FROM tasks WHERE uuid = task_uuid`,
  `ALTER TABLE task_metadata ALTER COLUMN metadata SET NOT NULL, DROP COLUMN by_user`,
  usageOutbox,
  ...taskLabels,
  `INSERT INTO task_labels
  SELECT ${labelOf("sub", "key", "value")}, created_at, uuid
  FROM task_metadata JOIN tasks ON uuid = task_uuid, jsonb_each_text(metadata)`,
  `ALTER TABLE webhook_deliveries ADD COLUMN sub text, ADD COLUMN is_proven boolean NOT NULL DEFAULT false`,
  `UPDATE webhook_deliveries SET sub = coalesce((SELECT sub FROM tasks WHERE uuid = task_uuid), '')`,
  `ALTER TABLE webhook_deliveries ALTER COLUMN sub SET NOT NULL`,
  `DROP INDEX webhook_deliveries_due`,
  ...webhookQueues,
  `DROP TABLE ${oldLedger}, recovery_trials`
]
