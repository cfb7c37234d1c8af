/**
 * Fills the table `tasks` as months of use would: rows of many users interleaved in time, nearly all of them terminal.
 * Other tables stay empty, because a list does not read them.
 */
import { createHash } from "node:crypto"
import type postgres from "postgres"

const tasksOfOthers = 100

/** A user id of the usual length, because every index entry contains it. */
export const subOf = (user: number) => {
  const digest = createHash("md5").update(String(user)).digest("hex")
  return digest.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5")
}

/** Inserts `rows` tasks in order of creation. `ofUser` of them, spread evenly, belong to `subOf(0)`. */
export const fill = async (sql: postgres.Sql, rows: number, ofUser: number) => {
  const step = Math.floor(rows / ofUser)
  const others = Math.ceil(rows / tasksOfOthers)
  await sql.unsafe(`
    INSERT INTO tasks (
      uuid, sub, status, revision, run_id, error, pending_tool_calls, max_execution_time,
      created_at, completed_at, deadline_at, token_id, token_issued_at, assistant_id
    )
    SELECT
      uuidv7(created_at - clock_timestamp()), md5(owner::text)::uuid::text, status, 2, gen_random_uuid(),
      CASE status WHEN 'failed' THEN 'Task processing failed' WHEN 'canceled' THEN 'No longer needed' END,
      CASE status WHEN 'interrupted' THEN '[{"id":"call-1","name":"look_up","arguments":{"key":"value"}}]' END,
      86400, created_at, CASE WHEN status <> 'interrupted' THEN created_at + interval '20 seconds' END,
      created_at + interval '1 day', 'token', created_at, 1
    FROM (
      SELECT
        CASE WHEN n % ${step} = 0 THEN 0 ELSE 1 + abs(hashint4(n)::bigint) % ${others} END AS owner,
        CASE
          WHEN n > ${rows - 3 * step} THEN 'interrupted'
          WHEN abs(hashint4(n + 1)::bigint) % 100 < 90 THEN 'completed'
          WHEN abs(hashint4(n + 1)::bigint) % 100 < 95 THEN 'failed'
          ELSE 'canceled'
        END AS status,
        now() - interval '30 days' * (1 - n::float8 / ${rows}) AS created_at
      FROM generate_series(1, ${rows}) AS n
    ) AS drawn`)
  await sql.unsafe("VACUUM (ANALYZE) tasks")
}
