/** The tables of operators, and the indexes of the core's tables that only their searches and counts use. */
import type { Tables } from "../store/schema/Migrations.ts"

export const tables: Tables = {
  name: "operator",
  migrations: [[
    `CREATE TABLE history (
      name text NOT NULL,
      minute timestamptz NOT NULL,
      value bigint NOT NULL,
      PRIMARY KEY (name, minute)
    )`,
    // What users keep, counted in the background; `due_at` is the moment of the next count.
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
  ]]
}
