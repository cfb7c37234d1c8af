/** Reads of a million sums of hours: a month by day and model, of all users and of one; and the booking of an outbox. */
import { internalToken, mint } from "../kit/Service.ts"
import { median } from "../kit/statistics.ts"
import { numbersOf, startBench } from "./bench.ts"

const { days, rows, users } = numbersOf({ rows: 1_000_000, days: 400, users: 100 })

const bench = await startBench()
const service = await bench.start()
const { sql } = bench

const numbers = "1, 1, 0, 0, 1000, 100, 1100, 400, 50, 3, 0, 0, 0.0125"
await sql.unsafe(
  `INSERT INTO usage_hours (sub, hour, assistant_id, model, tasks, completed, failed, canceled, input_tokens, output_tokens,
    total_tokens, cached_input_tokens, reasoning_tokens, active_seconds, unpriced_tokens, unmetered_tasks, cost)
  SELECT 'user-' || n % ${users}, date_trunc('hour', now()) - (n / ${users}) * interval '1 hour' * ${
    days * 24 * users / rows
  },
    n / 7 % 3 + 1, 'model-' || n / ${users} % 5, ${numbers}
  FROM generate_series(0, ${rows - 1}) n ON CONFLICT DO NOTHING`
)
await sql.unsafe("VACUUM (ANALYZE) usage_hours")
const [{ count }] = await sql`SELECT count(*)::int AS count FROM usage_hours` as unknown as [{ readonly count: number }]

const to = new Date()
const from = new Date(to.getTime() - 30 * 86_400_000)
const query = `?step=day&group_by=model&from=${from.toISOString()}&to=${to.toISOString()}`

const measure = async (name: string, address: string, token: string) => {
  const times: Array<number> = []
  for (let round = 0; round < 21; round++) {
    const startedAt = performance.now()
    const { body, status } = await service.call("GET", address + query, token)
    if (status !== 200) throw new Error(JSON.stringify(body))
    times.push(performance.now() - startedAt)
    if (round === 0) console.log(`${name}: ${body.data.length} buckets, ${body.totals.tasks} tasks`)
  }
  console.log(`${name}: median ${median(times).toFixed(0)} ms, longest ${Math.max(...times).toFixed(0)} ms`)
}

console.log(`${count} rows of ${users} users over ${days} days`)
await measure("a month of all users", "/internal/operator/usage", internalToken)
await measure("a month of one user", "/api/usage", await mint("user-1"))
await service.stop()
await bench.close()
