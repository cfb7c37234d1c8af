import { gzipSync } from "node:zlib"
import { afterEach, assert, describe, it } from "vitest"
import { pause } from "../kit/pause.ts"
import { RawClient } from "../kit/RawClient.ts"
import { eventually, internalToken, mint, Service } from "../kit/Service.ts"
import { expectQuiet, use } from "../kit/suite.ts"
import { startSystem } from "../kit/System.ts"

const jsonLimit = 16 * 1024 * 1024
const body = JSON.stringify({ assistant_id: 1, input: [{ type: "text", text: "x" }] })

const { service, settings } = await use(startSystem({ MAX_ACTIVE_TASKS: "1000" }))
const impatient = await use(Service.start(settings, undefined, "test/kit/ImpatientService.ts"))
expectQuiet(service, impatient)
const token = await mint("raw")

/** Checks that the service still answers other clients. */
afterEach(async () => {
  for (const each of [service, impatient]) {
    // A service that hangs answers never.
    assert.strictEqual((await each.create(token, "still there?")).status, 201)
  }
})

const open = ({ url } = service) => RawClient.open(url)

const head = (line: string, ...headers: ReadonlyArray<string>) =>
  `${[line, "Host: x", `Authorization: Bearer ${token}`, ...headers].join("\r\n")}\r\n\r\n`

const rpcHead = (method: string, ...headers: ReadonlyArray<string>) =>
  head(`${method} /rpc HTTP/1.1`, ...headers).replace(token, internalToken)

const create = (...headers: ReadonlyArray<string>) => head("POST /api/tasks HTTP/1.1", ...headers)

const chunk = (text: string) => `${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`

const length = (size: number) => `Content-Length: ${size}`

/** Sends the whole request and returns the first response. */
const ask = async (request: string | Uint8Array, at = service) => (await open(at)).send(request).answer()

const isClosed = (client: RawClient, timeout?: number) =>
  eventually(async () => client.ended, (ended) => ended !== "open", timeout)

const tasksOf = async () => (await service.call("GET", "/api/tasks", token)).body.meta.total

describe("an ambiguous request", () => {
  it("is rejected, has no effect, and its connection is closed", async () => {
    const smuggled = head("POST /api/tasks/cancel-interrupted HTTP/1.1", "Content-Length: 0")
    const before = await tasksOf()
    const requests: Readonly<Record<string, string>> = {
      "length and chunked": create(length(body.length), "Transfer-Encoding: chunked") + chunk(body) + "0\r\n\r\n",
      "chunked and length": create("Transfer-Encoding: chunked", "Content-Length: 4") + "0\r\n\r\n",
      "two lengths": create(length(body.length), length(3)) + body,
      "two equal lengths": create(length(body.length), length(body.length)) + body,
      "a list of lengths": create(`Content-Length: ${body.length}, ${body.length}`) + body,
      "a signed length": create(`Content-Length: +${body.length}`) + body,
      "a negative length": create("Content-Length: -1") + body,
      "a hexadecimal length": create("Content-Length: 0x10") + body,
      "a length beyond all bounds": create("Content-Length: 99999999999999999999999") + body,
      "a space before the colon": create(`Content-Length : ${body.length}`) + body,
      "a space before the name": create(` ${length(body.length)}`) + body,
      "a folded header": create("X-Folded: a\r\n b", length(body.length)) + body,
      "a name with a space": create("X Y: z", length(body.length)) + body,
      "a bare CR": create("X-A: a\rb", length(body.length)) + body,
      "a bare LF": create(`X-A: a\n${length(body.length)}`) + body,
      "lines with LF alone": (create(length(body.length)) + body).replaceAll("\r\n", "\n"),
      "a NUL": create("X-A: a\0b", length(body.length)) + body,
      "chunked, but not last": create("Transfer-Encoding: chunked, identity") + chunk(body) + "0\r\n\r\n",
      "an unknown coding": create("Transfer-Encoding: xchunked") + chunk(body) + "0\r\n\r\n",
      "chunked twice": create("Transfer-Encoding: chunked", "Transfer-Encoding: chunked") + chunk(body) + "0\r\n\r\n",
      "chunked in HTTP/1.0": create("Transfer-Encoding: xchunked").replace("1.1", "1.0") + chunk(body) + "0\r\n\r\n",
      "a chunk size that is none": `${create("Transfer-Encoding: chunked")}zz\r\n${body}\r\n0\r\n\r\n`,
      "a chunk size with a sign": `${create("Transfer-Encoding: chunked")}+5\r\n${body}\r\n0\r\n\r\n`,
      "a chunk size beyond all bounds": `${create("Transfer-Encoding: chunked")}${"f".repeat(20)}\r\n${body}`,
      "a chunk longer than it says": `${create("Transfer-Encoding: chunked")}5\r\n${body}\r\n0\r\n\r\n`,
      "two hosts": create("Host: y", length(body.length)) + body,
      "two equal hosts": create("Host: x", length(body.length)) + body,
      "two hosts and an upgrade": head("GET /rpc HTTP/1.1", "Host: y", "Connection: Upgrade", "Upgrade: websocket"),
      "a list of hosts": (create(length(body.length)) + body).replace("Host: x", "Host: x, y"),
      "a host with a user": (create(length(body.length)) + body).replace("Host: x", "Host: u@x"),
      "a host with a path": (create(length(body.length)) + body).replace("Host: x", "Host: x/y"),
      "no host": `GET /healthz HTTP/1.1\r\n\r\n`,
      "no host and an upgrade": "GET /rpc HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
      "another version": "GET /healthz HTTP/3.0\r\nHost: x\r\n\r\n",
      "no HTTP": "\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03",
      "a space in the target": head("GET /healthz x HTTP/1.1"),
      "an unknown method": head("BREW /healthz HTTP/1.1")
    }
    for (const [name, request] of Object.entries(requests)) {
      const client = await open()
      client.send(request + smuggled)
      const answer = await client.answer()
      assert.strictEqual(answer.status, 400, name)
      await isClosed(client)
      assert.strictEqual(client.received.match(/HTTP\/1\.1 /g)?.length, 1, `${name}: ${client.received}`)
      assert.match(answer.head, /content-type: application\/json/i, name)
      assert.match(answer.head, /x-request-id: ./i, name)
      assert.isString(JSON.parse(answer.body).message, name)
    }
    assert.strictEqual(await tasksOf(), before)
  })

  it("is not one that merely arrives in pieces or pipelined with others", async () => {
    const client = await open()
    client.socket.setNoDelay(true)
    for (const byte of create("Transfer-Encoding: chunked") + chunk(body) + "0\r\n\r\n") {
      client.send(byte)
      await new Promise(setImmediate)
    }
    assert.strictEqual((await client.answer()).status, 201)
    const list = head("GET /api/tasks?per_page=1 HTTP/1.1")
    const pipelined = create(length(body.length)) + body + list + head("GET /nowhere HTTP/1.1") + create(length(1)) +
      "{"
    client.send(pipelined.repeat(20))
    const answers = await eventually(async () => client.answers(), (all) => all.length === 81)
    for (let at = 1; at < 81; at += 4) {
      assert.deepStrictEqual(answers.slice(at, at + 4).map(({ status }) => status), [201, 200, 404, 422])
    }
  })
})

describe("the headers of a request", () => {
  it("get 431 from 16 KiB on, and not below", async () => {
    const padded = (size: number) => head("GET /healthz HTTP/1.1", `X-Padding: ${"x".repeat(size)}`)
    assert.strictEqual((await ask(padded(12_000))).status, 200)
    for (const request of [padded(16 * 1024), padded(4 * 1024 * 1024), `GET /${"x".repeat(20_000)} HTTP/1.1\r\n\r\n`]) {
      const client = await open()
      await client.sendAll(Buffer.from(request))
      const answer = await client.answer()
      assert.strictEqual(answer.status, 431)
      assert.match(JSON.parse(answer.body).message, /16384 bytes/)
      await isClosed(client)
    }
  })

  it("get 408 when they are late, and no response when nothing arrived", async () => {
    const [slow, silent] = [await open(impatient), await open(impatient)]
    slow.send("GET /healthz HTTP/1.1\r\nHost: x\r\n")
    const drip = setInterval(() => slow.send("X: y\r\n"), 100)
    try {
      assert.strictEqual((await slow.answer()).status, 408)
      await isClosed(slow)
      await isClosed(silent)
    } finally {
      clearInterval(drip)
    }
  })
})

describe("a JSON body", () => {
  const paddedTo = (size: number) => body.slice(0, -1) + " ".repeat(size - body.length) + "}"

  it("may have exactly 16 MiB, and with one byte more gets a 413 that the client can read", async () => {
    const chunks = (text: string) => (text.match(/[^]{1,1000000}/g) ?? []).map(chunk).join("") + "0\r\n\r\n"
    for (const size of [jsonLimit, jsonLimit + 1, jsonLimit + 2_000_000]) {
      const text = paddedTo(size)
      const requests = [create(length(size)) + text, create("Transfer-Encoding: chunked") + chunks(text)]
      for (const request of requests) {
        const client = await open()
        // Like a client that writes everything before it reads.
        client.socket.pause()
        await client.sendAll(Buffer.from(request))
        client.socket.resume()
        const answer = await client.answer()
        assert.strictEqual(answer.status, size === jsonLimit ? 201 : 413)
        if (size === jsonLimit) continue
        // The connection either accepts the next request or is closed without a reset.
        client.send(head("GET /healthz HTTP/1.1"))
        await eventually(async () => client.answers().length === 2 || client.ended !== "open", (settled) => settled)
      }
    }
    const announced = await open()
    announced.send(create(length(jsonLimit + 1)))
    assert.strictEqual((await announced.answer()).status, 413)
    await isClosed(announced)
  })

  it("that stops or is too slow gets 408 and its connection is closed", async () => {
    const requests = [
      create(length(100)) + "{\"a\":",
      create("Transfer-Encoding: chunked") + chunk("{"),
      create(length(9)),
      rpcHead("POST", length(9)),
      rpcHead("POST", "Transfer-Encoding: chunked") + chunk("{")
    ]
    const clients = await Promise.all(requests.map(async (request) => (await open(impatient)).send(request)))
    const drips = clients.slice(0, 1).map((client) => setInterval(() => client.send(" "), 100))
    try {
      for (const client of clients) {
        const answer = await client.answer()
        assert.strictEqual(answer.status, 408)
        assert.isString(JSON.parse(answer.body).message)
        assert.match(answer.head, /connection: close/i)
        await isClosed(client)
      }
    } finally {
      drips.forEach(clearInterval)
    }
  })

  it("that is answered before its end is the connection's last, with Connection: close", async () => {
    const part = "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.exe\"\r\n\r\n" +
      "x".repeat(100_000)
    for (const [framing, sent] of [[length(9_000_000), part], ["Transfer-Encoding: chunked", chunk(part)]] as const) {
      const client = await open()
      client.send(head("POST /api/files HTTP/1.1", "Content-Type: multipart/form-data; boundary=b", framing) + sent)
      const answer = await client.answer()
      assert.strictEqual(answer.status, 422)
      assert.match(answer.head, /connection: close/i, framing)
      await isClosed(client)
    }
    const whole = await open()
    whole.send(create(length(body.length)) + body)
    assert.match((await whole.answer()).head, /connection: keep-alive/i)
  })

  it("that is aborted has no effect", async () => {
    const clients = await Promise.all([create(length(100)), create("Transfer-Encoding: chunked") + "9\r\n"].map(
      async (request) => (await open()).send(`${request}{`)
    ))
    const before = await tasksOf()
    for (const client of clients) client.socket.resetAndDestroy()
    assert.strictEqual(await tasksOf(), before)
  })

  it("that is compressed gets 415 on every endpoint with a body", async () => {
    const packed = gzipSync(body)
    const addresses = ["/api/tasks", "/api/files"]
    for (const address of addresses) {
      const start = head(`POST ${address} HTTP/1.1`, "Content-Encoding: gzip", length(packed.length))
      const answer = await ask(Buffer.concat([Buffer.from(start), packed]))
      assert.strictEqual(answer.status, 415)
      assert.match(answer.head, /accept-encoding: identity/i)
      assert.match(JSON.parse(answer.body).message, /Content-Encoding/)
    }
    assert.strictEqual((await ask(create("Content-Encoding: identity", length(body.length)) + body)).status, 201)
  })

  it("is read as JSON regardless of its Content-Type", async () => {
    const types = ["text/plain", "application/x-www-form-urlencoded", "nonsense", "multipart/form-data; boundary=x"]
    for (const type of types) {
      assert.strictEqual((await ask(create(`Content-Type: ${type}`, length(body.length)) + body)).status, 201, type)
    }
    assert.strictEqual((await ask(create(length(body.length)) + body)).status, 201)
    assert.strictEqual((await ask(create(length(0)))).status, 422)
    assert.strictEqual((await ask(create())).status, 422)
  })

  it("waits for 100-continue; any other expectation gets 417", async () => {
    const client = await open()
    client.send(create("Expect: 100-continue", length(body.length)))
    assert.strictEqual((await client.answer()).status, 100)
    client.send(body)
    assert.strictEqual((await client.answer(1)).status, 201)
    const miracle = await ask(create("Expect: miracles", length(body.length)) + body)
    assert.strictEqual(miracle.status, 417)
    assert.match(JSON.parse(miracle.body).message, /100-continue/)
    const refused = await open()
    refused.send(head("POST /nowhere HTTP/1.1", "Expect: 100-continue", length(5)))
    assert.strictEqual((await refused.answer()).status, 404)
    assert.strictEqual(refused.answers().length, 1)
  })

  it("is ignored by endpoints that have none", async () => {
    const client = await open()
    client.send(head("GET /api/tasks HTTP/1.1", length(body.length)) + body)
    client.send(head("DELETE /healthz HTTP/1.1", "Transfer-Encoding: chunked") + chunk(body) + "0\r\n\r\n")
    client.send(head("GET /healthz HTTP/1.1"))
    await client.answer(2)
    assert.deepStrictEqual(client.answers().map(({ status }) => status), [200, 405, 200])
  })
})

describe("a response", () => {
  it("is cut off when its client does not read it, and not when it reads slowly", async () => {
    const [still, slow] = [await open(impatient), await open(impatient)]
    const many = head("GET /openapi.json HTTP/1.1").repeat(200)
    for (const client of [still, slow]) client.socket.pause()
    await Promise.all([still, slow].map((client) => client.sendAll(Buffer.from(many))))
    const sips = setInterval(() => slow.socket.once("data", () => slow.socket.pause()).resume(), 50)
    try {
      await pause(5000)
      still.socket.resume()
      await isClosed(still)
      assert.isBelow(still.answers().length, 200)
      assert.strictEqual(slow.ended, "open")
    } finally {
      clearInterval(sips)
    }
  })
})
