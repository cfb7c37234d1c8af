/** Held answers of one user, bodies that are costly to read, and answers to questions that were not asked. */
import { assert, it } from "vitest"
import { complete, interrupt, report } from "../../kit/ScriptedCore.ts"
import { eventually, mint } from "../../kit/Service.ts"
import { use } from "../../kit/suite.ts"
import { assertBounded, startVictim } from "../kit/Victim.ts"

const victim = await use(startVictim())
const { service } = victim
const current = "2026-07-28"

const send = async (token: string, method: string, params: Record<string, unknown>, signal?: AbortSignal) => {
  const _meta = {
    "io.modelcontextprotocol/protocolVersion": current,
    "io.modelcontextprotocol/clientCapabilities": {
      elicitation: {},
      extensions: { "io.modelcontextprotocol/tasks": {} }
    }
  }
  const response = await fetch(`${service.url}/mcp`, {
    method: "POST",
    headers: {
      authorization: `Bearer ${token}`,
      "content-type": "application/json",
      "mcp-protocol-version": current,
      "mcp-method": method,
      "mcp-name": String(params["name"] ?? params["taskId"]).slice(0, 100)
    },
    body: JSON.stringify({ jsonrpc: "2.0", id: 1, method, params: { ...params, _meta } }),
    signal: signal ?? null
  })
  // oxlint-disable-next-line typescript/no-explicit-any -- tests look into answers of every shape
  return await response.json() as any
}

const start = async (sub: string) => {
  const token = await mint(sub)
  const { result } = await send(token, "tools/call", {
    name: "run_assistant",
    arguments: { assistant: 7, prompt: "x" }
  })
  return { token, taskId: result.taskId as string, run: await victim.runOf(result.taskId) }
}

it("answers the calls of one user above 1,000 held ones immediately, and the others when their task ends", async () => {
  const { run, taskId, token } = await start("holder")
  await report(run, { type: "processing" })
  const statusAfter = async (wait_seconds: number) => {
    const call = { name: "get_task", arguments: { task_id: taskId, wait_seconds } }
    return (await send(token, "tools/call", call)).result.structuredContent.status as string
  }
  const calls: Array<Promise<string>> = []
  for (let group = 0; group < 10; group++) {
    calls.push(...Array.from({ length: 100 }, () => statusAfter(50)))
    await statusAfter(0)
  }
  const isFull = async () => {
    const began = performance.now()
    await statusAfter(3)
    return performance.now() - began < 2000
  }
  await eventually(isFull, (full) => full, 30_000)
  const { health } = await victim.observe(() => new Promise((resolve) => setTimeout(resolve, 3000)))
  assert.isBelow(health.at(-1) ?? 0, 100, "ms of /healthz")
  const observation = await victim.observe(async () => {
    await complete(run, "x".repeat(1000))
    assert.deepStrictEqual(new Set(await Promise.all(calls)), new Set(["completed"]))
  })
  assertBounded(observation)
}, 120_000)

// oxlint-disable-next-line vitest/expect-expect -- `assertBounded` asserts
it("reads large and deep messages within its bounds", async () => {
  const token = await mint("sender")
  const text = "x".repeat(15_000_000)
  const bodies: ReadonlyArray<Record<string, unknown>> = [
    { name: text },
    {
      name: "run_assistant",
      arguments: { assistant: 7, prompt: 1, files: Array.from({ length: 1_000_000 }, () => ({})) }
    },
    { name: "get_task", arguments: { task_id: text } },
    { name: "answer_task", arguments: { task_id: "x", results: Array.from({ length: 300_000 }, () => ({})) } },
    {
      name: "list_tasks",
      arguments: Object.fromEntries(Array.from({ length: 300_000 }, (_, index) => [`a${index}`, 1]))
    }
  ]
  const observation = await victim.observe(async () => {
    for (const body of bodies) {
      const { error, result } = await send(token, "tools/call", body)
      if (body["name"] !== "list_tasks") assert.isTrue(error !== undefined || result.isError)
    }
  })
  assertBounded(observation, 250)
}, 120_000)

it("stores no more answers to questions than one request may have", async () => {
  const { run, taskId, token } = await start("answerer")
  const tool_calls = Array.from({ length: 40 }, (_, index) => ({ id: `c${index}`, name: "look", arguments: {} }))
  await interrupt(run, { tool_calls })
  const observation = await victim.observe(async () => {
    for (let index = 0; index < 10; index++) {
      const answer = { action: "accept", content: { output: `${index}`.repeat(5_000_000) } }
      await send(token, "tasks/update", { taskId, inputResponses: { [`0-c${index}`]: answer } })
    }
    const others = Object.fromEntries(
      Array.from({ length: 100_000 }, (_, index) => [`${index}`, { action: "decline" }])
    )
    assert.deepStrictEqual((await send(token, "tasks/update", { taskId, inputResponses: others })).result, {
      resultType: "complete"
    })
  })
  const { result } = await send(token, "tasks/get", { taskId })
  const open = Object.keys(result.inputRequests)
  assert.include(open, "0-c3")
  assert.notInclude(open, "0-c0")
  assertBounded(observation, 250)
}, 120_000)
