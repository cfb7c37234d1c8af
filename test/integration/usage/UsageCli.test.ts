/** The command `usage` and the example, over built-in assistants, which report their usage. */
import { execFile } from "node:child_process"
import { promisify } from "node:util"
import { assert, describe, it } from "vitest"
import { createTestService } from "../../../src/runtime/testing/createTestService.ts"
import { eventually, mint } from "../../kit/Service.ts"
import { use, useDirectory } from "../../kit/suite.ts"
import { startSystem } from "../../kit/System.ts"

const { service } = await use(startSystem({ CORE_URL: "", DATA_DIR: useDirectory() }))
const token = await mint("billed")
const environment = { ...process.env, TASK_SERVICE_URL: service.url, TASK_SERVICE_TOKEN: token }

const run = async (...args: ReadonlyArray<string>) =>
  (await promisify(execFile)(process.execPath, args, { env: environment, timeout: 45_000 })).stdout

describe("built-in assistants", () => {
  it("report usage, which the example sums", async () => {
    const lines = (await run("test/examples/usage/bill.ts")).trim().split("\n")
    assert.match(lines[0] ?? "", /^task: \d+ tokens, reported$/)
    assert.match(lines[1] ?? "", /^demo-\S+: \d+ in, \d+ out, no price$/)
    assert.strictEqual(lines[2], "month: 1 tasks, 0 without usage")
  })

  it("count both runs of a task with tool results", async () => {
    const create = await service.create(token, "Call weather, please.", {
      assistant_id: 2,
      client_tools: [{ type: "function", name: "weather" }]
    })
    const path = `/api/tasks/${create.body.uuid}`
    const read = () => service.call("GET", `${path}?wait=10&include=usage`, token)
    const first = await eventually(read, ({ body }) => body.status === "interrupted")
    const [{ id }] = first.body.pending_tool_calls
    await service.call("POST", `${path}/tool-results`, token, { results: [{ tool_call_id: id, output: "sunny" }] })
    const last = await eventually(read, ({ body }) => body.status === "completed")
    assert.isAbove(last.body.usage.input_tokens, first.body.usage.input_tokens)
    assert.deepInclude(last.body.usage, { source: "reported", is_final: true })
  })
})

describe("the command usage", () => {
  it("prints a table with a bar", async () => {
    const printed = await run("src/runtime/cli/Cli.ts", "usage", "--by", "assistant", "--step", "day")
    const [head, ...rows] = printed.trim().split("\n")
    assert.match(head ?? "", /^FROM +ASSISTANT +TASKS +INPUT +OUTPUT +TOKENS$/)
    assert.match(rows[0] ?? "", /^\d{4}-\d\d-\d\d +\d +\d+ +\d+ +\d+ +[█▏▎▍▌▋▊▉]+ \d+$/)
    assert.match(rows.at(-1) ?? "", /^total /)
    const failure = await run("src/runtime/cli/Cli.ts", "usage", "--step", "week").catch((error) => error)
    assert.include(failure.stderr, "step")
  })
})

describe("the test kit", () => {
  it("counts usage under its clock", async () => {
    const kit = await use(createTestService())
    const { tasks, usage } = kit.client("ann")
    const { uuid } = await tasks.create({ assistant_id: 1, input: [{ type: "text", text: "x" }] })
    assert.isNull((await tasks.get(uuid, { include: ["usage"] })).usage)
    const { totals } = await usage.get({ step: "total" })
    assert.strictEqual(totals.tasks, 0)
  })
})
