/** Frozen. Requests and outputs of façades, by leg of a task. */
export const statements: ReadonlyArray<string> = [
  `CREATE TABLE facade_legs (
    task_uuid uuid NOT NULL,
    leg integer NOT NULL,
    request text NOT NULL,
    output text,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (task_uuid, leg)
  )`
]
