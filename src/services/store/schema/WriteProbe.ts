/** Writes a task and takes the write back: it fails whenever a task cannot be written, and leaves nothing that others could see. */
export const writeProbe = `DO $$
DECLARE
  probe uuid := gen_random_uuid();
BEGIN
  INSERT INTO tasks (uuid, sub, run_id, max_execution_time, created_at, deadline_at, token_id, assistant_id)
  VALUES (probe, '', probe, 1, now(), now(), '', 1);
  INSERT INTO task_requests (task_uuid, request, user_token) VALUES (probe, '', '');
  UPDATE tasks SET revision = 1 WHERE uuid = probe;
  RAISE SQLSTATE 'PROBE';
EXCEPTION WHEN SQLSTATE 'PROBE' THEN
END $$`
