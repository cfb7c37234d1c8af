import { get } from "node:http"
import { assert, describe, it, onTestFinished } from "vitest"
import { complete, report } from "../kit/ScriptedCore.ts"
import { freePort, internalToken, mint, Service } from "../kit/Service.ts"
import { expectQuiet, use } from "../kit/suite.ts"
import { startSystem } from "../kit/System.ts"

const internalPort = await freePort()
const system = await use(startSystem({ INTERNAL_PORT: String(internalPort) }))
const { service } = system
expectQuiet(service)
const internalUrl = `http://127.0.0.1:${internalPort}`
const user = await mint("ann")

const statusOf = async (url: string, token: string, method = "GET") => {
  const response = await fetch(url, { method, headers: { authorization: `Bearer ${token}` } })
  await response.body?.cancel()
  return response.status
}

/** The status of the response to a WebSocket handshake. */
const upgrade = (url: string) =>
  new Promise<number | undefined>((resolve, reject) => {
    const headers = {
      authorization: `Bearer ${internalToken}`,
      connection: "upgrade",
      upgrade: "websocket",
      "sec-websocket-version": "13",
      "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ=="
    }
    get(`${url}/rpc`, { headers })
      .on("upgrade", ({ statusCode }, socket) => {
        socket.destroy()
        resolve(statusCode)
      })
      .on("response", (response) => {
        response.resume()
        resolve(response.statusCode)
      })
      .on("error", reject)
  })

describe("INTERNAL_PORT", () => {
  it("serves the internal routes, and PORT does not, whatever their spelling", async () => {
    const internal = [
      "/internal/metrics",
      "/rpc",
      "/%69nternal/metrics",
      "/internal/metri%63s",
      "/rp%63",
      "/internal/metrics/"
    ]
    for (const path of internal) {
      const answer = await service.call("GET", path, internalToken)
      assert.strictEqual(answer.status, 404, path)
      assert.deepStrictEqual(answer.body, {
        message: "There is nothing at this address.",
        code: "not_found"
      })
      assert.match(answer.headers.get("x-request-id") ?? "", /^[\w-]+$/)
      assert.strictEqual(await statusOf(service.url + path, internalToken, "DELETE"), 404, path)
    }
    assert.strictEqual(await statusOf(`${internalUrl}/internal/metrics`, internalToken), 200)
    assert.strictEqual(await statusOf(`${internalUrl}/internal/metrics`, "wrong"), 401)
    assert.strictEqual(await statusOf(`${internalUrl}/internal/metrics`, internalToken, "DELETE"), 405)
    assert.strictEqual(await statusOf(`${internalUrl}/rpc`, internalToken), 426)
    assert.deepStrictEqual(await Promise.all([service.url, internalUrl].map(upgrade)), [404, 101])
  })

  it("does not serve the public routes", async () => {
    for (const path of ["/api/tasks", "/docs", "/openapi.json"]) {
      assert.strictEqual(await statusOf(internalUrl + path, user), 404, path)
      assert.strictEqual(await statusOf(service.url + path, user), 200, path)
    }
    for (const url of [service.url, internalUrl]) {
      for (const path of ["/healthz", "/readyz"]) assert.strictEqual(await statusOf(url + path, user), 200, url + path)
    }
  })

  it("is where the core reports", async () => {
    const { body } = await service.create(user, "x")
    const run = await system.runOf(body.uuid)
    assert.strictEqual(run.events_url, `${internalUrl}/internal/core/events`)
    assert.strictEqual((await report(run, { type: "processing" })).status, 200)
    const wrong = { ...run, events_url: run.events_url.replace(internalUrl, service.url) }
    assert.strictEqual((await complete(wrong)).status, 404)
    await complete(run)
    assert.strictEqual((await service.get(user, body.uuid)).body.status, "completed")
  })

  it("works with the built-in core, even if its address is not written as an origin", async () => {
    const settings = { DATABASE_URL: system.database.url, HOST: "LOCALHOST", INTERNAL_PORT: String(await freePort()) }
    const own = await use(Service.start(settings), onTestFinished)
    const { body } = await own.create(user, "What is 6 * 7?")
    const { body: task } = await own.until(user, body.uuid, "completed")
    assert.include(JSON.stringify(task), "42")
  })
})
