/** Answers the tool calls of a task. `client.tasks.run` does the same in one call; this shows the steps. */
import { isTerminal, TaskServiceClient } from "../../src/http/client/Client.ts" // async-task-service/client

const { tasks } = new TaskServiceClient({
  baseUrl: process.env["TASK_SERVICE_URL"] ?? "http://127.0.0.1:3000",
  token: process.env["TASK_SERVICE_TOKEN"] ?? ""
})

const weather = (city: unknown) => {
  if (typeof city !== "string") throw new Error("city must be a string")
  return { city, sky: "clear" }
}

const { uuid } = await tasks.create({
  assistant_id: 2, // the demo assistant that calls tools
  input: [{ type: "text", text: "Call weather, please." }],
  client_tools: [{
    type: "function",
    name: "weather",
    description: "The weather of a city",
    parameters: { type: "object", properties: { city: { type: "string", default: "Oslo" } }, required: ["city"] }
  }]
})

let task = await tasks.waitFor(uuid)
while (!isTerminal(task)) {
  // The task is interrupted: every pending call needs exactly one result.
  const results = (task.pending_tool_calls ?? []).map((call) => {
    console.log("call:", call.name, JSON.stringify(call.arguments))
    try {
      return { tool_call_id: call.id, output: weather(call.arguments["city"]) }
    } catch (error) {
      return { tool_call_id: call.id, output: String(error), is_error: true } // the model sees the error
    }
  })
  await tasks.submitToolResults(uuid, results)
  task = await tasks.waitFor(uuid)
}
console.log(task.status)
