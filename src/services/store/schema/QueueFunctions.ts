/**
 * The functions of the queue. What counts for the limits grows only in a transaction that holds the queue's lock, so that the limits are
 * exact over all nodes: new tasks wait for the lock, an admission leaves it to whoever has it. Entries that have left the queue stay in
 * its indexes beside an old snapshot: a search begins at a floor.
 */
import { resumedClass, risesAfter } from "../queue/RunQueue.ts"
import { shardOf } from "../tasks/TaskColumns.ts"

/** A session keeps the plans that it makes while tables are nearly empty: rows are found by indexes, whatever the planner knows. */
export const byIndex = `LANGUAGE plpgsql SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
  SET plan_cache_mode = force_generic_plan`

/** In the order of an index: a bitmap or a sort would read the whole queue for its first rows. */
const inOrder = `${byIndex} SET enable_bitmapscan = off SET enable_sort = off`

const queueLock = "hashtextextended('async-task-service/queue', 0)"

/** Locks users, whose tickets a statement gives: it has them in the order of their names. */
export const lockUsers =
  "PERFORM pg_advisory_xact_lock(hashtextextended('async-task-service:' || sub, 0)) FROM unnest(p_sub) AS sub"

const lastTicket = "(SELECT last_value FROM queue_tickets)"
const microsOf = (moment: string) => `(extract(epoch FROM ${moment}) * 1000000)::bigint`
/** In seconds: a transaction whose row has an earlier moment has committed. */
const longestCommit = 30

/** The limits that hold for an assistant, of those that say something. */
export const someLimits = "(SELECT * FROM assistant_limits WHERE runs IS NOT NULL OR is_paused)"

/**
 * Puts runs into the queue. A user's new run comes after its last one, and not before the users that were served: users take turns.
 * The caller has locked the users.
 */
const enqueue = `CREATE FUNCTION enqueue_runs(
  p_uuid uuid[], p_assistant_id bigint[], p_sub text[], p_class integer[], p_since timestamptz[]
) RETURNS void ${inOrder} AS $$
BEGIN
  INSERT INTO waiting_runs (task_uuid, assistant_id, sub, class, ticket, since)
  SELECT p_uuid[n], p_assistant_id[n], p_sub[n], p_class[n], CASE WHEN p_class[n] = ${resumedClass} THEN ${
  microsOf("p_since[n]")
} ELSE
    greatest(${lastTicket}, 1 + (SELECT max(w.ticket) FROM waiting_runs w WHERE w.sub = p_sub[n] AND w.class = p_class[n]))
      + row_number() OVER (PARTITION BY p_sub[n], p_class[n] ORDER BY p_since[n], p_uuid[n]) - 1 END, p_since[n]
  FROM generate_subscripts(p_uuid, 1) AS n WHERE p_uuid[n] IS NOT NULL
  ON CONFLICT DO NOTHING;
END $$`

/**
 * Returns the rooms of new runs: null where no limit counts. Of the others those are held that have room, when nobody waits. Rows without
 * an assistant are left out.
 */
const takeRoom = `CREATE FUNCTION take_room(
  p_assistant_id bigint[], p_waits boolean[], p_core_runs integer, p_assistant_runs integer
) RETURNS text[] ${inOrder} AS $$
DECLARE
  rooms text[];
  total integer;
  counts jsonb;
  own integer;
  most integer;
BEGIN
  SELECT array_agg(CASE
    WHEN p_assistant_id[n] IS NULL THEN NULL
    WHEN p_waits[n] THEN 'waiting'
    WHEN p_core_runs IS NOT NULL OR p_assistant_runs IS NOT NULL
      OR EXISTS (SELECT FROM ${someLimits} AS l WHERE l.assistant_id = p_assistant_id[n]) THEN 'held' END ORDER BY n)
  INTO rooms FROM generate_subscripts(p_assistant_id, 1) AS n;
  IF 'held' = ANY (rooms) THEN
    PERFORM pg_advisory_xact_lock(${queueLock});
    IF EXISTS (
      SELECT FROM generate_series(0, ${resumedClass - 1}) AS c, LATERAL (
        SELECT FROM waiting_runs w WHERE w.class = c AND w.ticket >= ${lastTicket} LIMIT 1
      ) AS found
    ) OR EXISTS (SELECT FROM waiting_runs w WHERE w.class = ${resumedClass}) THEN
      RETURN array_replace(rooms, 'held', 'waiting');
    END IF;
    SELECT coalesce(sum(n), 0), coalesce(jsonb_object_agg(assistant_id, n), '{}') INTO total, counts
    FROM (SELECT assistant_id, count(*) AS n FROM tasks WHERE room = 'held' GROUP BY assistant_id) AS held;
    FOR n IN 1 .. cardinality(rooms) LOOP
      CONTINUE WHEN rooms[n] IS DISTINCT FROM 'held';
      own := coalesce((counts ->> p_assistant_id[n]::text)::integer, 0);
      most := p_assistant_runs;
      SELECT CASE WHEN l.is_paused THEN 0 ELSE coalesce(l.runs, p_assistant_runs) END INTO most
      FROM (SELECT) AS one LEFT JOIN assistant_limits l ON l.assistant_id = p_assistant_id[n];
      IF total >= p_core_runs OR own >= most THEN
        rooms[n] := 'waiting';
      ELSE
        total := total + 1;
        counts := counts || jsonb_build_object(p_assistant_id[n]::text, own + 1);
      END IF;
    END LOOP;
  END IF;
  RETURN rooms;
END $$`

/**
 * Puts runs back that the core did not take, and resets their acceptance deadlines; a run of which an event was recorded stays as it is.
 * A user's waiting runs keep the order of their creation.
 */
const putBack = `CREATE FUNCTION put_back_runs(p_uuid uuid[], p_run_id uuid[], p_sub text[], p_at timestamptz[])
RETURNS SETOF tasks ${inOrder} AS $$
#variable_conflict use_column
DECLARE
  returned uuid[];
BEGIN
  ${lockUsers};
  PERFORM FROM tasks t WHERE t.uuid = ANY (p_uuid) ORDER BY t.uuid FOR NO KEY UPDATE;
  SELECT array_agg(t.uuid) INTO returned FROM unnest(p_uuid, p_run_id) AS given (uuid, run_id)
  JOIN tasks t ON t.uuid = ANY (ARRAY[given.uuid])
  WHERE t.run_id = given.run_id AND t.room IS DISTINCT FROM 'waiting'
    AND (t.status = 'pending' OR (t.status = 'processing' AND t.resumed_at IS NOT NULL));
  UPDATE tasks t SET room = 'waiting', acceptance_deadline_at = NULL, queue_revision = t.queue_revision + 1
  WHERE t.uuid = ANY (returned);
  PERFORM enqueue_runs(array_agg(t.uuid ORDER BY t.uuid), array_agg(t.assistant_id ORDER BY t.uuid), array_agg(t.sub ORDER BY t.uuid),
    array_agg(CASE t.status WHEN 'pending' THEN t.priority ELSE ${resumedClass} END ORDER BY t.uuid),
    array_agg(CASE t.status WHEN 'pending' THEN t.created_at ELSE (
      SELECT e.occurred_at FROM task_events e WHERE e.task_uuid = t.uuid AND e.revision = t.revision
    ) END ORDER BY t.uuid))
  FROM tasks t WHERE t.uuid = ANY (returned);
  -- An admission may have locked one of these at this moment: it takes it.
  WITH mine AS (
    SELECT * FROM waiting_runs w WHERE w.sub = ANY (p_sub) AND w.class < ${resumedClass} FOR UPDATE SKIP LOCKED
  ), sorted AS (
    SELECT task_uuid, ticket, row_number() OVER (PARTITION BY sub, class ORDER BY since, task_uuid) AS nth, sub, class FROM mine
  ), tickets AS (
    SELECT ticket, row_number() OVER (PARTITION BY sub, class ORDER BY ticket, since) AS nth, sub, class FROM mine
  )
  UPDATE waiting_runs w SET ticket = tickets.ticket FROM sorted JOIN tickets USING (sub, class, nth)
  WHERE w.task_uuid = ANY (ARRAY[sorted.task_uuid]) AND sorted.ticket <> tickets.ticket;
  RETURN QUERY SELECT (t).* FROM generate_subscripts(p_uuid, 1) AS n
  LEFT JOIN LATERAL (SELECT * FROM tasks t WHERE t.uuid = p_uuid[n] LIMIT 1) AS t ON true ORDER BY n;
END $$`

/** Sets the acceptance deadlines of pending runs that have none: the first attempt begins. */
const startAcceptance = `CREATE FUNCTION start_acceptance(p_uuid uuid[], p_run_id uuid[], p_deadline timestamptz[])
RETURNS SETOF tasks ${inOrder} AS $$
BEGIN
  PERFORM FROM tasks t WHERE t.uuid = ANY (p_uuid) ORDER BY t.uuid FOR NO KEY UPDATE;
  UPDATE tasks t SET acceptance_deadline_at = p_deadline[n], queue_revision = t.queue_revision + 1
  FROM generate_subscripts(p_uuid, 1) AS n
  WHERE t.uuid = ANY (ARRAY[p_uuid[n]]) AND t.run_id = p_run_id[n] AND t.status = 'pending'
    AND t.acceptance_deadline_at IS NULL AND t.room IS DISTINCT FROM 'waiting';
  RETURN QUERY SELECT (t).* FROM generate_subscripts(p_uuid, 1) AS n
  LEFT JOIN LATERAL (SELECT * FROM tasks t WHERE t.uuid = p_uuid[n] LIMIT 1) AS t ON true ORDER BY n;
END $$`

const order = "ticket, since, task_uuid"

/**
 * Admits the next runs that have room. It reads the first ones of each class; where too few of them have room, the first ones of each
 * assistant. Returns a row without a head when it admits none.
 */
const admit = `CREATE FUNCTION admit_runs(
  p_at timestamptz, p_most integer, p_core_runs integer, p_assistant_runs integer, p_shards integer[],
  p_floor bigint[], p_served_at timestamptz[]
) RETURNS TABLE (outcome text, head tasks, floor bigint[], served_at timestamptz[]) ${inOrder} AS $$
#variable_conflict use_column
DECLARE
  result text := 'full';
  floors bigint[] := p_floor;
  served timestamptz[] := p_served_at;
  is_limited boolean;
  free integer := p_most;
  total integer;
  ids bigint[];
  counts integer[];
  limited bigint[];
  rooms integer[];
  closed bigint[] := '{}';
  paused bigint[] := '{}';
  read integer;
  last bigint;
  depth integer;
  candidates waiting_runs[];
  is_cut boolean;
  chosen uuid[];
  admitted uuid[];
  resumed uuid[];
BEGIN
  IF NOT pg_try_advisory_xact_lock(${queueLock}) THEN
    RETURN QUERY SELECT 'busy', NULL::tasks, p_floor, p_served_at;
    RETURN;
  END IF;
  is_limited := p_core_runs IS NOT NULL OR p_assistant_runs IS NOT NULL OR EXISTS (SELECT FROM ${someLimits} AS l);
  IF is_limited THEN
    SELECT coalesce(sum(n), 0), array_agg(assistant_id), array_agg(n) INTO total, ids, counts
    FROM (SELECT assistant_id, count(*)::integer AS n FROM tasks WHERE room = 'held' GROUP BY assistant_id) AS held;
    free := least(free, p_core_runs - total);
    SELECT array_agg(assistant_id), array_agg(room), coalesce(array_agg(assistant_id) FILTER (WHERE room <= 0), '{}'),
      coalesce(array_agg(assistant_id) FILTER (WHERE is_paused), '{}')
    INTO limited, rooms, closed, paused
    FROM (
      SELECT known.assistant_id, coalesce(l.runs, p_assistant_runs) - coalesce((
        SELECT h.n FROM unnest(ids, counts) AS h (assistant_id, n) WHERE h.assistant_id = known.assistant_id
      ), 0) AS room, coalesce(l.is_paused, false) AS is_paused
      FROM (SELECT unnest(ids) UNION SELECT assistant_id FROM ${someLimits} AS l) AS known (assistant_id)
      LEFT JOIN assistant_limits l ON l.assistant_id = known.assistant_id
    ) AS of_assistant;
  END IF;
  IF free > 0 THEN
    read := free + CASE WHEN is_limited OR p_shards IS NOT NULL THEN free + 32 ELSE 0 END;
    FOR depth IN 1 .. 2 LOOP
      IF depth = 1 THEN
        SELECT array_agg(found.w) FILTER (WHERE is_mine), bool_or(place >= read) INTO candidates, is_cut
        FROM generate_series(0, ${resumedClass}) AS c, LATERAL (
            SELECT w, row_number() OVER () AS place, p_shards IS NULL OR ${
  shardOf("w.task_uuid")
} = ANY (p_shards) AS is_mine
            FROM (
              SELECT * FROM waiting_runs w WHERE w.class = c AND w.ticket >= floors[c + 1] ORDER BY ${order} LIMIT read
            ) AS w
          ) AS found;
      ELSE
        WITH RECURSIVE assistants AS (
          (SELECT w.assistant_id FROM waiting_runs w ORDER BY w.assistant_id LIMIT 1)
          UNION ALL
          SELECT (
            SELECT w.assistant_id FROM waiting_runs w WHERE w.assistant_id > assistants.assistant_id
            ORDER BY w.assistant_id LIMIT 1
          ) FROM assistants WHERE assistants.assistant_id IS NOT NULL
        )
        SELECT array_agg(found) INTO candidates
        FROM assistants a, generate_series(0, ${resumedClass}) AS c, LATERAL (
          SELECT * FROM waiting_runs w WHERE w.assistant_id = a.assistant_id AND w.class = c AND w.ticket >= floors[c + 1]
            AND (p_shards IS NULL OR ${shardOf("w.task_uuid")} = ANY (p_shards))
          ORDER BY ${order} LIMIT free
        ) AS found
        WHERE a.assistant_id <> ALL (closed) AND (c = ${resumedClass} OR a.assistant_id <> ALL (paused));
        is_cut := false;
      END IF;
      SELECT array_agg(task_uuid ORDER BY rank DESC, ${order}) INTO chosen FROM (
        SELECT * FROM (
          SELECT *, row_number() OVER (PARTITION BY assistant_id ORDER BY rank DESC, ${order}) AS nth FROM (
            SELECT *, class + CASE
              WHEN class = ${resumedClass} THEN 1000000
              WHEN row_number() OVER (PARTITION BY class ORDER BY ${order}) > 1 THEN 0
              ELSE greatest(0, floor(extract(epoch FROM p_at - greatest(since, served[class + 1])) / ${
  risesAfter / 1_000_000
})) END AS rank
            FROM unnest(candidates) AS w
            WHERE assistant_id <> ALL (closed) AND (class = ${resumedClass} OR assistant_id <> ALL (paused))
          ) AS ranked
        ) AS numbered
        WHERE nth <= coalesce((
          SELECT room FROM unnest(limited, rooms) AS l (assistant_id, room) WHERE l.assistant_id = numbered.assistant_id
        ), p_assistant_runs, free)
        ORDER BY rank DESC, ${order} LIMIT free
      ) AS next;
      EXIT WHEN is_cut IS NOT TRUE OR cardinality(chosen) >= free;
    END LOOP;
    IF candidates IS NULL AND is_cut IS NOT TRUE THEN
      result := 'empty';
    ELSIF cardinality(chosen) >= p_most THEN
      result := 'more';
    END IF;
  END IF;
  IF chosen IS NOT NULL THEN
    -- A row that is locked is being changed, or put in order: the next admission has it.
    SELECT array_agg(task_uuid) INTO admitted FROM (
      SELECT w.task_uuid FROM waiting_runs w JOIN tasks t ON t.uuid = ANY (ARRAY[w.task_uuid])
      WHERE w.task_uuid = ANY (chosen) AND t.room = 'waiting' AND t.completed_at IS NULL
      FOR UPDATE OF w SKIP LOCKED FOR NO KEY UPDATE OF t SKIP LOCKED
    ) AS locked;
    IF cardinality(chosen) > coalesce(cardinality(admitted), 0) THEN
      -- Entries without a task that waits.
      DELETE FROM waiting_runs w WHERE w.task_uuid = ANY (ARRAY(
        SELECT o.task_uuid FROM waiting_runs o WHERE o.task_uuid = ANY (chosen)
          AND NOT EXISTS (SELECT FROM tasks t WHERE t.uuid = ANY (ARRAY[o.task_uuid]) AND t.room = 'waiting') FOR UPDATE SKIP LOCKED
      ));
    END IF;
  END IF;
  IF admitted IS NOT NULL THEN
    WITH gone AS (DELETE FROM waiting_runs w WHERE w.task_uuid = ANY (admitted) RETURNING *)
    SELECT array_agg(task_uuid) FILTER (WHERE class = ${resumedClass}),
      setval('queue_tickets', greatest(${lastTicket}, max(ticket) FILTER (WHERE class < ${resumedClass}))),
      ARRAY(SELECT CASE WHEN c = ANY (array_agg(class)) THEN p_at ELSE served[c + 1] END FROM generate_series(0, ${resumedClass}) AS c ORDER BY c)
    INTO resumed, last, served FROM gone;
    IF resumed IS NOT NULL THEN
      UPDATE task_events e SET started_at = p_at FROM unnest(resumed) AS r (uuid) JOIN tasks t ON t.uuid = ANY (ARRAY[r.uuid])
      WHERE e.task_uuid = ANY (ARRAY[t.uuid]) AND e.revision = t.revision;
    END IF;
  END IF;
  SELECT array_agg(CASE
    WHEN c = ${resumedClass} THEN least(first, ${microsOf("p_at")} - ${longestCommit * 1_000_000})
    ELSE least(first, ${lastTicket}) END ORDER BY c)
  INTO floors FROM generate_series(0, ${resumedClass}) AS c, LATERAL (
    SELECT (SELECT w.ticket FROM waiting_runs w WHERE w.class = c AND w.ticket >= p_floor[c + 1] ORDER BY w.ticket LIMIT 1) AS first
  ) AS found;
  RETURN QUERY WITH held AS (
    -- The core cannot know a resumed run from before.
    UPDATE tasks t SET room = 'held', queue_revision = t.queue_revision + 1,
      resumed_at = CASE WHEN t.resumed_at IS NOT NULL THEN p_at END
    WHERE t.uuid = ANY (admitted) RETURNING t
  ) SELECT result, held.t, floors, served FROM (SELECT) AS one LEFT JOIN held ON true;
END $$`

export const functions: ReadonlyArray<string> = [enqueue, takeRoom, putBack, startAcceptance, admit]

export const names = ["enqueue_runs", "take_room", "put_back_runs", "start_acceptance", "admit_runs"]
