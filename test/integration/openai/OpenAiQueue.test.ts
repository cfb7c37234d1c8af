/** Responses whose runs wait until the core has room. */
import { assert, describe, it } from "vitest"
import { complete, interrupt } from "../../kit/ScriptedCore.ts"
import { eventually } from "../../kit/Service.ts"
import { use } from "../../kit/suite.ts"
import { startSystem } from "../../kit/System.ts"
import { callsOf, clientOf, ended, refusal, tools, uuidOf } from "./OpenAi.ts"

const system = await use(startSystem({ CORE_RUNS: "1" }))

const background = { model: "7", input: "x", background: true }

describe("a response in the queue", () => {
  it("is queued, also after tool outputs", async () => {
    const client = await clientOf(system.service, "queued")
    const first = await client.responses.create({ ...background, tools })
    const run = await system.runOf(uuidOf(first.id))
    const second = await client.responses.create(background)
    assert.strictEqual((await client.responses.retrieve(second.id)).status, "queued")
    await interrupt(run)
    const other = await system.runOf(uuidOf(second.id))
    const asked = await ended(client, first.id)
    const [call] = callsOf(asked)
    const output = { type: "function_call_output" as const, call_id: call?.call_id ?? "", output: "1" }
    const third = await client.responses.create({
      ...background,
      input: [output],
      previous_response_id: first.id
    })
    assert.strictEqual((await client.responses.retrieve(third.id)).status, "queued")
    await complete(other)
    const resumed = await system.runOf(uuidOf(first.id), run)
    await eventually(() => client.responses.retrieve(third.id), ({ status }) => status === "in_progress")
    await complete(resumed)
    assert.strictEqual((await ended(client, third.id)).status, "completed")
  })

  it("takes a priority of 0 to 5", async () => {
    const client = await clientOf(system.service, "priority")
    const create = (priority: number) => client.responses.create({ ...background, priority } as typeof background)
    assert.deepStrictEqual(await refusal(create(6)), [400, null, "priority"])
    const { id } = await create(2)
    const [row] = await system.database.query<{ priority: number }>(
      `SELECT priority FROM tasks WHERE uuid = '${uuidOf(id)}'`
    )
    assert.strictEqual(row?.priority, 2)
    await complete(await system.runOf(uuidOf(id)))
  })
})
