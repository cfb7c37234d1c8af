/** A task whose run waits until the core has room is submitted, in both versions of the protocol. */
import { assert, describe, it } from "vitest"
import { complete, interrupt } from "../../kit/ScriptedCore.ts"
import { use } from "../../kit/suite.ts"
import { startSystem } from "../../kit/System.ts"
import { atOnce, clientOf, clientTools, messageOf, revision } from "./A2a.ts"

const system = await use(startSystem({ CORE_RUNS: "1", FACADE_MODELS: "analyst=20" }))

const refund = { name: "refund", description: "Refunds.", inputSchema: { type: "object" } }
const withTools = { metadata: { [clientTools]: { client_tools: [refund] } } }
const asks = { "a2a-extensions": `${revision}, ${clientTools}` }

describe("a task in the queue", () => {
  it("is submitted, also after tool results", async () => {
    const client = await clientOf(system.service, "queued")
    const send = async (more: object = {}) =>
      (await client.call("SendMessage", { message: messageOf("x", more), configuration: atOnce }, asks)).body.result
        .task
    const stateOf = async (id: string) => (await client.call("GetTask", { id }, asks)).body.result.status.state
    const first = await send(withTools)
    const run = await system.runOf(first.id)
    const second = await send()
    assert.strictEqual(await stateOf(second.id), "TASK_STATE_SUBMITTED")
    await interrupt(run)
    const other = await system.runOf(second.id)
    const results = { parts: [{ data: { tool_results: [{ tool_call_id: "c1", output: 1 }] } }], taskId: first.id }
    const answered = await client.call("SendMessage", {
      message: { ...messageOf("", {}), ...results },
      configuration: atOnce
    }, asks)
    assert.strictEqual(answered.body.error, undefined, JSON.stringify(answered.body))
    assert.strictEqual(await stateOf(first.id), "TASK_STATE_SUBMITTED")
    await complete(other)
    await complete(await system.runOf(first.id, run))
  })
})
