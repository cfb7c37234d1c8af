/** Many deadlines of one moment beside the calls of other users. */
import { type OpenDatabase } from "../../kit/databases.ts"
import { pause } from "../../kit/pause.ts"
import { ScriptedCore } from "../../kit/ScriptedCore.ts"
import { eventually, mint, Service } from "../../kit/Service.ts"
import { quantile } from "../../kit/statistics.ts"
import { startCallers } from "./Callers.ts"

/** Inserts processing tasks of many users whose limit is `seconds` from now. */
const insert = (count: number, seconds: number) =>
  `WITH made AS (
    INSERT INTO tasks (uuid, sub, status, revision, run_id, max_execution_time, created_at, deadline_at,
      acceptance_deadline_at, token_id, assistant_id)
    SELECT gen_random_uuid(), 'user' || n, 'processing', 1,
      ('01900000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, 60, now(),
      now() + interval '${seconds} s', now(), 'token' || n, 1
    FROM generate_series(1, ${count}) AS n RETURNING uuid
  ) INSERT INTO task_requests (task_uuid, request, user_token)
  SELECT uuid, '{"assistant_id":1,"input":[],"turns":[],"client_tools":[]}', 'unreadable' FROM made`

/** Reads one row of a small index, since it is asked again and again beside what is measured. */
const live = `SELECT count(*)::int AS count FROM (
  SELECT FROM tasks WHERE status IN ('pending', 'processing', 'interrupted') AND sub LIKE 'user%' LIMIT 1
) AS one`

export interface DeadlinesReport {
  /** Milliseconds from the start of the process to `/readyz` with 200. */
  readonly startedIn: number
  /** Milliseconds from the deadline, or from readiness if that is later, until all have ended. */
  readonly endedIn: number
  /** Milliseconds of the other calls meanwhile. */
  readonly others: { readonly p99: number; readonly statuses: ReadonlyArray<number> }
  readonly health: { readonly worst: number }
}

/** `seconds` until the deadlines; negative ones passed before the service starts. */
export const measureDeadlines = async (
  database: Pick<OpenDatabase, "query" | "url">,
  { count, seconds }: { readonly count: number; readonly seconds: number }
): Promise<DeadlinesReport> => {
  const core = await new ScriptedCore().listen()
  const settings = { DATABASE_URL: database.url, CORE_URL: core.url, MAX_ACTIVE_TASKS: "1000000" }
  // Migrates.
  await (await Service.start(settings)).stop()
  const insertedAt = performance.now()
  await database.query(insert(count, seconds))
  const startedAt = performance.now()
  const service = await Service.start(settings, undefined, undefined, undefined, 120_000)
  try {
    const readyAt = performance.now()
    const token = await mint("other")
    const body = JSON.stringify({ assistant_id: 1, input: [{ type: "text", text: "?" }] })
    const dueAt = Math.max(readyAt, insertedAt + seconds * 1000)
    await new Promise((resolve) => setTimeout(resolve, Math.max(0, dueAt - performance.now())))
    const others = startCallers(service.url, 4, () => token, () => ({ method: "POST", path: "/api/tasks", body }), 20)
    const health = startCallers(service.url, 1, () => "", () => ({ method: "GET", path: "/healthz" }), 20)
    await eventually(
      () => pause(100).then(() => database.query<{ readonly count: number }>(live)),
      ([row]) => row?.count === 0,
      180_000
    )
    const endedIn = performance.now() - dueAt
    const [calls, probes] = await Promise.all([others.stop(), health.stop()])
    return {
      startedIn: readyAt - startedAt,
      endedIn,
      others: {
        p99: quantile(calls.map(({ duration }) => duration), 0.99),
        statuses: [...new Set(calls.map(({ status }) => status))]
      },
      health: { worst: Math.max(...probes.map(({ duration }) => duration)) }
    }
  } finally {
    await service.stop()
    await core.close()
  }
}
