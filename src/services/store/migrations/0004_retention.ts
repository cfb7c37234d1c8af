/** Frozen. Finds the tasks whose time of retention is over. */
export const statements: ReadonlyArray<string> = [
  `CREATE INDEX tasks_ended ON tasks (completed_at) WHERE completed_at IS NOT NULL`
]
