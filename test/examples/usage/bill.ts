/** The bill of this month: tokens and cost by model, and what one task took. */
import { TaskServiceClient } from "../../../src/http/client/Client.ts" // async-task-service/client

const { tasks, usage } = new TaskServiceClient({
  baseUrl: process.env["TASK_SERVICE_URL"] ?? "http://127.0.0.1:3000",
  token: process.env["TASK_SERVICE_TOKEN"] ?? ""
})

const { uuid } = await tasks.run({ assistant_id: 1, input: [{ type: "text", text: "What is 6 * 7?" }] })
const task = await tasks.get(uuid, { include: ["usage"] })
console.log("task:", task.usage?.total_tokens, "tokens,", task.usage?.source)

const { data, meta, totals } = await usage.get({ step: "month", group_by: ["model"] })
for (const { cost, group, input_tokens, output_tokens } of data) {
  // PRICES_FILE has the prices of models.
  const price = cost === null ? "no price" : `${cost} ${meta.currency}`
  console.log(`${group.model ?? "no model"}: ${input_tokens} in, ${output_tokens} out, ${price}`)
}
console.log("month:", totals.tasks, "tasks,", totals.unmetered_tasks, "without usage")
