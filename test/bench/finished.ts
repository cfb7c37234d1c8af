/**
 * Tasks per second, from create to the poll that finds them completed, with millions of finished tasks in the database, compared with
 * none. Both services run on one Postgres.
 */
import postgres from "postgres"
import { report, turnOf } from "../kit/ScriptedCore.ts"
import { mint, Service } from "../kit/Service.ts"
import { compare, inQuantiles, numbersOf, repeat, startBench, until } from "./bench.ts"
import { fill } from "./filledTasks.ts"

const { rounds, rows, seconds } = numbersOf({ rows: 10_000_000, rounds: 5, seconds: 6 })
const clients = 32
const ofUser = 1000

const { close, core, database } = await startBench()
const tokens = await Promise.all(Array.from({ length: clients }, (_, user) => mint(`user-${user}`)))
const completed = { type: "completed", turn: turnOf("done") }
core.onStart = (run) => {
  setImmediate(() => void report(run, completed))
  return 202
}

const startNode = async (name: string, url: string) => {
  const service = await Service.start({
    DATABASE_URL: url,
    CORE_URL: core.url,
    LOG_LEVEL: "Warn",
    MAX_ACTIVE_TASKS: "1000"
  })
  let turn = 0
  const runTask = async () => {
    const token = tokens[turn++ % clients]!
    const { body } = await service.create(token, "Why?")
    for (;;) {
      const { body: task } = await service.call("GET", `/api/tasks/${body.uuid}`, token)
      if (task.status === "completed") return
      if (task.status === "failed") throw new Error(`${body.uuid}: ${task.error}`)
      await new Promise((resolve) => setTimeout(resolve, 10))
    }
  }
  const measure = async () => {
    core.runs.length = 0
    const begun = performance.now()
    const took = await repeat(clients, until(seconds * 1000), runTask)
    const rate = took.length / ((performance.now() - begun) / 1000)
    return { rate, text: `${rate.toFixed(0)}/s (${inQuantiles(took)})` }
  }
  return { service, side: { name, measure } }
}

/** Inserts without the secondary indexes and builds them afterwards, which takes minutes less. */
const fillWithoutIndexes = async (sql: postgres.Sql) => {
  const indexes = await sql<Array<{ name: string; definition: string }>>`
    SELECT indexrelid::regclass::text AS name, pg_get_indexdef(indexrelid) AS definition FROM pg_index
    WHERE indrelid IN ('tasks'::regclass, 'task_events'::regclass) AND NOT indisprimary`
  await sql`SET maintenance_work_mem = '1GB'`
  await sql`SET synchronous_commit = off`
  for (const { name } of indexes) await sql.unsafe(`DROP INDEX ${name}`)
  await fill(sql, rows, ofUser)
  await sql`
    UPDATE tasks SET status = 'canceled', completed_at = now(), pending_tool_calls = NULL WHERE status = 'interrupted'`
  await sql.unsafe(`
    INSERT INTO task_events (task_uuid, revision, type, status, occurred_at)
    SELECT uuid, revision, 'Completed', status, completed_at FROM tasks`)
  await sql.unsafe(`
    INSERT INTO task_turns SELECT uuid, '{"output":[{"type":"text","text":"42"}]}' FROM tasks WHERE status = 'completed'`)
  for (const { definition } of indexes) await sql.unsafe(definition)
  await sql.unsafe("VACUUM (ANALYZE)")
}

const [filled, blank] = [await database.makeDatabase("filled"), await database.makeDatabase("blank")]
// Creates the schema. The service would search the whole table while its indexes are missing.
await (await startNode("schema", filled)).service.stop()
const sql = postgres(filled, { max: 1, onnotice: () => {} })
const begun = performance.now()
await fillWithoutIndexes(sql)
const [{ size }] = await sql`SELECT pg_size_pretty(pg_database_size(current_database())) AS size` as unknown as [
  { size: string }
]
console.log(`${rows} finished tasks, ${size}, filled in ${((performance.now() - begun) / 1000).toFixed(0)} s`)
await sql`CHECKPOINT`
await sql.end()
const [full, empty] = [await startNode("filled", filled), await startNode("blank", blank)]
await compare(`with ${rows} finished tasks`, rounds, full.side, empty.side)
await full.service.stop()
await empty.service.stop()
await close()
