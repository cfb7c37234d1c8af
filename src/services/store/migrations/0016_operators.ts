/** Frozen. Counts for each minute, and the state that an operator wants a node to be in. */
export const statements: ReadonlyArray<string> = [
  `CREATE TABLE history (
    name text NOT NULL,
    minute timestamptz NOT NULL,
    value bigint NOT NULL,
    PRIMARY KEY (name, minute)
  )`,
  `ALTER TABLE nodes ADD COLUMN wanted text CONSTRAINT nodes_wanted CHECK (wanted IN ('drained', 'taken_in'))`
]
