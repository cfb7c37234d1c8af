/** Frozen. Runs that were dispatched again after their node crashed, until the new node has survived the dispatch. */
export const statements: ReadonlyArray<string> = [
  // A separate table: its rows are few and short-lived, and the busy table of tasks stays narrow.
  `CREATE TABLE recovery_trials (
    run_id uuid PRIMARY KEY,
    node uuid NOT NULL,
    together integer NOT NULL,
    losses integer NOT NULL DEFAULT 0,
    losses_alone integer NOT NULL DEFAULT 0,
    began_at timestamptz NOT NULL DEFAULT statement_timestamp()
  )`
]
