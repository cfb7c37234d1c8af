/** Frozen. The redelivery limit by user (GCRA): each redelivery moves `used_until` forward. */
export const statements: ReadonlyArray<string> = [
  `CREATE TABLE webhook_redeliveries (
    sub text PRIMARY KEY,
    used_until timestamptz NOT NULL
  )`
]
