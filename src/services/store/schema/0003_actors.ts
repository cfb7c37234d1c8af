/** The actor of each change, and users whose limit of active tasks is not the default. */
export const statements: ReadonlyArray<string> = [
  // Null: the core. Else `user`, or what the caller of the change gives (`TaskChange`).
  `ALTER TABLE task_events ADD COLUMN actor text`,
  `CREATE TABLE user_limits (sub text PRIMARY KEY, max_active_tasks integer NOT NULL)`
]
