/** Deletion of ended tasks. */
import { assert, describe, it } from "vitest"
import { pause } from "../kit/pause.ts"
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
  it("deletes all rows of an ended task and its pending webhook", async () => {
    target.script = (_, response) => response.writeHead(500).end()
    const token = await mint("eraser")
    const { uuid } = (await service.create(token, "x", { callback_url: `${target.url}/hook` })).body
    const run = await runOf(uuid)
    await complete(run)
    await eventually(async () => target.postsOf(uuid), ({ length }) => length === 1)
    assert.strictEqual((await service.call("DELETE", `/api/tasks/${uuid}`, token)).status, 204)
    const counts = await database.query<{ n: number }>(
      tables.map((table) => `SELECT count(*)::int AS n FROM ${table}`).join(" UNION ALL ")
    )
    assert.deepStrictEqual(counts.map(({ n }) => n), tables.map(() => 0))
    assert.strictEqual((await complete(run)).status, 404)
  })

  it("leaves nothing of tasks whose webhooks are being sent, retried by hand or recorded, and begins no attempt later", async () => {
    target.script = (_, response, number) =>
      setTimeout(() => response.writeHead(number % 2 === 0 ? 500 : 204).end(), (number * 37) % 400)
    const deleteOne = async (index: number) => {
      const token = await mint(`eraser-${index}`)
      const body = { callback_url: `${target.url}/hook`, metadata: { index: String(index) } }
      const { uuid } = (await service.create(token, "x", body)).body
      await complete(await runOf(uuid))
      await pause((index * 13) % 300)
      const redeliver = service.call("POST", `/api/tasks/${uuid}/deliveries/${uuid}-1/redeliver`, token)
      const erased = await service.call("DELETE", `/api/tasks/${uuid}`, token)
      const erasedAt = performance.now()
      assert.strictEqual(erased.status, 204)
      assert.include([202, 404, 409], (await redeliver).status)
      return { uuid, erasedAt }
    }
    // A few at a time: sixty at once delay each other's attempts.
    const deleteSome = async (first: number) => {
      const erased = []
      for (let index = first; index < 60; index += 12) erased.push(await deleteOne(index))
      return erased
    }
    const erased = (await Promise.all(Array.from({ length: 12 }, (_, first) => deleteSome(first)))).flat()
    const all = [...tables, "task_metadata", "task_labels"]
    const count = () =>
      database.query<{ n: number }>(all.map((table) => `SELECT count(*)::int AS n FROM ${table}`).join(" UNION ALL "))
    const isEmpty = (counts: Awaited<ReturnType<typeof count>>) => counts.every(({ n }) => n === 0)
    // Outcomes of attempts that were under way are recorded later.
    await eventually(count, isEmpty)
    await pause(1500)
    assert.isTrue(isEmpty(await count()))
    // An attempt that was claimed before may still reach the target.
    const late = erased.flatMap(({ erasedAt, uuid }) => target.postsOf(uuid).filter(({ at }) => at > erasedAt + 1000))
    assert.isEmpty(late)
    assert.notMatch(service.output, /ERROR/)
  })
})
