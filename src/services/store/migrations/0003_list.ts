/** Frozen. Replaces `tasks_of_user` by an index that serves count and pages of a list, by status too. */
export const statements: ReadonlyArray<string> = [
  // Status changes are not HOT updates anyway, because partial indexes depend on the status: including it costs only width.
  `CREATE INDEX tasks_list ON tasks (sub, created_at DESC, uuid DESC) INCLUDE (status)`,
  // Last, because it blocks readers until the commit.
  `DROP INDEX tasks_of_user`
]
