/** `POST /api/tasks/{uuid}/stop`: clients end tasks also while the core works on them. */
import { assert, describe, it } from "vitest"
import { complete, interrupt, report, turnOf } from "../kit/ScriptedCore.ts"
import { mint } from "../kit/Service.ts"
import { sharedSystem } from "../kit/System.ts"

const system = await sharedSystem()
const { core, runOf, service } = system

const create = async (sub: string) => {
  const token = await mint(sub)
  const { uuid } = (await service.create(token, "x")).body
  const stop = (body?: object, key?: string, of = uuid, by = token) =>
    service.call("POST", `/api/tasks/${of}/stop`, by, body, key === undefined ? {} : { "idempotency-key": key })
  return { sub, token, uuid, stop, run: await runOf(uuid) }
}

describe("POST /api/tasks/{uuid}/stop", () => {
  it("cancels a pending, a processing and an interrupted task, and the core stops", async () => {
    for (const status of ["pending", "processing", "interrupted"] as const) {
      const { run, stop, token, uuid } = await create(`stops-${status}`)
      if (status === "processing") await report(run, { type: "progress", turn: turnOf("half") })
      if (status === "interrupted") await interrupt(run)
      const answer = await stop()
      assert.deepStrictEqual([answer.status, answer.body], [200, { uuid, status: "canceled" }])
      const { body } = await service.get(token, uuid)
      assert.deepStrictEqual([body.status, body.error], ["canceled", "canceled"], status)
      await core.stopped(run)
      const late = await complete(run)
      assert.deepStrictEqual([late.status, late.body["status"]], [409, "canceled"])
      const again = await stop()
      assert.deepStrictEqual([again.status, again.body.code], [409, "task_has_ended"])
    }
  })

  it("keeps the reason and the partial result", async () => {
    const { run, stop, token, uuid } = await create("explains")
    await report(run, { type: "progress", turn: turnOf("half") })
    assert.strictEqual((await stop({ reason: "enough" })).status, 200)
    const { body } = await service.get(token, uuid)
    assert.deepStrictEqual([body.error, body.turn], ["enough", turnOf("half")])
  })

  it("takes effect once for each idempotency key", async () => {
    const { stop, uuid } = await create("repeats")
    const answers = await Promise.all([stop({}, "s1"), stop({}, "s1"), stop({}, "s1")])
    assert.deepStrictEqual(answers.map(({ body, status }) => [status, body.uuid]), [[200, uuid], [200, uuid], [
      200,
      uuid
    ]])
    assert.strictEqual(answers.filter(({ headers }) => headers.has("idempotent-replayed")).length, 2)
    assert.strictEqual((await stop({}, "s1")).headers.get("idempotent-replayed"), "true")
    assert.strictEqual((await stop({ reason: "other" }, "s1")).status, 422)
    assert.strictEqual((await stop({}, "s2")).status, 409)
  })

  it("refuses without a token, of another user and of no task before it looks at the body", async () => {
    const { stop, uuid } = await create("owner")
    const wrong = { reason: "x".repeat(1001) }
    assert.strictEqual((await service.call("POST", `/api/tasks/${uuid}/stop`, "", wrong)).status, 401)
    assert.strictEqual((await stop(wrong, undefined, uuid, await mint("stranger"))).status, 403)
    assert.strictEqual((await stop(wrong, undefined, "nonsense")).status, 404)
    const refused = await stop(wrong)
    assert.deepStrictEqual([refused.status, Object.keys(refused.body.errors)], [422, ["reason"]])
  })

  it("races with the end of the run: one of the two wins", async () => {
    for (let round = 0; round < 10; round++) {
      const { run, stop, token, uuid } = await create(`racer-${round}`)
      const [ended, stopped] = await Promise.all([complete(run), stop()])
      const { status } = (await service.get(token, uuid)).body
      assert.deepStrictEqual([ended.status, stopped.status], status === "completed" ? [200, 409] : [409, 200])
    }
  })
})
