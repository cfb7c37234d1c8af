/** Many tasks of one user, each once: a program that is run again after a crash creates none twice. */
import { outputText, TaskServiceClient } from "../../../src/http/client/Client.ts" // async-task-service/client

const { tasks } = new TaskServiceClient({
  baseUrl: process.env["TASK_SERVICE_URL"] ?? "http://127.0.0.1:3000",
  token: process.env["TASK_SERVICE_TOKEN"] ?? ""
})

const orders = Array.from({ length: 12 }, (_, index) => ({ id: `order-${index + 1}`, text: `echo order ${index + 1}` }))
const left = [...orders]
const answers = new Map<string, string>()

/** A user has five active tasks (`MAX_ACTIVE_TASKS`): more are refused with 429. Operators raise it for one user, see limit.ts. */
const work = async () => {
  for (let order = left.shift(); order !== undefined; order = left.shift()) {
    const { id, text } = order
    const task = await tasks.run(
      { assistant_id: 1, input: [{ type: "text", text }], metadata: { batch: "2026-11", order: id } },
      { idempotencyKey: id }
    )
    answers.set(id, outputText(task) || `${task.status}: ${task.error}`)
  }
}
await Promise.all([work(), work(), work(), work(), work()])
console.log("answers:", answers.size, answers.get("order-12"))

// By its metadata, the batch can be found later, also what failed of it.
const { meta } = await tasks.list({ metadata: { batch: "2026-11" }, status: "completed" })
console.log("completed:", meta.total)
