/** A service whose way out is a proxy. Names of other systems exist only for the proxy. */
import * as jose from "jose"
import { generateKeyPairSync } from "node:crypto"
import { once } from "node:events"
import * as fs from "node:fs"
import type { IncomingMessage, ServerResponse } from "node:http"
import { createServer } from "node:https"
import type { AddressInfo } from "node:net"
import * as path from "node:path"
import { text } from "node:stream/consumers"
import { assert, describe, it } from "vitest"
import { openDatabase } from "../kit/databases.ts"
import { ForwardProxy } from "../kit/ForwardProxy.ts"
import { LoopbackServer } from "../kit/LoopbackServer.ts"
import { diagnose, runHere } from "../kit/runToEnd.ts"
import { report, type StartedRun, turnOf } from "../kit/ScriptedCore.ts"
import { eventually, jwtSecret, mint, Service } from "../kit/Service.ts"
import { use } from "../kit/suite.ts"
import { trustCertificate } from "../kit/tls/trust.ts"

const file = (name: string) => path.join(import.meta.dirname, "../kit/tls", name)
const pem = (name: string) => fs.readFileSync(file(name), "utf8")
trustCertificate()

const { privateKey, publicKey } = generateKeyPairSync("ed25519")
const token = await new jose.SignJWT({ sub: "ann" }).setProtectedHeader({ alg: "EdDSA", kid: "k" })
  .setExpirationTime("1 hour").sign(privateKey)

/** The core, the backend, the key set, the collector and the model provider, by path. */
class World {
  readonly paths = new Set<string>()
  readonly runs: Array<StartedRun> = []
  readonly #server = createServer({ key: pem("key.pem"), cert: pem("cert.pem") }, (request, response) => {
    void this.#respond(request, response)
  })

  async listen() {
    this.#server.listen(0, "127.0.0.1")
    await once(this.#server, "listening")
    return this
  }

  get authority() {
    return `target.test:${(this.#server.address() as AddressInfo).port}`
  }

  async #respond(request: IncomingMessage, response: ServerResponse) {
    const { url = "" } = request
    const body = await text(request)
    this.paths.add(url)
    const answer = (status: number, value: unknown) =>
      response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(value))
    if (url === "/keys") {
      return answer(200, { keys: [{ ...publicKey.export({ format: "jwk" }), kid: "k", alg: "EdDSA" }] })
    }
    if (url === "/backend/storage/base") return answer(200, { url: "http://files.test" })
    if (url === "/backend/files") {
      return answer(201, { id: "1", name: "a.txt", mime_type: "text/plain", provider_data: { path: "1" } })
    }
    if (url === "/core/runs") {
      this.runs.push(JSON.parse(body))
      return answer(202, {})
    }
    if (url === "/model/chat/completions") {
      const chunk = { choices: [{ index: 0, delta: { content: "from afar" }, finish_reason: "stop" }] }
      return response.writeHead(200, { "content-type": "text/event-stream" })
        .end(`data: ${JSON.stringify(chunk)}\n\ndata: [DONE]\n\n`)
    }
    answer(200, {})
  }

  async close() {
    this.#server.closeAllConnections()
    await new Promise((resolve) => this.#server.close(resolve))
  }
}

const world = await use(new World().listen())
const proxy = await use(ForwardProxy.listen())
const hook = await use(new LoopbackServer((_, response) => response.end()).listen())
const database = await use(openDatabase())

const lines = () => new Set(proxy.asked.map(({ line }) => line))
const base = `https://${world.authority}`
const away = {
  DATABASE_URL: database.url,
  HTTPS_PROXY: proxy.url("ann:secret"),
  http_proxy: proxy.url("ann:secret").replace("http://", ""),
  NODE_EXTRA_CA_CERTS: file("cert.pem"),
  JWT_SECRET: "",
  JWT_JWKS_URL: `${base}/keys`,
  CORE_URL: `${base}/core`,
  ASSISTANT_BACKEND_URL: `${base}/backend`,
  OTEL_EXPORTER_OTLP_ENDPOINT: `${base}/otlp`,
  OTEL_METRIC_EXPORT_INTERVAL: "200",
  WEBHOOK_ALLOW_PRIVATE: "10.0.0.0/8"
}
const service = await use(Service.start(away))

describe("a service behind a proxy", () => {
  it("reaches core, backend, key set, collector and webhook targets, and says so without the password", async () => {
    const target = `10.1.2.3:${new URL(hook.url).port}`
    const upload = await service.store(token, "a.txt", "hello")
    const created = await service.create(token, "x", { input: [upload], callback_url: `http://${target}/hook` })
    assert.strictEqual(created.status, 201, JSON.stringify(created.body))
    const [run] = await eventually(async () => world.runs, ({ length }) => length > 0)
    await report(run!, { type: "completed", turn: turnOf("done") })
    await service.until(token, created.body.uuid, "completed")
    await eventually(async () => lines(), (found) => found.has(`CONNECT ${target}`))
    await eventually(async () => world.paths, (paths) => paths.has("/otlp/v1/metrics"))
    assert.includeMembers([...world.paths], ["/keys", "/backend/files", "/core/runs"])
    assert.deepStrictEqual([...lines()].toSorted(), [`CONNECT ${target}`, `CONNECT ${world.authority}`].toSorted())
    assert.include(service.output, proxy.url())
    assert.notInclude(service.output, "secret@")
  })

  it("is examined by doctor through the proxy", async () => {
    for (
      const [check, url] of [["core", away.CORE_URL], ["backend", away.ASSISTANT_BACKEND_URL], [
        "keys",
        away.JWT_JWKS_URL
      ]]
    ) {
      assert.strictEqual(await diagnose(away, check!), `ok ${url} is reachable through the proxy ${proxy.url()}`)
    }
    assert.match(await diagnose({ ...away, NO_PROXY: ".test" }, "core"), /^FAIL .*target\.test/)
    assert.match(
      await diagnose({ ...away, https_proxy: "socks5://proxy.test" }, "settings"),
      /^FAIL .*HTTPS_PROXY: must be the URL of an HTTP proxy, .*; SOCKS is not supported$/s
    )
  })

  it("is used by commands through the proxy", async () => {
    const url = `http://tasks.test:${new URL(service.url).port}`
    const env = { HTTP_PROXY: proxy.url(), TASK_SERVICE_TOKEN: token, TASK_SERVICE_URL: url }
    const { code, err, out } = await runHere(["list", "--json"], env)
    assert.strictEqual(code, 0, err)
    assert.lengthOf(JSON.parse(out), 1)
    assert.isTrue([...lines()].some((line) => line.startsWith(`GET ${url}/api/tasks`)))
    const wrapped = await runHere(["list", "--json"], { ...env, HTTP_PROXY: "", http_proxy: `"${proxy.url()}"\r\n` })
    assert.deepStrictEqual([wrapped.code, wrapped.err], [0, ""])
  })

  it.each([
    [{ HTTP_PROXY: "ftp://proxy.test" }, "HTTP_PROXY is ignored: it must be the URL of an HTTP proxy"],
    [{ all_proxy: "socks5://127.0.0.1:9" }, "ALL_PROXY is ignored: it must be the URL of an HTTP proxy"],
    [
      { HTTP_PROXY: proxy.url(), NO_PROXY: "10.0.0.0/255.0.0.0" },
      "NO_PROXY must be a list of names, addresses and ranges, as in .internal,10.0.0.0/8; ignored: 10.0.0.0/255.0.0.0"
    ]
  ])("is a note of commands that call when it is wrong: %j", async (wrong, note) => {
    const env = { TASK_SERVICE_TOKEN: token, TASK_SERVICE_URL: service.url, ...wrong }
    const { code, err } = await runHere(["list", "--json"], env)
    assert.strictEqual(code, 0, err)
    assert.strictEqual(err.split(note).length, 2, err)
    for (const args of [["--help"], ["list", "--help"], ["list", "--wrong"]]) {
      const { code, err } = await runHere(args, env)
      assert.strictEqual(code, args.includes("--help") ? 0 : 2)
      assert.notInclude(err, "_PROXY")
    }
  })
})

describe("the built-in core and backend behind a proxy", () => {
  it("call each other directly, and a model provider through it", async () => {
    proxy.asked.length = 0
    const { close, url } = await openDatabase()
    const own = await Service.start({
      DATABASE_URL: url,
      JWT_SECRET: jwtSecret,
      NODE_EXTRA_CA_CERTS: file("cert.pem"),
      all_proxy: proxy.url(),
      OPENAI_BASE_URL: `${base}/model`,
      OPENAI_MODEL: "m"
    })
    const user = await mint("bob")
    const { uuid } = (await own.create(user, "hello", { assistant_id: 10 })).body
    const { body } = await own.until(user, uuid, "completed")
    assert.strictEqual(body.turn.output[0].text, "from afar")
    assert.deepStrictEqual([...lines()], [`CONNECT ${world.authority}`])
    await own.stop()
    await close()
  })
})
