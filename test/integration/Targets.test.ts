/** Hosts, methods, targets and versions of requests, as raw bytes. */
import { assert, describe, it } from "vitest"
import { RawClient, requestHead } from "../kit/RawClient.ts"
import { eventually, internalToken, mint } from "../kit/Service.ts"
import { sharedSystem } from "../kit/System.ts"

const { service } = await sharedSystem()
const token = await mint("targets")

const open = () => RawClient.open(service.url)
const ask = async (request: string) => (await open()).send(request).answer()
const head = (line: string, ...headers: ReadonlyArray<string>) =>
  requestHead(line, `Authorization: Bearer ${token}`, ...headers)

describe("a host", () => {
  it("may be a name or an address, with a port or without, or be empty", async () => {
    const client = await open()
    const hosts = ["x_y.example", "x.example.:65535", "127.0.0.1", "[::1]:8080", ""]
    for (const [index, host] of hosts.entries()) {
      client.send(`GET /healthz HTTP/1.1\r\nHost: ${host}\r\n\r\n`)
      assert.strictEqual((await client.answer(index)).status, 200, host)
    }
  })
})

describe("an unusual method or target", () => {
  it("is answered as HTTP defines, never with 500", async () => {
    const cases: ReadonlyArray<readonly [string, number]> = [
      ["OPTIONS /api/tasks", 405],
      ["OPTIONS *", 404],
      ["TRACE /api/tasks", 405],
      ["PUT /api/tasks", 405],
      ["PROPFIND /api/tasks", 405],
      ["CONNECT example.org:443", 405],
      ["GET http://elsewhere.example/healthz", 200],
      ["GET http://elsewhere.example", 404],
      ["GET http://", 404],
      ["GET //healthz", 404],
      ["GET /api//tasks", 404],
      ["GET //elsewhere.example/api/tasks", 404],
      ["GET /api/./tasks", 404],
      ["GET /api/../healthz", 404],
      ["GET /%68ealthz", 200],
      ["GET /api%2ftasks", 404],
      ["GET /api/tasks/%zz", 404],
      ["GET /api/tasks/%ff%fe", 404],
      ["GET /api/tasks/%00", 404],
      ["GET /%zz", 404],
      ["GET /%c0%ae%c0%ae/", 404],
      ["GET /api/tasks?page=%zz", 422],
      ["GET /api/tasks?status=%ff", 422],
      ["GET /healthz?%zz", 200],
      ["GET /healthz#fragment", 404],
      ["GET /api/tasks?__proto__=1&constructor[x]=2", 200],
      ["POST /api/tasks/x/cancel", 404]
    ]
    for (const [line, status] of cases) {
      const answer = await ask(head(line, "Content-Length: 0"))
      assert.strictEqual(answer.status, status, `${line}: ${answer.head}`)
      assert.match(answer.head, /x-request-id: ./i, line)
      if (status >= 400) assert.isString(JSON.parse(answer.body).message, line)
      if (status === 405 && !line.startsWith("CONNECT")) assert.match(answer.head, /allow: POST, GET, HEAD/i)
    }
  })

  it("HEAD returns the headers of GET without the body", async () => {
    const client = await open()
    client.send(head("HEAD /api/tasks") + head("HEAD /nowhere"))
    await eventually(async () => client.received.match(/HTTP\/1\.1 /g)?.length, (count) => count === 2)
    assert.match(client.received, /^HTTP\/1\.1 200 [^]*HTTP\/1\.1 404 /)
    assert.notMatch(client.received, /\r\n\r\n\{/)
  })

  it("an invalid WebSocket upgrade gets a 4xx", async () => {
    const upgrade = "Upgrade: websocket"
    const ofRpc = (...headers: ReadonlyArray<string>) =>
      ask(requestHead("GET /rpc", `Authorization: Bearer ${internalToken}`, upgrade, ...headers))
    assert.strictEqual((await ofRpc()).status, 426)
    assert.strictEqual((await ofRpc("Connection: Upgrade")).status, 400)
    const key = ["Sec-WebSocket-Key: short", "Sec-WebSocket-Version: 13"]
    assert.strictEqual((await ofRpc("Connection: Upgrade", ...key)).status, 400)
  })

  it("HTTP/1.0 and an upgrade that is not wanted are served", async () => {
    const old = await open()
    old.send("GET /healthz HTTP/1.0\r\n\r\n")
    assert.strictEqual((await old.answer()).status, 200)
    await eventually(async () => old.ended, (ended) => ended !== "open")
    // As any other request, and the connection stays open.
    const body = `{"assistant_id":1,"input":[{"type":"text","text":"x"}]}`
    const client = await open()
    client.send(head("GET /healthz", "Connection: Upgrade", "Upgrade: h2c"))
    assert.strictEqual((await client.answer()).status, 200)
    const create = (...headers: ReadonlyArray<string>) => head("POST /api/tasks", "Upgrade: h2c", ...headers)
    client.send(create("Connection: Upgrade, HTTP2-Settings", `Content-Length: ${body.length}`) + body)
    assert.strictEqual((await client.answer(1)).status, 201)
    const chunked = `${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`
    client.send(create("Connection: Upgrade", "Transfer-Encoding: chunked") + chunked)
    assert.strictEqual((await client.answer(2)).status, 201)
    assert.strictEqual(
      (await ask(head("GET /healthz", "Connection: Upgrade", "Upgrade: websocket"))).status,
      200
    )
  })
})
