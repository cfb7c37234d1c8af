/** Frozen. Runs that were offered again after their node went away, until the new node has outlived the offer. */
export const statements: ReadonlyArray<string> = [
  // A table of its own: rows are few and short-lived, and the hot table of tasks stays as narrow as it is.
  `CREATE TABLE recovery_trials (
    run_id uuid PRIMARY KEY,
    node uuid NOT NULL,
    together integer NOT NULL,
    losses integer NOT NULL DEFAULT 0,
    losses_alone integer NOT NULL DEFAULT 0,
    began_at timestamptz NOT NULL DEFAULT statement_timestamp()
  )`
]
