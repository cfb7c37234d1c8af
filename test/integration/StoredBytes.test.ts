/** What users keep: counted in the background, and limited by STORED_BYTES. */
import { assert, describe, it } from "vitest"
import { complete } from "../kit/ScriptedCore.ts"
import { eventually, mint } from "../kit/Service.ts"
import { use } from "../kit/suite.ts"
import { startSystem } from "../kit/System.ts"

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
})
