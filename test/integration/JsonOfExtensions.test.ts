/** JSON that extensions pass on reaches its receivers byte for byte, and no document changes another one. */
import { assert, it } from "vitest"
import { documents } from "../kit/keptJson.ts"
import { interrupt } from "../kit/ScriptedCore.ts"
import { mint } from "../kit/Service.ts"
import { use } from "../kit/suite.ts"
import { startSystem } from "../kit/System.ts"

const system = await use(startSystem({ FACADE_MODELS: "writer=4" }))
const { service } = system

const send = async (
  method: string,
  path: string,
  token: string,
  body?: string,
  headers: Record<string, string> = {}
) => {
  const { status, text } = await service.call(method, path, token, body, headers)
  assert.isBelow(status, 300, text)
  return text
}

const toolOf = (json: string) => `"client_tools":[{"type":"function","name":"f","parameters":${json}}]`
const requestOf = (token: string, uuid: string) => send("GET", `/api/tasks/${uuid}?include=request`, token)
const callOf = (method: string, params: string) => `{"jsonrpc":"2.0","id":1,"method":"${method}","params":${params}}`
const call = { id: "c", name: "f", arguments: {} }

const uuidIn = (text: string) => /"(?:uu)?id":"([^"]+)"/.exec(text)?.[1] ?? ""

/** The bytes of the results that a task goes on with. */
const resultsOf = async (uuid: string) => {
  const [row] = await system.database.query<{ readonly tool_results: string }>(
    `SELECT tool_results FROM task_requests WHERE task_uuid = '${uuid}'`
  )
  return String(row?.tool_results)
}

it.each(documents)("a schedule gives it to each of its tasks: %s", async (json) => {
  const token = await mint("schedules json")
  const task = `{"assistant_id":1,"input":[{"type":"text","text":"x"}],"turns":[{"messages":[${json}]}],${
    toolOf(json)
  }}`
  const { id } = JSON.parse(
    await send("POST", "/api/schedules", token, `{"type":"once","delay":60,"task":${task}}`)
  )
  const shown = await send("GET", `/api/schedules/${id}`, token)
  assert.include(shown, `"turns":[{"messages":[${json}]}]`)
  const { uuid } = JSON.parse(await send("POST", `/api/schedules/${id}/trigger`, token, "{}"))
  const request = await requestOf(token, uuid)
  assert.include(request, `"turns":[${json}]`)
  assert.include(request, `"parameters":${json}`)
})

it.each(documents)("MCP gives it to the assistant: %s", async (json) => {
  const token = await mint("mcp json")
  const tool = `{"name":"f","inputSchema":${json}}`
  const made = await send(
    "POST",
    "/mcp",
    token,
    callOf(
      "tools/call",
      `{"name":"run_assistant","arguments":{"assistant":"writer","prompt":"x","wait_seconds":0,"client_tools":[${tool}]}}`
    )
  )
  const { task_id: uuid } = JSON.parse(made).result.structuredContent
  assert.include(await requestOf(token, uuid), `"parameters":${json}`)
  await interrupt(await system.runOf(uuid), { tool_calls: [call] })
  const results = `[{"tool_call_id":"c","output":${json}}]`
  await send(
    "POST",
    "/mcp",
    token,
    callOf("tools/call", `{"name":"answer_task","arguments":{"task_id":"${uuid}","results":${results}}}`)
  )
  assert.include(await resultsOf(uuid), `"output":${json}`)
})

it.each(documents)("A2A gives it to the assistant: %s", async (json) => {
  const token = await mint("a2a json")
  const extension = "urn:async-task-service:a2a:client-tools:v1"
  const headers = { "a2a-version": "1.0", "a2a-extensions": extension }
  const message = `"role":"ROLE_USER","messageId":"${crypto.randomUUID()}"`
  const made = await send(
    "POST",
    "/a2a",
    token,
    callOf(
      "SendMessage",
      `{"message":{${message},"parts":[{"text":"x"}],"metadata":{"${extension}":{${
        toolOf(json)
      }}}},"configuration":{"returnImmediately":true}}`
    ),
    headers
  )
  const { id: uuid } = JSON.parse(made).result.task
  assert.include(await requestOf(token, uuid), `"parameters":${json}`)
  await interrupt(await system.runOf(uuid), { tool_calls: [call] })
  const data = `{"tool_results":[{"tool_call_id":"c","output":${json}}]}`
  await send(
    "POST",
    "/a2a",
    token,
    callOf(
      "SendMessage",
      `{"message":{"role":"ROLE_USER","messageId":"${crypto.randomUUID()}","taskId":"${uuid}","parts":[{"data":${data}}]},"configuration":{"returnImmediately":true}}`
    ),
    headers
  )
  assert.include(await resultsOf(uuid), `"output":${json}`)
})

it("the names of metadata are those of their sender, over every way in", async () => {
  const token = await mint("names")
  // Not read with `JSON.parse`, which has the fault.
  for (const name of [String.raw`"\\"`, String.raw`"\n"`]) {
    const metadata = `"metadata":{"a":"0",${name}:"1"}`
    const task = `{"assistant_id":1,"input":[{"type":"text","text":"x"}],${metadata}}`
    const created = await send("POST", "/api/tasks", token, task)
    const made = await send("POST", "/api/schedules", token, `{"type":"once","delay":60,"task":${task}}`)
    const shown = [
      await send("GET", `/api/tasks/${uuidIn(created)}?include=metadata`, token),
      await send("POST", "/v1/responses", token, `{"model":"writer","input":"x","background":true,${metadata}}`),
      made
    ]
    for (const text of shown) assert.include(text.replaceAll(" ", ""), `${name}:"1"`)
  }
})
