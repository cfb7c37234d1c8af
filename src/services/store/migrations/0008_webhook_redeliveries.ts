/** Frozen. What is left of each user's allowance of redeliveries: it is used up until a moment, which every one postpones. */
export const statements: ReadonlyArray<string> = [
  `CREATE TABLE webhook_redeliveries (
    sub text PRIMARY KEY,
    used_until timestamptz NOT NULL
  )`
]
