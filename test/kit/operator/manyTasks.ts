/** Tasks of many users, stored without the service: creating them through it would take minutes. */
import type { OpenDatabase } from "../databases.ts"

/** `count` tasks of `users` users that the core works on. */
export const insertLive = (database: OpenDatabase, count: number, users: number, prefix = "live") =>
  database.query(`
    INSERT INTO tasks (uuid, sub, status, revision, run_id, max_execution_time, created_at, last_event_at, deadline_at, token_id, assistant_id)
    SELECT gen_random_uuid(), '${prefix}-' || n % ${users}, 'processing', 1, gen_random_uuid(), 86400,
      now() - interval '1 hour' - n * interval '1 millisecond', now(), now() + interval '1 day', 'token', 1
    FROM generate_series(1, ${count}) AS n`)

/** `count` failed tasks of `users` users, whose requests are kept, and their events. */
export const insertFailed = (database: OpenDatabase, count: number, users: number, prefix = "many") =>
  database.query(`
    WITH made AS (
      INSERT INTO tasks (uuid, sub, status, revision, run_id, error, max_execution_time, created_at, completed_at, deadline_at, token_id, assistant_id)
      SELECT gen_random_uuid(), '${prefix}-' || n % ${users}, 'failed', 2, gen_random_uuid(), 'HTTP 500 from model ' || n, 60,
        now() - interval '1 hour' - n * interval '1 millisecond', now() - interval '30 minutes' - n * interval '1 millisecond', now(), 'token', 1
      FROM generate_series(1, ${count}) AS n RETURNING uuid, completed_at
    ), requests AS (
      INSERT INTO task_requests (task_uuid, request, user_token)
      SELECT uuid, '{"assistant_id":1,"input":[{"type":"text","text":"' || uuid || '"}],"turns":[],"client_tools":[],"llm_model_id":null,"image_generator_id":null}', ''
      FROM made
    )
    INSERT INTO task_events (task_uuid, revision, type, status, occurred_at) SELECT uuid, 2, 'Failed', 'failed', completed_at FROM made`)
