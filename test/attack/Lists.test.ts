/** Lists of a user with many tasks, many at a time. */
import { assert, describe, it } from "vitest"
import { labelOf } from "../../src/services/store/tasks/ListStatement.ts"
import { mint } from "../kit/Service.ts"
import { quantile } from "../kit/statistics.ts"
import { use } from "../kit/suite.ts"
import { startVictim } from "./kit/Victim.ts"

const rows = 150_000
const parallel = 30
const milliseconds = 4000

const victim = await use(startVictim({ MAX_ACTIVE_TASKS: "100000" }))
const { database, service } = victim
const hoarder = await mint("hoarder")

await database.query(`
  INSERT INTO tasks (uuid, sub, run_id, status, completed_at, max_execution_time, created_at, deadline_at, token_id, assistant_id)
  SELECT gen_random_uuid(), 'hoarder', gen_random_uuid(), 'completed', now(), 60, now() - n * interval '1 second', now(), 'token', 1
  FROM generate_series(1, ${rows}) AS n`)
await database.query(`
  INSERT INTO task_labels SELECT ${
  labelOf("sub", "'project'::text", "'p'::text")
}, created_at, uuid FROM tasks WHERE sub = 'hoarder'`)
// The newest have the most metadata that a task may have.
await database.query(`
  INSERT INTO task_metadata SELECT uuid, (
    SELECT jsonb_object_agg('key ' || n, repeat(md5(uuid::text || n), 16)) FROM generate_series(1, 16) AS n
  ) FROM (SELECT uuid FROM tasks WHERE sub = 'hoarder' ORDER BY created_at DESC LIMIT 10000) AS newest`)
await database.query("VACUUM (ANALYZE) tasks, task_labels, task_metadata")

const list = async (query: string) => {
  const { body, status } = await service.call("GET", `/api/tasks${query}`, hoarder)
  assert.strictEqual(status, 200)
  return body.meta.total as number
}

const repeat = async (concurrency: number, one: () => Promise<unknown>) => {
  const end = performance.now() + milliseconds
  const times: Array<number> = []
  await Promise.all(Array.from({ length: concurrency }, async () => {
    while (performance.now() < end) {
      const startedAt = performance.now()
      await one()
      times.push(performance.now() - startedAt)
    }
  }))
  return times
}

describe(`${parallel} lists of a user with ${rows} tasks`, () => {
  it.each([
    "?page=6000",
    "?page=1000000000",
    "?metadata[project]=p",
    "?metadata[project]=p&status=failed",
    "?status=failed",
    "?q=nothing"
  ])(
    "do not delay the requests of others: %s",
    async (query) => {
      const other = await mint(`other than ${query}`)
      const total = /failed|nothing/.test(query) ? 0 : rows
      const [lists, creates] = await Promise.all([
        repeat(parallel, async () => assert.strictEqual(await list(query), total)),
        repeat(1, async () => assert.strictEqual((await service.create(other, "x")).status, 201))
      ])
      assert.isAbove(lists.length, 0)
      // The goal is 100 ms on a machine that does nothing else.
      assert.isBelow(quantile(creates, 0.99), 400)
    },
    60_000
  )
})
