import { NotFoundError, TaskServiceClient } from "async-task-service/client"

const client = new TaskServiceClient({ baseUrl: process.env.SERVICE_URL, token: process.env.TOKEN })
const task = await client.tasks.run({ assistant_id: 1, input: [{ type: "text", text: "What is 6 * 7?" }] })
const missing = await client.tasks.get("none").catch((error) => error instanceof NotFoundError)
const small = await import("async-task-service-client")
if (Object.keys(small).join() !== Object.keys(await import("async-task-service/client")).join()) {
  throw new Error("exports")
}
console.log(task.status, task.turn.output[0].text, missing)
