/** The test clock server over HTTP. `test/examples/clock.ts` shows its use. */
import { Layer, ManagedRuntime } from "effect"
import { afterAll, assert, describe, it } from "vitest"
import * as TestClockServer from "../../../src/runtime/testing/TestClockServer.ts"
import { freePort } from "../../kit/Service.ts"

const port = await freePort()
const url = `http://127.0.0.1:${port}`
const runtime = ManagedRuntime.make(Layer.fresh(TestClockServer.layer({ host: "127.0.0.1", port })))
await runtime.context()
afterAll(() => runtime.dispose())

const request = async (path: string, { body, token }: { readonly body?: object; readonly token?: string } = {}) => {
  const response = await fetch(url + path, {
    method: body === undefined ? "GET" : "POST",
    headers: {
      "content-type": "application/json",
      ...(token === undefined ? {} : { authorization: `Bearer ${token}` })
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) })
  })
  // oxlint-disable-next-line typescript/no-explicit-any -- bodies of many shapes
  return { status: response.status, body: await response.json() as any }
}

const tokenOf = async (sub: string): Promise<string> => (await request("/test/tokens", { body: { sub } })).body.token
const task = { assistant_id: 1, input: [{ type: "text", text: "Why?" }], callback_url: "https://client.example/hook" }

describe("POST /test/reset", () => {
  it("removes the tasks, the records and the settings, and sets the clock back", async () => {
    const before = (await request("/test/clock")).body.now
    const token = await tokenOf("ann")
    const { uuid } = (await request("/api/tasks", { token, body: task })).body
    await request("/test/webhooks", { body: { answer: 500 } })
    await request(`/test/tasks/${uuid}/complete`, { body: { turn: "done" } })
    await request("/test/core", { body: { behaviour: "down" } })
    await request("/test/clock/advance", { body: { duration: "1 hour" } })
    assert.deepStrictEqual(await request("/test/reset", { body: {} }), { status: 200, body: { now: before } })
    const fresh = await tokenOf("ann")
    assert.strictEqual((await request(`/api/tasks/${uuid}`, { token: fresh })).status, 404)
    assert.deepStrictEqual((await request("/test/core")).body, { runs: [], stops: [] })
    assert.deepStrictEqual((await request("/test/webhooks")).body, { received: [] })
    const again = (await request("/api/tasks", { token: fresh, body: task })).body
    await request(`/test/tasks/${again.uuid}/complete`, { body: { turn: "done" } })
    const { received } = (await request("/test/webhooks")).body
    assert.deepStrictEqual(received.map(({ task }: { readonly task: { readonly uuid: string } }) => task.uuid), [
      again.uuid
    ])
    await request("/test/clock/advance", { body: { duration: "1 minute" } })
    assert.lengthOf((await request("/test/webhooks")).body.received, 1)
  })

  it("ends the long polls and event streams of the removed tasks", async () => {
    const token = await tokenOf("bob")
    const { uuid } = (await request("/api/tasks", { token, body: task })).body
    const headers = { authorization: `Bearer ${token}` }
    const events = await fetch(`${url}/api/tasks/${uuid}/events`, { headers })
    const polling = fetch(`${url}/api/tasks/${uuid}?wait=60`, { headers }).then(({ status }) => status)
    await request("/test/core")
    await request("/test/reset", { body: {} })
    assert.include(await events.text(), "event: processing")
    assert.isAtLeast(await polling, 200)
  })
})

describe("responses", () => {
  it("are 422 for a wrong body and 409 for an event that does not fit", async () => {
    const token = await tokenOf("cleo")
    const { uuid } = (await request("/api/tasks", { token, body: task })).body
    const complete = () => request(`/test/tasks/${uuid}/complete`, { body: { turn: "done" } })
    assert.deepStrictEqual(await complete(), { status: 200, body: { status: "completed", applied: true } })
    assert.strictEqual((await complete()).status, 409)
    for (const duration of ["soon", "-30 minutes"]) {
      assert.strictEqual((await request("/test/clock/advance", { body: { duration } })).status, 422)
    }
    assert.strictEqual((await request("/test/tokens", { body: { sub: "" } })).status, 422)
    assert.strictEqual((await request("/test/webhooks", { body: { answer: ["up"] } })).status, 422)
    const run = (await request(`/test/tasks/${uuid}/run`)).body
    assert.deepInclude(run, { taskId: uuid, sub: "cleo", results: null })
    assert.strictEqual((await request("/test/tasks/00000000-0000-4000-8000-000000000000/run")).status, 409)
  })
})
