/** The tour of the interface with @hey-api/openapi-ts. */
import { client } from "./generated/hey-api/client.gen.ts"
import * as api from "./generated/hey-api/index.ts"
import { note, report, settled, toolResult, weather } from "./tour.ts"

client.setConfig({ baseUrl: process.env["SERVICE_URL"]!, auth: () => process.env["TOKEN"] })

const read = async (uuid: string): Promise<api.Task> => {
  const { data, error } = await api.getTask({ path: { uuid }, query: { wait: 10 } })
  if (data === undefined) throw new Error(error.message)
  return data
}

const create = async (body: api.CreateTask): Promise<string> => {
  const { data } = await api.createTask({ body, throwOnError: true })
  return data.uuid
}

const uploaded = await api.uploadFile({ body: { file: note }, throwOnError: true })
const uuid = await create({
  assistant_id: 2,
  input: [{ type: "text", text: "call weather" }, uploaded.data],
  client_tools: [weather]
})
const interrupted = await settled(() => read(uuid))
const [call] = interrupted.pending_tool_calls ?? []
await api.submitToolResults({ path: { uuid }, body: { results: [toolResult(call!)] }, throwOnError: true })
const task = await settled(() => read(uuid))
const item = task.turn?.output?.[0]
const again = await create({ assistant_id: 1, input: [{ type: "text", text: "Go on." }], turns: [task.turn!] })
const events: Array<string> = []
const { stream } = await api.getTaskEvents({ path: { uuid } })
for await (const event of stream) {
  if (typeof event === "string" || event === undefined) continue
  events.push(event.status)
  if (event.status === "completed") break
}
const list = async (...status: Array<api.TaskStatus>) => {
  const { data } = await api.listTasks({ query: { status, per_page: 10 }, throwOnError: true })
  return data.meta.total
}
await settled(() => read(again))
const missing = await api.getTask({ path: { uuid: "none" } })
report({
  uploaded: uploaded.data.file.name,
  called: interrupted.pending_tool_calls?.map(({ name }) => name),
  text: item?.type === "text" ? item.text : undefined,
  events,
  completed: await list("completed"),
  completedOrFailed: await list("completed", "failed"),
  missing: missing.error?.message
})
