/** A stop button: the work ends, not only the waiting for it. */
import { ConflictError, TaskServiceClient } from "../../../src/http/client/Client.ts" // async-task-service/client

const { tasks } = new TaskServiceClient({
  baseUrl: process.env["TASK_SERVICE_URL"] ?? "http://127.0.0.1:3000",
  token: process.env["TASK_SERVICE_TOKEN"] ?? ""
})

const { uuid } = await tasks.create({
  assistant_id: 3, // the demo assistant that is slow
  input: [{ type: "text", text: "take 600" }]
})
for await (const { event } of tasks.events(uuid)) {
  console.log(event)
  // The user presses the button while the core works.
  if (event === "processing") console.log((await tasks.stop(uuid, { reason: "The user pressed stop" })).status)
}
const { error, status } = await tasks.get(uuid)
console.log("now:", status, error)

// It may have ended in the same moment.
await tasks.stop(uuid).catch((error: unknown) => {
  if (!(error instanceof ConflictError)) throw error
  console.log("again:", error.message)
})
