/** The tour of the interface with orval's functions for fetch. */
import * as api from "./generated/orval/api.ts"
import { note, report, settled, toolResult, weather } from "./tour.ts"

const options = { headers: { authorization: `Bearer ${process.env["TOKEN"]}` } }
const json = { headers: { ...options.headers, "content-type": "application/json" } }

const read = async (uuid: string): Promise<api.Task> => {
  const answer = await api.getTask(uuid, { wait: 10 }, options)
  if (answer.status !== 200) throw new Error(`unexpected ${answer.status}`)
  return answer.data
}

const create = async (body: api.CreateTask): Promise<string> => {
  const answer = await api.createTask(body, json)
  if (answer.status !== 201) throw new Error(answer.data.message)
  return answer.data.uuid
}

const uploaded = await api.uploadFile({ file: note }, options)
if (uploaded.status !== 201) throw new Error(uploaded.data.message)
const uuid = await create({
  assistant_id: 2,
  input: [{ type: "text", text: "call weather" }, uploaded.data],
  client_tools: [weather]
})
const interrupted = await settled(() => read(uuid))
const [call] = interrupted.pending_tool_calls ?? []
await api.submitToolResults(uuid, { results: [toolResult(call!)] }, json)
const task = await settled(() => read(uuid))
const item = task.turn?.output?.[0]
const again = await create({ assistant_id: 1, input: [{ type: "text", text: "Go on." }], turns: [task.turn!] })
const events = await api.getTaskEvents(uuid, {}, options)
const list = async (...status: Array<api.TaskStatus>) => {
  const answer = await api.listTasks({ status, per_page: 10 }, options)
  if (answer.status !== 200) throw new Error(`unexpected ${answer.status}`)
  return answer.data.meta.total
}
await settled(() => read(again))
const missing = await api.getTask("none", undefined, options)
report({
  uploaded: uploaded.data.file.name,
  called: interrupted.pending_tool_calls?.map(({ name }) => name),
  text: item?.type === "text" ? item.text : undefined,
  events: String(events.data).match(/(?<=^event: ).*$/gm),
  completed: await list("completed"),
  completedOrFailed: await list("completed", "failed"),
  missing: missing.status === 404 ? missing.data.message : undefined
})
