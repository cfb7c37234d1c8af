/** The tables of schedules, and what a revocation changes in them. */
import type { Revocation } from "../../domain/Revocation.ts"
import type { UserData } from "../Extensions.ts"
import type { Tables } from "../store/schema/Migrations.ts"
import { moment } from "../store/sql/Queries.ts"
import { limits } from "./Schedule.ts"

/** Whether a schedule has ended and none of its runs waits. */
const isOver = `s.state = 'ended' AND NOT EXISTS (
      SELECT FROM schedule_runs r WHERE r.schedule_id = s.id AND r.try_at IS NOT NULL
    )`

/**
 * Saves a schedule, a new one (`p_revision` null) or one that is still at `p_revision`. The locks of token and user order it against
 * revocations, so that no revoked token leaves a schedule. Each new one drops the oldest of those that are over, beyond the kept ones.
 */
const saveSchedule = `CREATE OR REPLACE FUNCTION save_schedule(
  p_new schedules, p_revision integer, p_maximum integer,
  p_idempotency_key text, p_fingerprint text, p_key_expires_at timestamptz,
  OUT outcome text, OUT saved_id uuid
) LANGUAGE plpgsql AS $$
DECLARE
  claimed idempotency_keys;
BEGIN
  PERFORM pg_advisory_xact_lock(hashtextextended('async-task-service:schedules:' || p_new.sub, 0));
  PERFORM pg_advisory_xact_lock_shared(hashtextextended('async-task-service:schedules of token:' || p_new.token_id, 0));
  IF p_idempotency_key IS NOT NULL THEN
    SELECT * INTO claimed FROM idempotency_keys k
    WHERE k.sub = p_new.sub AND k.key = p_idempotency_key AND k.expires_at > p_new.created_at;
    IF FOUND THEN
      outcome := CASE WHEN claimed.fingerprint = p_fingerprint THEN 'Replayed' ELSE 'IdempotencyKeyReused' END;
      saved_id := claimed.task_uuid;
      RETURN;
    END IF;
  END IF;
  saved_id := p_new.id;
  IF EXISTS (
    SELECT FROM token_revocations r WHERE r.token_id = p_new.token_id OR (r.sub = p_new.sub
      AND (p_new.token_issued_at IS NULL OR p_new.token_issued_at < r.issued_before))
  ) AND p_new.state = 'active' THEN
    outcome := 'Revoked';
  ELSIF EXISTS (
    SELECT FROM schedules s WHERE s.sub = p_new.sub AND s.key = p_new.key AND s.id <> p_new.id
  ) THEN
    outcome := 'KeyTaken';
  ELSIF p_new.state <> 'ended' AND (
    SELECT count(*) FROM schedules s WHERE s.sub = p_new.sub AND s.id <> p_new.id AND NOT (${isOver})
  ) >= p_maximum THEN
    outcome := 'TooMany';
  ELSIF p_revision IS NULL THEN
    outcome := 'Saved';
    INSERT INTO schedules SELECT p_new.*;
    DELETE FROM schedules WHERE id = ANY (ARRAY(
      SELECT s.id FROM schedules s WHERE s.sub = p_new.sub AND ${isOver} ORDER BY s.ended_at DESC OFFSET ${limits.ended}
    ));
  ELSE
    UPDATE schedules s SET key = p_new.key, definition = p_new.definition, task = p_new.task,
      callback_secret = p_new.callback_secret, state = p_new.state, paused_reason = p_new.paused_reason,
      next_at = p_new.next_at, due_at = p_new.due_at, revision = p_new.revision, version = p_new.version,
      token_id = p_new.token_id, token_issued_at = p_new.token_issued_at, authorized_at = p_new.authorized_at,
      user_token = p_new.user_token, task_failures = p_new.task_failures, token_failures = p_new.token_failures,
      pause_after_failures = p_new.pause_after_failures, ended_at = p_new.ended_at
    WHERE s.id = p_new.id AND s.revision = p_revision;
    outcome := CASE WHEN FOUND THEN 'Saved' ELSE 'Stale' END;
  END IF;
  IF outcome = 'Saved' AND p_idempotency_key IS NOT NULL THEN
    INSERT INTO idempotency_keys (sub, key, fingerprint, task_uuid, expires_at)
    VALUES (p_new.sub, p_idempotency_key, p_fingerprint, p_new.id, p_key_expires_at)
    ON CONFLICT (sub, key) DO UPDATE SET
      fingerprint = EXCLUDED.fingerprint, task_uuid = EXCLUDED.task_uuid, expires_at = EXCLUDED.expires_at;
  END IF;
END $$`

/** A run that starts this long after its moment, without the spread, is late. */
export const lateSeconds = 15

/** `due_at` is `next_at` with the spread. A run is `watched` while its task is live and its end matters. */
export const tables: Tables = {
  name: "schedules",
  migrations: [[
    `CREATE TABLE schedules (
      id uuid PRIMARY KEY,
      sub text NOT NULL,
      key text,
      definition text NOT NULL,
      task text NOT NULL,
      callback_secret text,
      state text NOT NULL,
      paused_reason text,
      next_at timestamptz,
      due_at timestamptz,
      last_at timestamptz,
      revision integer NOT NULL,
      version integer NOT NULL,
      token_id text NOT NULL,
      token_issued_at timestamptz,
      authorized_at timestamptz NOT NULL,
      user_token text,
      pause_after_failures integer,
      task_failures integer NOT NULL,
      token_failures integer NOT NULL,
      last_task uuid,
      created_at timestamptz NOT NULL,
      ended_at timestamptz,
      CONSTRAINT schedules_state CHECK (state IN ('active', 'paused', 'ended')),
      CONSTRAINT schedules_ended CHECK ((ended_at IS NOT NULL) = (state = 'ended')),
      CONSTRAINT schedules_key UNIQUE (sub, key)
    ) WITH (fillfactor = 80)`,
    `CREATE INDEX schedules_due ON schedules (due_at) WHERE state = 'active' AND due_at IS NOT NULL`,
    `CREATE INDEX schedules_list ON schedules (sub, created_at DESC, id DESC) INCLUDE (state)`,
    `CREATE INDEX schedules_token ON schedules (token_id) WHERE state = 'active'`,
    `CREATE INDEX schedules_ended_at ON schedules (ended_at) WHERE ended_at IS NOT NULL`,
    `CREATE TABLE schedule_runs (
      schedule_id uuid NOT NULL REFERENCES schedules ON DELETE CASCADE,
      scheduled_for timestamptz NOT NULL,
      outcome text NOT NULL,
      count integer NOT NULL DEFAULT 1,
      attempt integer NOT NULL DEFAULT 0,
      try_at timestamptz,
      started_at timestamptz,
      task_uuid uuid,
      error text,
      triggered boolean NOT NULL DEFAULT false,
      watched boolean NOT NULL DEFAULT false,
      PRIMARY KEY (schedule_id, scheduled_for),
      CONSTRAINT schedule_runs_outcome CHECK (
        outcome IN ('due', 'waiting', 'created', 'skipped_overlap', 'missed', 'failed')
      ),
      CONSTRAINT schedule_runs_pending CHECK ((try_at IS NOT NULL) = (outcome IN ('due', 'waiting')))
    )`,
    `CREATE INDEX schedule_runs_pending ON schedule_runs (try_at) WHERE try_at IS NOT NULL`,
    `CREATE INDEX schedule_runs_task ON schedule_runs (task_uuid) WHERE task_uuid IS NOT NULL`,
    `CREATE INDEX schedule_runs_watched ON schedule_runs (task_uuid) WHERE watched`,
    `CREATE INDEX schedule_runs_age ON schedule_runs (scheduled_for)`,
    `CREATE INDEX schedule_runs_problems ON schedule_runs (scheduled_for)
    WHERE outcome IN ('waiting', 'missed', 'failed') OR started_at - scheduled_for > interval '${lateSeconds} seconds'`
  ]],
  functions: [saveSchedule]
}
const pauseRevoked = `UPDATE schedules SET state = 'paused', revision = revision + 1,
  paused_reason = '{"type":"revoked","message":"The token that authorized it was revoked"}'`

const lock = (name: string) =>
  `SELECT pg_advisory_xact_lock(hashtextextended('async-task-service:${name}:' || $1::text, 0))`
const lockToken = lock("schedules of token")
const lockUser = lock("schedules")

/** Pauses what the revoked tokens authorized. The lock comes first, so that the update sees what was saved before it was taken. */
export const onRevoked = (revocation: Revocation) => {
  if (revocation._tag === "Token") {
    const values = [revocation.tokenId]
    return [
      { text: lockToken, values },
      { text: `${pauseRevoked} WHERE token_id = $1::text AND state = 'active'`, values }
    ]
  }
  const { issuedBefore, sub } = revocation
  return [
    { text: lockUser, values: [sub] },
    {
      text: `${pauseRevoked} WHERE sub = $1::text AND state = 'active' AND (
        token_issued_at IS NULL OR token_issued_at < ${moment("$2")} OR authorized_at < ${moment("$2")}
      )`,
      values: [sub, issuedBefore]
    }
  ]
}

const isOfUser = "sub = $1::text"
const at = (column: string) => `to_char(${column} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`

export const userData: UserData = {
  tables: [{
    table: "schedules",
    isOfUser,
    exported: {
      type: "schedule",
      key: { id: "uuid" },
      fields: {
        id: "id",
        key: "key",
        state: "state",
        definition: "definition::json",
        task: "task::json",
        created_at: at("created_at"),
        ended_at: at("ended_at"),
        runs: `(SELECT coalesce(json_agg(json_build_object('scheduled_for', ${at("scheduled_for")}, 'outcome', outcome,
          'count', count, 'started_at', ${
          at("started_at")
        }, 'task_uuid', task_uuid, 'error', error) ORDER BY scheduled_for), '[]')
          FROM schedule_runs WHERE schedule_id = id)`
      }
    }
  }],
  others: { schedule_runs: "`runs` of their schedule, with which they go" },
  summary: {
    schedules: `SELECT json_build_object('active', count(*) FILTER (WHERE state = 'active'),
        'paused', count(*) FILTER (WHERE state = 'paused'), 'ended', count(*) FILTER (WHERE state = 'ended'))
      FROM schedules WHERE ${isOfUser}`
  }
}
