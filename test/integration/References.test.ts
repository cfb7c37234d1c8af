/** Tasks that repeat or continue another one refer to it: nothing large is copied, and the core receives all of it. */
import { assert, describe, it } from "vitest"
import { deleted, referring } from "../kit/referring.ts"
import { complete, interrupt, type StartedRun } from "../kit/ScriptedCore.ts"
import { eventually, mint } from "../kit/Service.ts"
import { sharedSystem } from "../kit/System.ts"

const system = await sharedSystem()
const { core, runOf, service } = system
const { away, ended, remove, rerun, storedBytes } = referring(system)

const fieldsOf = (
  { assistant_id, client_tools, image_generator_id, input, llm_model_id, turns }: StartedRun & Record<string, unknown>
) => ({ assistant_id, client_tools, image_generator_id, input, llm_model_id, turns })

describe("a rerun", () => {
  const turns = [{ role: "user", content: "x".repeat(100_000) }]

  it("stores what it replaces, also one of a rerun, and the core receives the whole request", async () => {
    const token = await mint("reruns")
    const { body: { uuid } } = await service.create(token, "x", { turns, llm_model_id: 7 })
    const first = await runOf(uuid)
    const { body: { uuid: second } } = await rerun(token, uuid)
    const { body: { uuid: third } } = await rerun(token, second, { llm_model_id: 8 })
    const { body: { uuid: fourth } } = await rerun(token, third, { turns: null })
    const asked = fieldsOf(first)
    assert.deepStrictEqual(fieldsOf(await runOf(second)), asked)
    assert.deepStrictEqual(fieldsOf(await runOf(third)), { ...asked, llm_model_id: 8 })
    assert.deepStrictEqual(fieldsOf(await runOf(fourth)), { ...asked, llm_model_id: 8, turns: [] })
    for (const one of [second, third, fourth]) assert.isBelow(await storedBytes(one), 200)
  })

  it("is put together again for each attempt and resume", async () => {
    const token = await mint("resumes")
    const { body: { uuid: original } } = await service.create(token, "x", { turns })
    const asked = fieldsOf(await runOf(original))
    const back = away()
    const { body: { uuid } } = await rerun(token, original)
    await runOf(uuid)
    back()
    const run = await eventually(
      async () => core.runOf(uuid),
      () => core.runs.filter(({ task_id }) => task_id === uuid).length > 1
    )
    await interrupt(run!)
    await service.call("POST", `/api/tasks/${uuid}/tool-results`, token, {
      results: [{ tool_call_id: "c1", output: 1 }]
    })
    assert.deepStrictEqual(fieldsOf(await runOf(uuid, run)), asked)
  })

  it("of a task whose predecessor was deleted is 409, and one that has not begun fails with the reason", async () => {
    const token = await mint("deleted")
    const { body: { uuid: original } } = await service.create(token, "x", { turns })
    await complete(await runOf(original))
    const { body: { uuid } } = await rerun(token, original)
    const run = await runOf(uuid)
    await interrupt(run)
    await remove(token, original)
    const refused = await rerun(token, uuid)
    assert.strictEqual(refused.status, 409)
    assert.match(refused.body.message, /was deleted/)
    assert.isNull((await service.call("GET", `/api/tasks/${uuid}?include=request`, token)).body.request)
    await service.call("POST", `/api/tasks/${uuid}/tool-results`, token, {
      results: [{ tool_call_id: "c1", output: 1 }]
    })
    const { body } = await ended(token, uuid)
    assert.deepStrictEqual([body.status, body.error], ["failed", deleted])
  })
})
