/** Frozen. Fuller pages, so that a waiting task takes less than 1,000 bytes. */
export const statements: ReadonlyArray<string> = [
  // An autovacuum yields after `deadlock_timeout`, which is 1 s by default. Reads and writes do not wait for these locks.
  `SET LOCAL lock_timeout = '3s'`,
  // Status changes are never HOT updates, because partial indexes depend on the status: room in the pages is of no use.
  `ALTER TABLE tasks SET (fillfactor = 100)`,
  // A row loses its secrets at the end, and dead rows of its page make room: half of these updates still change no index.
  `ALTER TABLE task_requests SET (fillfactor = 95)`
]
