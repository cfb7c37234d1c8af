/** A chat: words as they are written, and an answer that knows what was said before. */
import { type CreateTask, isTerminal, TaskServiceClient } from "../../../src/http/client/Client.ts" // async-task-service/client

const { tasks } = new TaskServiceClient({
  baseUrl: process.env["TASK_SERVICE_URL"] ?? "http://127.0.0.1:3000",
  token: process.env["TASK_SERVICE_TOKEN"] ?? ""
})

/** The conversation: whole turns of the tasks before. A database of yours keeps the uuid of the last task. */
let turns: CreateTask["turns"] = []

for (const said of ["What is 6 * 7?", "echo goodbye"]) {
  const { uuid } = await tasks.create({ assistant_id: 1, input: [{ type: "text", text: said }], turns })
  process.stdout.write("assistant: ")
  // A page that is reloaded calls `text` again, and gets the text from its beginning.
  for await (const part of tasks.text(uuid)) process.stdout.write(part)
  const task = await tasks.get(uuid)
  console.log(isTerminal(task) ? "" : task.status)
  if (task.turn !== null) turns = [task.turn]
}
const { messages } = JSON.parse(JSON.stringify(turns[0]))
console.log("messages:", messages.length)
