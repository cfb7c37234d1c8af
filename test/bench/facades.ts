/** Milliseconds to make a task over each protocol, one at a time and in turns: `node test/bench/facades.ts [rounds = 300]`. */
import { randomUUID } from "node:crypto"
import { mint } from "../kit/Service.ts"
import { quantile } from "../kit/statistics.ts"
import { numbersOf, startBench } from "./bench.ts"

const { rounds } = numbersOf({ rounds: 300 })
/** Requests before those that are measured: V8 compiles meanwhile. */
const warmUp = 300

const bench = await startBench({ FACADE_MODELS: "writer=4" })
const service = await bench.start()
const token = await mint("someone")

const version = "2026-07-28"
const tasks = "io.modelcontextprotocol/tasks"
const rpc = (method: string, params: object) => ({ jsonrpc: "2.0", id: 1, method, params })
const runAssistant = (args: object) => ({
  name: "run_assistant",
  arguments: { assistant: "writer", prompt: "x", ...args }
})
const ofMcp = { "mcp-protocol-version": version, "mcp-method": "tools/call", "mcp-name": "run_assistant" }
const metaOf = (extensions: object) => ({
  "io.modelcontextprotocol/protocolVersion": version,
  "io.modelcontextprotocol/clientCapabilities": { extensions }
})
const message = (more: object) => ({ messageId: randomUUID(), parts: [{ text: "x" }], ...more })

type Call = readonly [path: string, body: () => object, headers?: Readonly<Record<string, string>>]

const calls: Readonly<Record<string, Call>> = {
  "POST /api/tasks": ["/api/tasks", () => ({ assistant_id: 4, input: [{ type: "text", text: "x" }] })],
  "/v1/responses, background": ["/v1/responses", () => ({ model: "writer", input: "x", background: true })],
  "MCP, a tool that does not wait": [
    "/mcp",
    () => rpc("tools/call", { ...runAssistant({ wait_seconds: 0 }), _meta: metaOf({}) }),
    ofMcp
  ],
  "MCP, the Tasks extension": [
    "/mcp",
    () => rpc("tools/call", { ...runAssistant({}), _meta: metaOf({ [tasks]: {} }) }),
    ofMcp
  ],
  "A2A 1.0, at once": [
    "/a2a",
    () => rpc("SendMessage", { message: message({ role: "ROLE_USER" }), configuration: { returnImmediately: true } }),
    { "a2a-version": "1.0" }
  ],
  "A2A 0.3, not blocking": ["/a2a", () =>
    rpc("message/send", {
      message: { kind: "message", messageId: randomUUID(), role: "user", parts: [{ kind: "text", text: "x" }] },
      configuration: { blocking: false }
    })]
}

const timesOf = new Map(Object.keys(calls).map((name): [string, Array<number>] => [name, []]))
for (let round = -warmUp; round < rounds; round++) {
  for (const [name, [path, body, headers]] of Object.entries(calls)) {
    const startedAt = performance.now()
    const { body: answer, status } = await service.call("POST", path, token, body(), headers)
    if (status >= 300 || answer.error) throw new Error(`${name}: ${status} ${JSON.stringify(answer)}`)
    if (round >= 0) timesOf.get(name)?.push(performance.now() - startedAt)
  }
}
for (const [name, times] of timesOf) {
  console.log(`${name}: p50 ${quantile(times, 0.5).toFixed(1)} ms, p99 ${quantile(times, 0.99).toFixed(1)} ms`)
}
await service.stop()
await bench.close()
