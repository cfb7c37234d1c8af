/**
 * The functions of the database, each with one definition: every migration replaces them all. They take a batch: an array for each
 * argument, with an element for each row, and return the outcomes in the same order. Postgres prepares a statement anew whenever it
 * runs, which costs more than a row. They are called with named arguments, so that from 0.1.0 on nodes of the release before can still call
 * them: a new argument has a default, and a function that another one replaces stays for a release.
 */
import { Duration, Record } from "effect"
import * as Limits from "../../../domain/Limits.ts"
import {
  isTerminal,
  needsValidToken,
  sourcesOf,
  stopReasonOf,
  targetOf,
  TaskEvent,
  type TaskEventTag,
  TaskStatus,
  usualPriority
} from "../../../domain/Task.ts"
import { sendsWebhook } from "../../../domain/Webhook.ts"
import { resumedClass } from "../queue/RunQueue.ts"
import { labelOf } from "../tasks/ListStatement.ts"
import { given, isLive, notEnded } from "../tasks/TaskColumns.ts"
import {
  byIndex,
  functions as queueFunctions,
  lockUsers,
  names as queueFunctionNames,
  someLimits
} from "./QueueFunctions.ts"

/** A lookup in the index for each row. To read the whole index and compare looks as cheap while the table is nearly empty, and `=` allows it. */
const is = (column: string, value: string) => `${column} = ANY (ARRAY[${value}])`

/** Keeps the planner from copying the expressions of a subquery to each place that uses its columns: to prepare them is most of a call. */
const once = "OFFSET 0"

/** Whether an array has an element that is not null. */
const hasAny = (array: string) => `array_remove(${array}, NULL) <> '{}'`

/** Values of new tasks that are not the argument itself. The acceptance deadline of a run that waits is set when it is dispatched. */
const valuesOfNew: Readonly<Record<string, string>> = {
  priority: `coalesce(p_priority[n], ${usualPriority})`,
  acceptance_deadline_at: "CASE WHEN rooms[n] = 'waiting' THEN NULL ELSE p_acceptance_deadline_at[n] END"
}

/**
 * Answers repeated keys, checks the limit of active tasks and inserts, in one round trip and atomically per user. The rows of a
 * user follow one another and have the same limit. A row that waits is put into the queue, and so is one that a limit counts and that has
 * no room.
 */
const createTasks = `CREATE FUNCTION create_tasks(
  p_request text[], p_user_token text[], p_callback_secret text[], p_metadata jsonb[], p_max_active integer[],
  p_key text[], p_fingerprint text[], p_key_expires_at timestamptz[],
  ${given.map(({ name, type }) => `p_${name} ${type}[] DEFAULT NULL`).join(", ")},
  p_waits boolean[] DEFAULT NULL, p_core_runs integer[] DEFAULT NULL, p_assistant_runs integer[] DEFAULT NULL,
  p_spared integer[] DEFAULT NULL
) RETURNS TABLE (outcome text, task_uuid uuid, room text, maximum integer) ${byIndex} AS $$
#variable_conflict use_column
DECLARE
  outcomes text[];
  uuids uuid[] := p_uuid;
  counts integer[];
  maxima integer[];
  active integer;
  claims uuid[];
  fingerprints text[];
  leaders integer[];
  leader integer;
  firsts integer[];
  rooms text[];
BEGIN
  ${lockUsers};
  IF ${hasAny("p_key")} THEN
    SELECT array_agg(claim ORDER BY n), array_agg(fingerprint ORDER BY n), array_agg(leader ORDER BY n),
      array_agg(first ORDER BY n)
    INTO claims, fingerprints, leaders, firsts FROM (
      SELECT n, claimed.task_uuid AS claim, claimed.fingerprint, CASE WHEN p_key[n] IS NOT NULL
        THEN min(n) FILTER (WHERE claimed.task_uuid IS NULL) OVER (PARTITION BY p_sub[n], p_key[n]) END AS leader,
        min(n) FILTER (WHERE claimed.task_uuid IS NULL) OVER (PARTITION BY p_sub[n]) AS first
      FROM generate_subscripts(p_uuid, 1) AS n LEFT JOIN LATERAL (
        SELECT * FROM (
          SELECT * FROM idempotency_keys k WHERE k.sub = p_sub[n] AND k.key = p_key[n] LIMIT 1
        ) AS kept WHERE expires_at > p_created_at[n]
      ) AS claimed ON true
    ) AS known;
  END IF;
  -- Few users have a limit of their own, and the table is mostly empty.
  SELECT array_agg(coalesce((SELECT max_active_tasks FROM user_limits u WHERE u.sub = p_sub[n]), p_max_active[n]) ORDER BY n)
  INTO maxima FROM generate_subscripts(p_uuid, 1) AS n;
  -- Once for each user with a row that is no replay: entries of ended tasks, which a long transaction keeps, make a count slow.
  SELECT array_agg(CASE WHEN coalesce(firsts[n] = n, firsts IS NULL AND p_sub[n] IS DISTINCT FROM p_sub[n - 1]) THEN (
      SELECT count(*) FROM (
        SELECT FROM tasks WHERE sub = p_sub[n] AND ${notEnded} LIMIT maxima[n]
      ) AS found
    ) END ORDER BY n)
  INTO counts FROM generate_subscripts(p_uuid, 1) AS n;
  FOR n IN 1 .. cardinality(p_uuid) LOOP
    active := coalesce(counts[n], active);
    leader := coalesce(leaders[n], n);
    IF claims[n] IS NOT NULL THEN
      uuids[n] := claims[n];
      outcomes[n] := CASE WHEN fingerprints[n] = p_fingerprint[n] THEN 'replayed' ELSE 'key_reused' END;
    ELSIF leader < n THEN
      -- The first of the rows with one key decides for the others.
      uuids[n] := p_uuid[leader];
      outcomes[n] := CASE
        WHEN outcomes[leader] <> 'created' THEN outcomes[leader]
        WHEN p_fingerprint[leader] = p_fingerprint[n] THEN 'replayed'
        ELSE 'key_reused' END;
    ELSIF active >= maxima[n] - coalesce(p_spared[n], 0) THEN
      outcomes[n] := 'too_many_active_tasks';
    ELSE
      outcomes[n] := 'created';
      active := active + 1;
    END IF;
  END LOOP;
  IF ${hasAny("p_key")} THEN
    -- A change of another task may have claimed the key since it was looked up.
    WITH claimed AS (
      INSERT INTO idempotency_keys (sub, key, fingerprint, task_uuid, expires_at)
      SELECT p_sub[n], p_key[n], p_fingerprint[n], p_uuid[n], p_key_expires_at[n]
      FROM generate_subscripts(p_uuid, 1) AS n WHERE outcomes[n] = 'created' AND p_key[n] IS NOT NULL
      ON CONFLICT (sub, key) DO UPDATE SET
        fingerprint = EXCLUDED.fingerprint, task_uuid = EXCLUDED.task_uuid, expires_at = EXCLUDED.expires_at
      WHERE idempotency_keys.expires_at <= p_created_at[array_position(p_uuid, EXCLUDED.task_uuid)]
      RETURNING task_uuid
    )
    SELECT array_agg(CASE WHEN outcomes[n] IN ('created', 'replayed') AND p_key[n] IS NOT NULL AND claims[n] IS NULL
      AND NOT EXISTS (SELECT FROM claimed c WHERE c.task_uuid = uuids[n]) THEN 'key_reused' ELSE outcomes[n] END ORDER BY n)
    INTO outcomes FROM generate_subscripts(p_uuid, 1) AS n;
  END IF;
  IF p_core_runs[1] IS NOT NULL OR p_assistant_runs[1] IS NOT NULL OR true = ANY (p_waits)
    OR EXISTS (SELECT FROM ${someLimits} AS l) THEN
    rooms := take_room(
      ARRAY(SELECT CASE WHEN outcomes[n] = 'created' THEN p_assistant_id[n] END FROM generate_subscripts(p_uuid, 1) AS n ORDER BY n),
      p_waits, p_core_runs[1], p_assistant_runs[1]
    );
  END IF;
  INSERT INTO tasks (${given.map(({ name }) => name).join(", ")}, room)
  SELECT ${given.map(({ name }) => valuesOfNew[name] ?? `p_${name}[n]`).join(", ")}, rooms[n]
  FROM generate_subscripts(p_uuid, 1) AS n WHERE outcomes[n] = 'created';
  IF 'waiting' = ANY (rooms) THEN
    PERFORM enqueue_runs(
      ARRAY(SELECT CASE rooms[n] WHEN 'waiting' THEN p_uuid[n] END FROM generate_subscripts(p_uuid, 1) AS n ORDER BY n),
      p_assistant_id, p_sub, ARRAY(SELECT coalesce(p, ${usualPriority}) FROM unnest(p_priority) WITH ORDINALITY AS given (p, n) ORDER BY n),
      p_created_at
    );
  END IF;
  INSERT INTO task_requests (task_uuid, request, user_token, callback_secret)
  SELECT p_uuid[n], p_request[n], p_user_token[n], p_callback_secret[n]
  FROM generate_subscripts(p_uuid, 1) AS n WHERE outcomes[n] = 'created';
  IF ${hasAny("p_metadata")} THEN
    INSERT INTO task_metadata (task_uuid, metadata)
    SELECT p_uuid[n], p_metadata[n] FROM generate_subscripts(p_uuid, 1) AS n
    WHERE outcomes[n] = 'created' AND p_metadata[n] IS NOT NULL;
    INSERT INTO task_labels (label, created_at, task_uuid)
    SELECT ${labelOf("p_sub[n]", "key", "value")}, p_created_at[n], p_uuid[n]
    FROM generate_subscripts(p_uuid, 1) AS n CROSS JOIN LATERAL jsonb_each_text(p_metadata[n])
    WHERE outcomes[n] = 'created';
  END IF;
  RETURN QUERY SELECT outcomes[n], uuids[n], rooms[n], maxima[n] FROM generate_subscripts(p_uuid, 1) AS n ORDER BY n;
END $$`

const applied = "generate_subscripts(p_uuid, 1) AS n WHERE outcomes[n] = 'Applied'"

const isKept = `octet_length(r.request) <= ${Limits.keptRequestBytes}`

const events = Record.keys(TaskEvent.cases)

/** The SQL that tells whether a value is one of these. */
const isOneOf = (value: string, names: ReadonlyArray<string>) => `${value} = ANY ('{${names.join()}}')`

/** The SQL of a function of the event's type: null for the types for which it has no result. */
const caseOf = (of: (event: TaskEventTag) => string | undefined) => {
  const results = Map.groupBy(events.filter((event) => of(event) !== undefined), of)
  const arms = [...results].map(([result, types]) => `WHEN ${isOneOf("p_type[n]", types)} THEN '${result}'`)
  return `CASE ${arms.join(" ")} END`
}

const stopping = events.filter((event) => stopReasonOf(event) !== undefined)
const endStatuses = TaskStatus.literals.filter(isTerminal)
const keyTtl = Duration.toSeconds(Limits.idempotencyKeyTtl)

/** The statuses and events of `Task.transitions`, in pairs. */
const transitions = events.flatMap((event) => sourcesOf(event).map((status) => `"${status} ${event}"`))

/** The event that may be recorded together with the next one, before it. */
const first = "Accepted"
const [processing, interrupted] = [targetOf(first), targetOf("Interrupted")]

/**
 * Writes an event for each of different tasks, after its acceptance where that is recorded too and applies. The rules are those of
 * `domain/Task`. The locks come first, because a statement does not see what others committed while it waited. No task gets an event before
 * its creation has committed, so that none appears between the two. The events come last: what reads them as they are inserted sees what
 * they made of the tasks.
 */
const commitTasks = `CREATE FUNCTION commit_tasks(
  p_uuid uuid[], p_run_id uuid[], p_core_event_id text[], p_at timestamptz[], p_type text[], p_records_acceptance boolean[],
  p_error text[], p_pending_tool_calls text[], p_turn text[], p_report text[], p_core_state text[],
  p_new_run_id uuid[], p_tool_results text[], p_user_token text[], p_token_id text[], p_token_issued_at timestamptz[],
  p_key text[], p_fingerprint text[], p_waits boolean[] DEFAULT NULL, p_actor text[] DEFAULT NULL
) RETURNS TABLE (outcome text, head tasks, has_first boolean) ${byIndex} AS $$
#variable_conflict use_column
DECLARE
  outcomes text[];
  targets text[];
  ends boolean[];
  firsts boolean[];
  revisions integer[];
  signs boolean[];
  has_callback boolean;
  has_waited boolean;
  rooms text[];
BEGIN
  PERFORM FROM tasks t WHERE t.uuid = ANY (p_uuid) ORDER BY t.uuid FOR NO KEY UPDATE;
  SELECT array_agg(decided.outcome ORDER BY n), array_agg(target ORDER BY n),
    array_agg(${isOneOf("target", endStatuses)} ORDER BY n), array_agg(is_first ORDER BY n),
    array_agg(next_revision ORDER BY n), array_agg(is_sign ORDER BY n),
    coalesce(bool_or(callback_url IS NOT NULL AND decided.outcome = 'Applied'), false),
    bool_or(room = 'waiting' AND decided.outcome = 'Applied')
  INTO outcomes, targets, ends, firsts, revisions, signs, has_callback, has_waited
  FROM (
    SELECT n, is_first, t.callback_url, t.room, t.revision + CASE WHEN is_first THEN 2 ELSE 1 END AS next_revision,
      ${caseOf(targetOf)} AS target,
      p_core_event_id[n] IS NOT NULL AND t.status = '${processing}' AND t.run_id = p_run_id[n] AS is_sign, CASE
      WHEN t.uuid IS NULL THEN 'Unknown'
      WHEN t.completed_at IS NOT NULL THEN
        -- The index does not have the last event of a task.
        CASE WHEN (
          SELECT true FROM task_events e WHERE e.task_uuid = t.uuid AND e.revision = t.revision
            AND e.core_event_id = p_core_event_id[n] LIMIT 1
        ) OR was_recorded THEN 'NoEffect' ELSE 'Superseded' END
      WHEN was_recorded THEN 'NoEffect'
      WHEN t.run_id <> p_run_id[n] THEN 'Superseded'
      WHEN (CASE WHEN is_first THEN '${processing}' ELSE t.status END) || ' ' || p_type[n] <> ALL ('{${transitions.join()}}') THEN 'NoEffect'
      WHEN (p_records_acceptance[n] OR ${isOneOf("p_type[n]", events.filter(needsValidToken))}) AND (
        (SELECT true FROM token_revocations r WHERE r.token_id = t.token_id LIMIT 1) OR (
          SELECT true FROM token_revocations r WHERE r.sub = t.sub
            AND (t.token_issued_at IS NULL OR t.token_issued_at < r.issued_before) LIMIT 1)
      ) THEN 'Revoked'
      ELSE 'Applied' END AS outcome
    FROM unnest(p_uuid) WITH ORDINALITY AS wanted (uuid, n)
    LEFT JOIN LATERAL (SELECT * FROM tasks t WHERE t.uuid = wanted.uuid LIMIT 1) AS t ON true
    CROSS JOIN LATERAL (
      SELECT p_records_acceptance[n] AND coalesce(${isOneOf("t.status", sourcesOf(first))}, false) AS is_first, (
        SELECT true FROM task_events e WHERE e.task_uuid = t.uuid AND e.core_event_id = p_core_event_id[n]
          AND e.${isLive} LIMIT 1
      ) AS was_recorded
      ${once}
    ) AS known
    ${once}
  ) AS decided;

  IF ${hasAny("p_key")} THEN
    -- Of two requests with one key one takes effect, whatever their tasks are.
    WITH claimed AS (
      INSERT INTO idempotency_keys (sub, key, fingerprint, task_uuid, expires_at)
      SELECT t.sub, p_key[n], p_fingerprint[n], t.uuid, p_at[n] + interval '${keyTtl} seconds' FROM tasks t, ${applied}
        AND ${is("t.uuid", "p_uuid[n]")} AND p_key[n] IS NOT NULL
      ON CONFLICT (sub, key) DO UPDATE SET
        fingerprint = EXCLUDED.fingerprint, task_uuid = EXCLUDED.task_uuid, expires_at = EXCLUDED.expires_at
      WHERE idempotency_keys.expires_at <= EXCLUDED.expires_at - interval '${keyTtl} seconds'
      RETURNING task_uuid
    )
    SELECT array_agg(CASE WHEN outcomes[n] = 'Applied' AND p_key[n] IS NOT NULL
      AND NOT EXISTS (SELECT FROM claimed c WHERE c.task_uuid = p_uuid[n]) THEN 'NoEffect' ELSE outcomes[n] END ORDER BY n)
    INTO outcomes FROM generate_subscripts(p_uuid, 1) AS n;
  END IF;
  IF 'NoEffect' = ANY (outcomes) THEN
    -- An event that changes nothing is still a sign of life of its run.
    UPDATE tasks t SET resumed_at = NULL, last_event_at = p_at[n], hand_overs = NULL
    FROM generate_subscripts(p_uuid, 1) AS n
    WHERE outcomes[n] = 'NoEffect' AND signs[n] AND ${is("t.uuid", "p_uuid[n]")};
  END IF;
  IF has_callback THEN
    -- Copies the turns that are about to be replaced into the deliveries that report them.
    UPDATE webhook_deliveries d
    SET turn = coalesce((SELECT u.turn FROM task_turns u WHERE u.task_uuid = p_uuid[n]), 'null')
    FROM ${applied} AND p_turn[n] IS NOT NULL
      AND ${is("d.task_uuid", "p_uuid[n]")} AND d.status = '${interrupted}' AND d.turn IS NULL;
    INSERT INTO webhook_deliveries (
      task_uuid, revision, status, sub, url, origin, is_proven, pending_tool_calls, signed, callback_secret, created_at,
      due_at
    )
    SELECT t.uuid, revisions[n], targets[n], t.sub, t.callback_url, target.origin,
      EXISTS (SELECT FROM webhook_origins o WHERE o.origin = target.origin),
      p_pending_tool_calls[n], r.callback_secret IS NOT NULL, r.callback_secret, p_at[n], p_at[n]
    FROM generate_subscripts(p_uuid, 1) AS n JOIN tasks t ON ${is("t.uuid", "p_uuid[n]")}
    LEFT JOIN task_requests r ON ${is("r.task_uuid", "p_uuid[n]")}
    CROSS JOIN LATERAL (
      SELECT regexp_replace(t.callback_url, E'^(\\\\w+://)(?:[^/?#]*@)?([^/?#]*).*$', E'\\\\1\\\\2') AS origin
    ) AS target
    WHERE outcomes[n] = 'Applied' AND ${isOneOf("targets[n]", TaskStatus.literals.filter(sendsWebhook))}
      AND t.callback_url IS NOT NULL;
  END IF;
  IF ${hasAny("p_turn")} THEN
    INSERT INTO task_turns (task_uuid, turn)
    SELECT p_uuid[n], p_turn[n] FROM ${applied} AND p_turn[n] IS NOT NULL
    ON CONFLICT (task_uuid) DO UPDATE SET turn = EXCLUDED.turn;
  END IF;
  IF '${interrupted}' = ANY (targets) OR true = ANY (ends) OR ${hasAny("p_new_run_id")} THEN
    UPDATE task_requests r SET
      user_token = CASE WHEN ends[n] THEN '' ELSE coalesce(p_user_token[n], r.user_token) END,
      callback_secret = CASE WHEN NOT ends[n] THEN r.callback_secret END,
      core_state = CASE WHEN targets[n] = '${interrupted}' THEN p_core_state[n] WHEN NOT ends[n] THEN r.core_state END,
      tool_results = p_tool_results[n]
    FROM ${applied} AND ${is("r.task_uuid", "p_uuid[n]")}
      AND (targets[n] = '${interrupted}' OR p_new_run_id[n] IS NOT NULL OR (ends[n] AND ${isKept}));
    DELETE FROM task_requests r USING ${applied} AND ${is("r.task_uuid", "p_uuid[n]")} AND ends[n] AND NOT ${isKept};
  END IF;
  IF has_waited THEN
    DELETE FROM waiting_runs w USING ${applied} AND ${is("w.task_uuid", "p_uuid[n]")};
    -- The wait of a resumed run was no time of its core.
    UPDATE task_events e SET started_at = p_at[n] FROM generate_subscripts(p_uuid, 1) AS n JOIN tasks t ON ${
  is("t.uuid", "p_uuid[n]")
}
    WHERE outcomes[n] = 'Applied' AND t.room = 'waiting' AND ${
  is("e.task_uuid", "p_uuid[n]")
} AND e.revision = t.revision
      AND t.status = '${processing}';
  END IF;
  IF ${hasAny("p_new_run_id")} THEN
    SELECT array_agg(CASE WHEN p_new_run_id[n] IS NOT NULL AND outcomes[n] = 'Applied' AND (coalesce(p_waits[n], false) OR EXISTS (
      SELECT FROM ${someLimits} AS l JOIN tasks t ON t.assistant_id = l.assistant_id WHERE ${is("t.uuid", "p_uuid[n]")}
    )) THEN 'waiting' END ORDER BY n) INTO rooms FROM generate_subscripts(p_uuid, 1) AS n;
    PERFORM enqueue_runs(array_agg(t.uuid ORDER BY n), array_agg(t.assistant_id ORDER BY n), array_agg(t.sub ORDER BY n),
      array_agg(${resumedClass} ORDER BY n), array_agg(p_at[n] ORDER BY n))
    FROM generate_subscripts(p_uuid, 1) AS n JOIN tasks t ON ${is("t.uuid", "p_uuid[n]")} WHERE rooms[n] = 'waiting';
  END IF;
  IF p_type && '{${stopping.join()}}' THEN
    INSERT INTO core_stops (run_id, task_uuid, reason, due_at)
    SELECT t.run_id, t.uuid, ${caseOf(stopReasonOf)}, p_at[n] FROM tasks t, ${applied}
      AND ${is("t.uuid", "p_uuid[n]")} AND ${isOneOf("p_type[n]", stopping)}
    ON CONFLICT DO NOTHING;
  END IF;
  RETURN QUERY WITH written AS (
    UPDATE tasks t SET
      status = targets[n],
      revision = revisions[n],
      turn_revision = CASE WHEN p_turn[n] IS NULL THEN t.turn_revision ELSE revisions[n] END,
      error = p_error[n],
      pending_tool_calls = p_pending_tool_calls[n],
      completed_at = CASE WHEN ends[n] THEN p_at[n] END,
      run_id = coalesce(p_new_run_id[n], t.run_id),
      resumed_at = CASE WHEN p_new_run_id[n] IS NOT NULL THEN p_at[n] END,
      last_event_at = p_at[n],
      hand_overs = NULL,
      -- An event of a run that waits shows that the core has it.
      room = CASE WHEN p_new_run_id[n] IS NOT NULL THEN rooms[n] WHEN ends[n] OR targets[n] = '${interrupted}' THEN NULL
        WHEN t.room = 'waiting' THEN 'held' ELSE t.room END,
      token_id = CASE WHEN p_new_run_id[n] IS NULL THEN t.token_id ELSE p_token_id[n] END,
      token_issued_at = CASE WHEN p_new_run_id[n] IS NULL THEN t.token_issued_at ELSE p_token_issued_at[n] END
    FROM ${applied} AND ${is("t.uuid", "p_uuid[n]")} RETURNING t AS head, n
  )
  SELECT outcomes[n], head, firsts[n] FROM (
    SELECT n, head FROM written
    UNION ALL
    SELECT n, other.head FROM generate_subscripts(p_uuid, 1) AS n
    LEFT JOIN LATERAL (SELECT t AS head FROM tasks t WHERE t.uuid = p_uuid[n] LIMIT 1) AS other ON true
    WHERE outcomes[n] <> 'Applied'
  ) AS answered ORDER BY n;

  IF 'Applied' = ANY (outcomes) THEN
    INSERT INTO task_events (task_uuid, revision, type, status, occurred_at, core_event_id, report, actor)
    SELECT p_uuid[n], revisions[n] - 1, '${first}', '${processing}', p_at[n], NULL, NULL, NULL FROM ${applied} AND firsts[n]
    UNION ALL
    SELECT p_uuid[n], revisions[n], p_type[n], targets[n], p_at[n], p_core_event_id[n], p_report[n]::jsonb, p_actor[n]
    FROM ${applied};
  END IF;
END $$`

/** Drops what has one of their names, whatever its arguments: the definitions follow. */
const dropAll = `DO $$
DECLARE
  old record;
BEGIN
  FOR old IN
    SELECT oid::regprocedure AS name FROM pg_proc
    WHERE proname IN (${
  ["create_task", "commit_task", "create_tasks", "commit_tasks", ...queueFunctionNames].map((name) => `'${name}'`).join(
    ", "
  )
}) AND pg_function_is_visible(oid)
  LOOP
    EXECUTE 'DROP FUNCTION ' || old.name;
  END LOOP;
END $$`

export const functions: ReadonlyArray<string> = [
  dropAll,
  ...queueFunctions,
  createTasks,
  commitTasks
]
