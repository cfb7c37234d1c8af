/** The official client with the Tasks extension: runs, answers and cancels. The host coordinates the requests that the client does not know. */
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client"
import { createTaskSessionFromClient, resultFromTaskOutcome } from "@modelcontextprotocol/ext-tasks/client"

const url = new URL(`${process.env["SERVICE_URL"]}/mcp`)
const authorization = `Bearer ${process.env["TOKEN"]}`
const clientInfo = { name: "app", version: "1" }
const protocolVersion = "2026-07-28"

let id = 0
const rawDispatch = async (request: any) => {
  const { method, params } = request
  const response = await fetch(url, {
    method: "POST",
    headers: {
      authorization,
      "content-type": "application/json",
      accept: "application/json, text/event-stream",
      "mcp-protocol-version": protocolVersion,
      "mcp-method": method,
      "mcp-name": params.name ?? params.taskId
    },
    body: JSON.stringify({ ...request, jsonrpc: "2.0", id: id++ })
  })
  const { error, result } = await response.json()
  return error === undefined ? { kind: "result" as const, result } : { kind: "error" as const, error }
}

const client = new Client(clientInfo, { versionNegotiation: { mode: "auto" } })
await client.connect(new StreamableHTTPClientTransport(url, { requestInit: { headers: { authorization } } }))
const asked: Array<string> = []
const session = createTaskSessionFromClient(client, {
  endpointId: "app",
  rawDispatch,
  v2RequestFraming: { protocolVersion, clientInfo, clientCapabilities: { elicitation: {} } },
  onInputRequest: async ({ params }: any) => {
    asked.push(params.message)
    return { action: "accept", content: { confirm: true } } as any
  }
})
const resultOf = async (name: string, args: Record<string, string | number>) => {
  const execution = await session.callTool(name, args)
  const { outcome } = await execution.settle()
  return { kind: execution.kind, result: resultFromTaskOutcome(outcome) as any }
}
const greeted = await resultOf("greet", { name: "World" })
const answered = await resultOf("confirm_delete", { filename: "a.txt" })
const failed = await resultOf("failing_job", {})
const running = await session.callTool("slow_compute", { seconds: 60 })
await running.cancel()
const { status: canceled } = await running.result()
console.log(JSON.stringify({
  greeted: [greeted.kind, greeted.result.content[0].text],
  answered: [answered.kind, answered.result.structuredContent.status, answered.result.structuredContent.output],
  failed: [failed.kind, failed.result.isError, failed.result.structuredContent.error],
  canceled,
  asked
}))
await session.close()
await client.close()
