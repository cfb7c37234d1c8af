/** A task failed: the same request once more, with another assistant, and the answer without asking the user again. */
import { outputText, TaskServiceClient } from "../../../src/http/client/Client.ts" // async-task-service/client

const { tasks } = new TaskServiceClient({
  baseUrl: process.env["TASK_SERVICE_URL"] ?? "http://127.0.0.1:3000",
  token: process.env["TASK_SERVICE_TOKEN"] ?? ""
})

const failed = await tasks.run({
  assistant_id: 500, // the demo assistant that fails
  input: [{ type: "text", text: "What is 6 * 7?" }],
  metadata: { order: "7" }
})
console.log(failed.status, failed.error)

// All else stays as it was, metadata and files too.
const { uuid } = await tasks.rerun(failed.uuid, { assistant_id: 1 })
const task = await tasks.waitFor(uuid)
console.log(task.status, outputText(task))
const { meta } = await tasks.list({ metadata: { order: "7" } })
console.log("tasks of the order:", meta.total)
