/** Parts of the guarded statement of a task event that write its webhooks: common table expressions over `moved`. */
import { moment } from "./Queries.ts"

type Bind = (name: string, type: string) => string

/** Inserts the delivery of the change if the task has a `callback_url`. */
export const enqueue = ($: Bind): string =>
  `webhook AS (
        INSERT INTO webhook_deliveries (
          task_uuid, revision, status, url, origin, pending_tool_calls, signed, callback_secret, created_at, due_at
        )
        SELECT m.uuid, m.revision, m.status, m.callback_url,
          regexp_replace(m.callback_url, '^(\\w+://)(?:[^/?#]*@)?([^/?#]*).*$', '\\1\\2'),
          m.pending_tool_calls, r.callback_secret IS NOT NULL, r.callback_secret,
          ${moment($("at", "float8"))}, ${moment($("at", "float8"))}
        FROM moved m LEFT JOIN task_requests r ON r.task_uuid = m.uuid WHERE m.callback_url IS NOT NULL)`

/** Copies a turn that is about to be replaced into the deliveries that report it. */
export const keepTurn = ($: Bind): string =>
  `kept AS (
        UPDATE webhook_deliveries d
        SET turn = coalesce((SELECT turn FROM task_turns t WHERE t.task_uuid = d.task_uuid), 'null')
        FROM moved WHERE d.task_uuid = moved.uuid AND moved.callback_url IS NOT NULL
          AND d.status = 'interrupted' AND d.turn IS NULL AND ${$("turn", "bytea")} IS NOT NULL)`
