/** What users keep: counted in the background, and limited by STORED_BYTES. */
import { assert, describe, it } from "vitest"
import { resetStatements } from "../../kit/databases.ts"
import { complete } from "../../kit/ScriptedCore.ts"
import { eventually, mint } from "../../kit/Service.ts"
import { use } from "../../kit/suite.ts"
import { startSystem } from "../../kit/System.ts"

const system = await use(startSystem({ STORED_BYTES: "20000" }))
const { service } = system
const token = await mint("hoarder")
const input = [{ type: "text", text: "x".repeat(12_000) }]

const create = (key?: string) =>
  service.call(
    "POST",
    "/api/tasks",
    token,
    { assistant_id: 1, input },
    key === undefined ? {} : { "idempotency-key": key }
  )

describe("STORED_BYTES", () => {
  it("refuses creates of a user who keeps more with 422, until something is deleted", async () => {
    const made = [await create("first"), await create()]
    for (const { body, status } of made) {
      assert.strictEqual(status, 201)
      await complete(await system.runOf(body.uuid))
    }
    const refused = await eventually(create, ({ status }) => status !== 201 && status !== 429, 20_000)
    assert.strictEqual(refused.status, 422)
    assert.match(refused.body.errors.body[0], /^Your tasks hold more than 20000 bytes\. Delete ended tasks/)
    const rerun = await service.call("POST", `/api/tasks/${made[0]!.body.uuid}/rerun`, token, {})
    assert.deepStrictEqual([rerun.status, Object.keys(rerun.body.errors)], [422, ["body"]])
    const replayed = await create("first")
    assert.deepStrictEqual([replayed.status, replayed.body.uuid], [201, made[0]!.body.uuid])
    assert.strictEqual((await service.create(await mint("another"), "x")).status, 201)

    const { body: { data } } = await service.call("GET", "/api/tasks?per_page=100", token)
    for (const { status, uuid } of data) {
      if (status !== "completed") await complete(await system.runOf(uuid))
      assert.strictEqual((await service.call("DELETE", `/api/tasks/${uuid}`, token)).status, 204)
    }
    await eventually(create, ({ status }) => status === 201, 20_000)
  })

  it("counts 100 users by a few statements, each over a bounded number of tasks", async () => {
    const { query } = system.database
    await query("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
    await query(resetStatements)
    // The last user's tasks need several pages. All were created in one moment, so that the uuid decides where a page ends.
    await query(`WITH made AS (
        INSERT INTO tasks (uuid, sub, run_id, max_execution_time, created_at, deadline_at, completed_at, status, token_id, assistant_id)
        SELECT gen_random_uuid(), 'crowd-' || n, gen_random_uuid(), 60, now(), now(), now(), 'completed', 'token', 1
        FROM generate_series(1, 99) AS n, generate_series(1, CASE n WHEN 99 THEN 600 ELSE n / 10 END) RETURNING uuid
      ), requests AS (INSERT INTO task_requests (task_uuid, request, user_token) SELECT uuid, repeat('é', 10), '' FROM made)
      INSERT INTO task_turns (task_uuid, turn) SELECT uuid, repeat('x', 100) FROM made`)
    const counted = () =>
      query<{ sub: string; bytes: string; tasks: number }>(
        "SELECT sub, bytes, tasks FROM stored_bytes WHERE sub LIKE 'crowd-%' AND tasks > 0 ORDER BY tasks, sub"
      )
    const users = await eventually(counted, (found) => found.length === 90, 20_000)
    for (const { bytes, sub, tasks } of users) {
      const n = Number(sub.slice(6))
      assert.strictEqual(tasks, n === 99 ? 600 : Math.floor(n / 10), sub)
      assert.strictEqual(Number(bytes), tasks * 120, sub)
    }
    const [statements] = await query<{ counts: number; records: number }>(
      `SELECT sum(calls) FILTER (WHERE query LIKE '%octet_length(request)%')::int AS counts,
        sum(calls) FILTER (WHERE query LIKE '%UPDATE stored_bytes%counted_at%')::int AS records
      FROM pg_stat_statements WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database())`
    )
    assert.isAtLeast(statements!.counts, 4)
    assert.isAtMost(statements!.counts, 6)
    assert.isAtMost(statements!.records, 4)
  })
})
