/** The tables of operators, and the indexes of the core's tables that only their searches and counts use. */
import { withdrawn } from "../../domain/Failure.ts"
import type { Revocation } from "../../domain/Revocation.ts"
import type { UserData } from "../Extensions.ts"
import type { Tables } from "../store/schema/Migrations.ts"

/** A change of a call by RPC, or of a bulk action, as its actor says. */
const isAudited = `(actor LIKE 'rpc:%' OR actor LIKE 'operator:% bulk:%')`

/**
 * Writes the line of the audit in the transaction of the change. The reason of a cancel by a call is the text of a user, and not kept.
 * Without a reason `error` has a text of its own.
 */
const onEvents = `IF EXISTS (SELECT FROM new_events WHERE ${isAudited}) THEN
    INSERT INTO operator_actions (at, operator, via, action, target, sub, reason, outcome, bulk_id)
    SELECT e.occurred_at, split_part(split_part(e.actor, ' bulk:', 1), ':', 2),
      CASE WHEN e.actor LIKE 'rpc:%' THEN 'rpc' ELSE 'bulk' END,
      CASE WHEN e.actor LIKE 'rpc:%' AND e.type = 'Withdrawn' THEN 'withdraw' ELSE 'cancel' END,
      e.task_uuid::text, t.sub, CASE WHEN e.actor NOT LIKE 'rpc:%' OR e.type = 'Withdrawn' THEN nullif(t.error, '${withdrawn}') END, 'done',
      nullif(split_part(e.actor, ' bulk:', 2), '')::uuid
    FROM new_events e JOIN tasks t ON t.uuid = ANY (ARRAY[e.task_uuid]) WHERE ${isAudited};
  END IF;`

const auditTables = [
  // The audit: actions of operators, and changes by calls. `sub` is the user, or the HMAC of one whose data were erased.
  `CREATE TABLE operator_actions (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    operator text NOT NULL,
    via text NOT NULL,
    action text NOT NULL,
    target text,
    sub text,
    reason text,
    outcome text NOT NULL,
    bulk_id uuid
  )`,
  `CREATE INDEX operator_actions_order ON operator_actions (at, id)`,
  `CREATE INDEX operator_actions_sub ON operator_actions (sub, at, id) WHERE sub IS NOT NULL`,
  `CREATE INDEX operator_actions_target ON operator_actions (target, at, id) WHERE target IS NOT NULL`,
  `CREATE INDEX operator_actions_bulk ON operator_actions (bulk_id, at, id) WHERE bulk_id IS NOT NULL`,
  `CREATE TABLE operator_keys (name text PRIMARY KEY, sealed text NOT NULL)`
]

const bulkTables = [
  // `page` are the ids that are being carried out, and `position` is the last that was read: a node that takes over repeats the page.
  `CREATE TABLE operator_bulk (
    id uuid PRIMARY KEY,
    action text NOT NULL,
    filter text NOT NULL,
    selection text NOT NULL,
    sub text,
    reason text,
    rate integer NOT NULL,
    operator text NOT NULL,
    started_at timestamptz NOT NULL,
    ended_at timestamptz,
    state text NOT NULL,
    matched integer NOT NULL,
    done integer NOT NULL DEFAULT 0,
    skipped integer NOT NULL DEFAULT 0,
    failed integer NOT NULL DEFAULT 0,
    errors text NOT NULL DEFAULT '[]',
    position_at timestamptz,
    position_id text,
    is_read boolean NOT NULL DEFAULT false,
    page text[],
    lease_owner uuid,
    lease_until timestamptz
  )`,
  `CREATE INDEX operator_bulk_running ON operator_bulk (lease_until) WHERE ended_at IS NULL`,
  `CREATE INDEX operator_bulk_order ON operator_bulk (started_at)`,
  // Tasks that a bulk action runs again: those that wait for a slot of their user, and those whose new task is live.
  `CREATE TABLE operator_reruns (
    bulk_id uuid NOT NULL,
    sub text NOT NULL,
    uuid uuid NOT NULL,
    new_task uuid,
    PRIMARY KEY (bulk_id, sub, uuid)
  )`,
  `CREATE INDEX operator_reruns_live ON operator_reruns (sub) WHERE new_task IS NOT NULL`,
  // Files of the assistant backend to which erased tasks referred.
  `CREATE TABLE operator_erased_files (
    bulk_id uuid NOT NULL,
    file_id text NOT NULL,
    PRIMARY KEY (bulk_id, file_id)
  )`
]

/** A revocation by a token issuer. That of an operator has its line already. */
export const onRevoked = (revocation: Revocation, author: string | undefined) => {
  const [, via, operator] = /^(rpc|internal):(.*)$/s.exec(author ?? "") ?? []
  if (operator === undefined) return []
  const [target, sub] = revocation._tag === "User" ? [null, revocation.sub] : [revocation.tokenId, null]
  return [{
    text: `INSERT INTO operator_actions (operator, via, action, target, sub, outcome)
      VALUES ($1::text, $2::text, 'revoke', $3::text, $4::text, 'done')`,
    values: [operator, via, target, sub]
  }]
}

export const tables: Tables = {
  name: "operator",
  migrations: [
    [
      `CREATE TABLE history (
      name text NOT NULL,
      minute timestamptz NOT NULL,
      value bigint NOT NULL,
      PRIMARY KEY (name, minute)
    )`,
      // Stored bytes of users, counted in the background; `due_at` is the moment of the next count.
      `CREATE TABLE stored_bytes (
      sub text PRIMARY KEY,
      bytes bigint NOT NULL DEFAULT 0,
      tasks integer NOT NULL DEFAULT 0,
      counted_at timestamptz,
      due_at timestamptz NOT NULL
    )`,
      `CREATE INDEX stored_bytes_due ON stored_bytes (due_at)`,
      `CREATE INDEX stored_bytes_largest ON stored_bytes (bytes)`,
      // Tasks of all users, and those that failed. The first is ascending, although operators read it backwards: pages are filled only
      // where the newest entries come last.
      `CREATE INDEX tasks_by_creation ON tasks (created_at, uuid) INCLUDE (status)`,
      `CREATE INDEX tasks_failed ON tasks (completed_at DESC, uuid DESC) WHERE status = 'failed'`,
      `CREATE INDEX webhook_deliveries_ledger ON webhook_deliveries (created_at)`,
      `CREATE INDEX webhook_deliveries_of_origin ON webhook_deliveries (origin, created_at)`,
      `CREATE INDEX webhook_deliveries_failed ON webhook_deliveries (created_at)
      WHERE due_at IS NULL AND delivered_at IS NULL`,
      `CREATE INDEX webhook_deliveries_failed_of_origin ON webhook_deliveries (origin, created_at)
      WHERE due_at IS NULL AND delivered_at IS NULL`
    ],
    [...auditTables, ...bulkTables],
    [
      `CREATE TABLE operator_silences (
      kind text NOT NULL,
      key text NOT NULL,
      until timestamptz NOT NULL,
      operator text NOT NULL,
      at timestamptz NOT NULL,
      PRIMARY KEY (kind, key)
    )`
    ],
    // Replaces `onEvents`.
    []
  ],
  onEvents
}

const isOfUser = "sub = $1::text"

export const userData: UserData = {
  tables: [
    { table: "operator_reruns", isOfUser, exported: null },
    { table: "stored_bytes", isOfUser, exported: null }
  ],
  others: {
    operator_actions: "the audit stays, with a pseudonym after an erasure",
    operator_bulk: "bulk actions stay, with a pseudonym after an erasure"
  }
}
