/** The latency of other users while one with a million tasks lists them in parallel, and of that user's lists alone. */
import { labelOf } from "../../src/services/store/tasks/ListStatement.ts"
import { mint } from "../kit/Service.ts"
import { inQuantiles, numbersOf, repeat, startBench, until } from "./bench.ts"
import { fill, subOf } from "./filledTasks.ts"

const { labeled, parallel, rows, seconds } = numbersOf({ rows: 1_000_000, labeled: 300_000, parallel: 30, seconds: 10 })
const bench = await startBench()
const { sql } = bench
const hostile = await mint(subOf(0))

await (await bench.start()).stop()
await fill(sql, Math.floor(rows * 1.25), rows)
await sql.unsafe(`
  INSERT INTO task_labels
  SELECT ${labelOf("sub", "key", "value")}, created_at, uuid FROM (
    SELECT *, row_number() OVER (ORDER BY created_at DESC) AS n FROM tasks WHERE sub = '${subOf(0)}'
  ) AS own CROSS JOIN LATERAL (VALUES ('project', 'p'), (CASE WHEN n % ${
  Math.round(rows / labeled)
} = 0 THEN 'some' END, 'q')) AS pair (key, value)
  WHERE key IS NOT NULL ORDER BY created_at`)
await sql.unsafe("VACUUM (ANALYZE) task_labels")

const service = await bench.start()
const call = async (path: string) => {
  const { body, status } = await service.call("GET", `/api/tasks${path}`, hostile)
  if (status !== 200) throw new Error(`${path} returned ${status}: ${JSON.stringify(body)}`)
  return body.meta.total as number
}

const lists = [
  "?page=40000",
  "?page=1000000000",
  "?metadata[project]=p",
  "?metadata[project]=p&page=20000",
  "?metadata[some]=q",
  "?metadata[project]=p&metadata[some]=q",
  "?metadata[some]=q&status=failed",
  "?status=failed",
  "?status=interrupted",
  ""
]
for (const path of lists) {
  const startedAt = performance.now()
  const total = await call(path)
  const first = (performance.now() - startedAt).toFixed(0)
  const times = await repeat(1, (calls) => calls >= 10, () => call(path))
  console.log(`${path.padEnd(40)} ${String(total).padStart(8)}: first ${first} ms, then ${inQuantiles(times)}`)
}

let user = 0
const other = async () => {
  const created = await service.create(await mint(`other-${user++}`), "Why?")
  if (created.status !== 201) throw new Error(`a create returned ${created.status}`)
}
console.log(`creates of others alone: ${inQuantiles(await repeat(1, until(seconds * 1000), other))}`)
for (const path of lists) {
  const isOver = until(seconds * 1000)
  const [times, attacks] = await Promise.all([repeat(1, isOver, other), repeat(parallel, isOver, () => call(path))])
  console.log(`creates of others beside ${parallel} × ${path}: ${inQuantiles(times)} (${attacks.length} lists)`)
}
await service.stop()
await bench.close()
