/** Creates a task with nothing but `fetch`, and polls it until it has ended. */

const url = process.env["TASK_SERVICE_URL"] ?? "http://127.0.0.1:3000"
const headers = {
  authorization: `Bearer ${process.env["TASK_SERVICE_TOKEN"]}`,
  "content-type": "application/json",
  // A repeated request with the same key creates no second task.
  "idempotency-key": crypto.randomUUID()
}

const created = await fetch(`${url}/api/tasks`, {
  method: "POST",
  headers,
  body: JSON.stringify({ assistant_id: 1, input: [{ type: "text", text: "What is 6 * 7?" }] })
})
if (!created.ok) throw new Error(await created.text())
const { uuid } = await created.json() as { uuid: string }

interface Task {
  readonly status: string
  readonly error: string | null
  readonly turn: { readonly output: ReadonlyArray<{ readonly text?: string }> } | null
}

const readTask = async () => {
  const response = await fetch(`${url}/api/tasks/${uuid}`, { headers })
  if (!response.ok) throw new Error(await response.text())
  return await response.json() as Task
}

let task = await readTask()
while (!["completed", "failed", "canceled"].includes(task.status)) {
  await new Promise((resolve) => setTimeout(resolve, 1000))
  task = await readTask()
}
console.log(task.status, task.turn?.output[0]?.text ?? task.error)
