/** A task whose run waits until the core has room: what its host is told, and its priority. */
import { assert, describe, it } from "vitest"
import { complete, report } from "../../kit/ScriptedCore.ts"
import { mint } from "../../kit/Service.ts"
import { use } from "../../kit/suite.ts"
import { startSystem } from "../../kit/System.ts"
import { sendTo } from "./Mcp.ts"

const system = await use(startSystem({ CORE_RUNS: "1" }))
const { database, service } = system

const call = async (token: string, method: string, params: Record<string, unknown>) =>
  (await sendTo(service, token, method, params)).body

describe("a task in the queue", () => {
  it("is working, with its place as the message", async () => {
    const token = await mint("queued")
    const start = async (args: object = {}) => {
      const given = { name: "run_assistant", arguments: { assistant: 7, prompt: "x", ...args } }
      return (await call(token, "tools/call", given)).result
    }
    const first = await start()
    const run = await system.runOf(first.taskId)
    await report(run, { type: "processing" })
    const tasks = [await start({ priority: 3 }), await start({ priority: 3 })]
    const messages = []
    for (const { taskId } of tasks) {
      const { result } = await call(token, "tasks/get", { taskId })
      messages.push([result.status, result.statusMessage])
    }
    assert.deepStrictEqual(messages, [["working", "Queued, next"], ["working", "Queued, 1 before it"]])
    const priorities = await database.query("SELECT priority FROM tasks ORDER BY created_at")
    assert.deepStrictEqual(priorities, [{ priority: 5 }, { priority: 3 }, { priority: 3 }])
    const refused = await start({ priority: 6 })
    assert.isTrue(refused.isError)
    assert.match(refused.content[0].text, /priority: Expected an integer between 0 and 5/)
    await complete(run)
    for (const { taskId } of tasks) await complete(await system.runOf(taskId))
  })
})
