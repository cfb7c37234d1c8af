/** Frozen. Lets a list count and page within the index, by status too; it takes the place of `tasks_of_user`. */
export const statements: ReadonlyArray<string> = [
  // Status changes are no HOT updates anyway, since the partial indexes name the status: covering it costs width only.
  `CREATE INDEX tasks_list ON tasks (sub, created_at DESC, uuid DESC) INCLUDE (status)`,
  // Last, as it keeps readers out until the commit.
  `DROP INDEX tasks_of_user`
]
