/** Frozen. The last report of each node of a cluster about itself. */
export const statements: ReadonlyArray<string> = [
  `CREATE TABLE nodes (
    instance uuid PRIMARY KEY,
    address text NOT NULL,
    version text NOT NULL,
    started_at timestamptz NOT NULL,
    seen_at timestamptz NOT NULL,
    has_left boolean NOT NULL,
    shards integer[],
    tasks integer NOT NULL,
    next_due_at timestamptz,
    lateness integer NOT NULL
  )`
]
