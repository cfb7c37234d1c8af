import { type CreateTask, TaskServiceClient, ValidationError } from "async-task-service-client"

declare const process: { readonly env: Readonly<Record<string, string>> }
declare const console: { log(...what: ReadonlyArray<unknown>): void }

const client = new TaskServiceClient({ baseUrl: process.env["SERVICE_URL"]!, token: async () => process.env["TOKEN"]! })
const body: CreateTask = { assistant_id: 2, input: [{ type: "text", text: "call weather" }] }
const task = await client.tasks.run(body, {
  tools: { weather: async ({ city }: { city?: string }) => ({ city: city ?? "Oslo", sky: "clear" }) }
})
// @ts-expect-error an id is a number
const wrong: CreateTask = { assistant_id: "1", input: [] }
const error = await client.tasks.create(wrong).catch((reason: unknown) => reason)
let listed = 0
for await (const row of client.tasks.list({ status: "completed" })) {
  // @ts-expect-error a row has no turn
  void row.turn
  listed++
}
console.log(task.status, listed > 0, error instanceof ValidationError ? Object.keys(error.errors).join() : error)
