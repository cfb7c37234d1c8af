/** The tour of the interface with openapi-typescript and openapi-fetch. */
import createClient from "openapi-fetch"
import type { components, paths } from "./generated/openapi-typescript/schema.ts"
import { note, report, settled, toolResult, weather } from "./tour.ts"

const client = createClient<paths>({
  baseUrl: process.env["SERVICE_URL"]!,
  headers: { authorization: `Bearer ${process.env["TOKEN"]}` }
})

const read = async (uuid: string): Promise<components["schemas"]["Task"]> => {
  const { data, error } = await client.GET("/api/tasks/{uuid}", { params: { path: { uuid }, query: { wait: 10 } } })
  if (data === undefined) throw new Error(error.message)
  return data
}

const uploaded = await client.POST("/api/files", {
  body: { file: "" }, // typed as text: the serializer sends the file itself
  bodySerializer: () => {
    const form = new FormData()
    form.set("file", note)
    return form
  }
})
const created = await client.POST("/api/tasks", {
  params: { header: { "Idempotency-Key": "openapi-fetch" } },
  body: {
    assistant_id: 2,
    input: [{ type: "text", text: "call weather" }, uploaded.data!],
    client_tools: [weather]
  }
})
const { uuid } = created.data!
const interrupted = await settled(() => read(uuid))
const [call] = interrupted.pending_tool_calls ?? []
await client.POST("/api/tasks/{uuid}/tool-results", {
  params: { path: { uuid } },
  body: { results: [toolResult(call!)] }
})
const task = await settled(() => read(uuid))
const item = task.turn?.output?.[0]
const again = await client.POST("/api/tasks", {
  body: { assistant_id: 1, input: [{ type: "text", text: "Go on." }], turns: [task.turn!] }
})
const events = await client.GET("/api/tasks/{uuid}/events", { params: { path: { uuid } }, parseAs: "text" })
const list = async (...status: Array<components["schemas"]["TaskStatus"]>) => {
  const { data } = await client.GET("/api/tasks", { params: { query: { status, per_page: 10 } } })
  return data!.meta.total
}
await settled(() => read(again.data!.uuid))
const missing = await client.GET("/api/tasks/{uuid}", { params: { path: { uuid: "none" } } })
report({
  uploaded: uploaded.data!.file.name,
  called: interrupted.pending_tool_calls?.map(({ name }) => name),
  text: item?.type === "text" ? item.text : undefined,
  events: String(events.data).match(/(?<=^event: ).*$/gm),
  completed: await list("completed"),
  completedOrFailed: await list("completed", "failed"),
  missing: missing.error?.message
})
