/** Frozen. Index for the deletion of tasks after the retention period. */
export const statements: ReadonlyArray<string> = [
  `CREATE INDEX tasks_ended ON tasks (completed_at) WHERE completed_at IS NOT NULL`
]
