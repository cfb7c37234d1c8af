/** Deletion of ended tasks. */
import { assert, describe, it } from "vitest"
import { complete } from "../kit/ScriptedCore.ts"
import { WebhookTarget } from "../kit/ScriptedService.ts"
import { eventually, mint } from "../kit/Service.ts"
import { use } from "../kit/suite.ts"
import { startSystem } from "../kit/System.ts"

const system = await use(startSystem({ WEBHOOK_ALLOW_PRIVATE: "true" }))
const target = await use(new WebhookTarget().listen())
const { database, runOf, service } = system

const tables = ["tasks", "task_requests", "task_turns", "task_events", "webhook_deliveries", "webhook_attempts"]

describe("DELETE /api/tasks/{uuid}", () => {
  it("deletes all rows of an ended task and its pending webhook, and a repeated create returns the first response", async () => {
    target.script = (_, response) => response.writeHead(500).end()
    const token = await mint("eraser")
    const create = () =>
      service.call(
        "POST",
        "/api/tasks",
        token,
        { assistant_id: 1, input: [{ type: "text", text: "x" }], callback_url: `${target.url}/hook` },
        { "idempotency-key": "once" }
      )
    const first = await create()
    const { uuid } = first.body
    const run = await runOf(uuid)
    const erase = (as: string) => service.call("DELETE", `/api/tasks/${uuid}`, as)
    const early = await erase(token)
    assert.deepStrictEqual([early.status, early.body], [
      409,
      { message: "The task is pending. Only a task that has ended can be deleted." }
    ])
    await complete(run)
    await eventually(async () => target.postsOf(uuid), ({ length }) => length === 1)
    assert.strictEqual((await erase(await mint("stranger"))).status, 403)
    const erased = await erase(token)
    assert.deepStrictEqual([erased.status, erased.body], [204, ""])
    assert.strictEqual((await erase(token)).status, 404)
    assert.strictEqual((await service.get(token, uuid)).status, 404)
    assert.strictEqual((await service.call("GET", "/api/tasks", token)).body.meta.total, 0)
    const counts = await database.query<{ n: number }>(
      tables.map((table) => `SELECT count(*)::int AS n FROM ${table}`).join(" UNION ALL ")
    )
    assert.deepStrictEqual(counts.map(({ n }) => n), tables.map(() => 0))
    const again = await create()
    assert.deepStrictEqual([again.status, again.body], [201, first.body])
    assert.strictEqual(again.headers.get("idempotent-replayed"), "true")
    assert.strictEqual((await complete(run)).status, 404)
  })
})
