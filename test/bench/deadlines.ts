/** Many deadlines of one moment, and many that passed while no node was up. Argument: the number of tasks (default 100,000). */
import postgres from "postgres"
import { measureDeadlines } from "../attack/kit/deadlines.ts"
import { startPostgres } from "../kit/standalone.ts"

const count = Number(process.argv[2] ?? 100_000)

const server = await startPostgres()
for (const [name, seconds] of Object.entries({ in_one_moment: 30, overdue_at_start: -60 })) {
  const url = await server.makeDatabase(name)
  const sql = postgres(url, { max: 1 })
  const query = async <Row extends object>(statement: string) => [...await sql.unsafe<Array<Row>>(statement)]
  console.log(name, JSON.stringify(await measureDeadlines({ url, query }, { count, seconds })))
  await sql.end()
}
await server.stop()
