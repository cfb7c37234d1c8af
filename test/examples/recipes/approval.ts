/** A human approves: the task waits, for hours if need be, while no process of yours runs. */
import { TaskServiceClient } from "../../../src/http/client/Client.ts" // async-task-service/client

const { tasks } = new TaskServiceClient({
  baseUrl: process.env["TASK_SERVICE_URL"] ?? "http://127.0.0.1:3000",
  token: process.env["TASK_SERVICE_TOKEN"] ?? ""
})

// Your app creates the task and ends. `max_execution_time` is how long the human may take, in seconds.
const { uuid } = await tasks.create({
  assistant_id: 2, // the demo assistant that calls tools
  input: [{ type: "text", text: "call approve" }],
  max_execution_time: 8 * 3600,
  client_tools: [{ type: "function", name: "approve", description: "Asks a manager before money is spent" }]
})
await tasks.waitFor(uuid) // only for this program: a webhook says the same without waiting

// The manager's page lists what waits, in another process.
for await (const { pending_tool_calls: calls = [], uuid } of tasks.list({ status: "interrupted" })) {
  console.log("waits:", calls.map(({ name }) => name).join())
  const results = calls.map(({ id }) => ({ tool_call_id: id, output: { approved: true, by: "manager" } }))
  await tasks.submitToolResults(uuid, results)
}

console.log("then:", (await tasks.waitFor(uuid)).status)
