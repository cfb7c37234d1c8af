/**
 * Tests of a client in another language would look like this: they drive the test clock server over HTTP, here with
 * node:test and `fetch` alone. Start it with `async-task-service serve --test-clock`.
 */
import { strict as assert } from "node:assert"
import { beforeEach, test } from "node:test"

const url = process.env["TEST_CLOCK_URL"] ?? "http://127.0.0.1:3000"
let token = ""

// oxlint-disable-next-line typescript/no-explicit-any -- plain JSON, as in a language without types
const call = async (path: string, body?: object): Promise<any> => {
  const response = await fetch(url + path, {
    method: body === undefined ? "GET" : "POST",
    headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
    ...(body === undefined ? {} : { body: JSON.stringify(body) })
  })
  if (!response.ok) throw new Error(`${response.status} ${await response.text()}`)
  return response.json()
}

const create = async (more: object = {}): Promise<string> =>
  (await call("/api/tasks", { assistant_id: 1, input: [{ type: "text", text: "Why?" }], ...more })).uuid

beforeEach(async () => {
  await call("/test/reset", {})
  token = (await call("/test/tokens", { sub: "ann" })).token
})

test("a task fails after 24 hours", async () => {
  const uuid = await create()
  await call(`/test/tasks/${uuid}/progress`, { turn: "so far" })
  await call("/test/clock/advance", { duration: "24 hours" })
  const task = await call(`/api/tasks/${uuid}`)
  assert.equal(task.error, "Task exceeded maximum execution time (86400s)")
  assert.equal(task.turn.output[0].text, "so far")
})

test("a webhook is sent again after 10 and 30 seconds", async () => {
  const uuid = await create({ callback_url: "https://client.example/hook" })
  await call("/test/webhooks", { answer: [500, 500, 204] })
  await call(`/test/tasks/${uuid}/complete`, { turn: "done" })
  await call("/test/clock/advance", { duration: "10 minutes" })
  const times = (await call("/test/webhooks")).received.map(({ at }: { readonly at: string }) => Date.parse(at))
  assert.equal(times.length, 3)
  assert.deepEqual([10, 30].map((least, n) => (times[n + 1] - times[n]) / 1000 >= least), [true, true])
})

test("tool results resume a task", async () => {
  const uuid = await create()
  await call(`/test/tasks/${uuid}/interrupt`, { calls: { look: { at: 1 } } })
  const [{ id }] = (await call(`/api/tasks/${uuid}`)).pending_tool_calls
  const results = [{ tool_call_id: id, output: "nothing" }]
  await call(`/api/tasks/${uuid}/tool-results`, { results })
  assert.deepEqual((await call(`/test/tasks/${uuid}/run`)).results, results)
  await call(`/test/tasks/${uuid}/complete`, { turn: "done" })
  assert.equal((await call(`/api/tasks/${uuid}`)).status, "completed")
})
