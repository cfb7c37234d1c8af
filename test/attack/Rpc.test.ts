/** `/rpc` under attack: unauthenticated requests take almost no resources, authenticated ones a bounded amount. */
import { assert, describe, it, onTestFinished } from "vitest"
import * as Limits from "../../src/domain/Limits.ts"
import { handshake, RawClient, requestHead } from "../kit/RawClient.ts"
import { eventually, internalToken } from "../kit/Service.ts"
import { expectQuiet, use } from "../kit/suite.ts"
import { startVictim } from "./kit/Victim.ts"

const mebibyte = 1024 * 1024
const bearer = `Authorization: Bearer ${internalToken}`

const victim = await use(startVictim())
expectQuiet(victim.service)
const head = (method: string, ...headers: ReadonlyArray<string>) => requestHead(`${method} /rpc`, ...headers)

const openRaw = async (request: string) => (await RawClient.open(victim.service.url)).send(request)

const call = (id: unknown, tag = "Tasks.list", payload: unknown = { sub: "someone" }) => ({
  _tag: "Request",
  id,
  tag,
  payload,
  headers: []
})

const lines = (messages: ReadonlyArray<unknown>) => messages.map((message) => `${JSON.stringify(message)}\n`).join("")

const parse = (text: string) => text.split("\n").filter((line) => line !== "").map((line) => JSON.parse(line))

const post = async (body: string, headers: Record<string, string> = {}) => {
  const response = await fetch(`${victim.service.url}/rpc`, {
    method: "POST",
    body,
    headers: { authorization: `Bearer ${internalToken}`, ...headers },
    signal: AbortSignal.timeout(20_000)
  })
  return { status: response.status, headers: response.headers, text: await response.text() }
}

/** A WebSocket that records received messages. */
class Line {
  readonly socket: WebSocket
  readonly answers: Array<any> = []
  closed: number | undefined

  constructor(token = internalToken) {
    const options = { headers: { authorization: `Bearer ${token}` } } as unknown as string
    this.socket = new WebSocket(`${victim.service.url.replace("http", "ws")}/rpc`, options)
    this.socket.addEventListener("message", ({ data }) => this.answers.push(...parse(String(data))))
    this.socket.addEventListener("close", ({ code }) => this.closed = code)
    this.socket.addEventListener("error", () => {})
    onTestFinished(() => this.socket.close())
  }

  async open() {
    await eventually(async () => this.socket.readyState, (state) => state !== WebSocket.CONNECTING)
    return this
  }

  until(holds: (answers: ReadonlyArray<any>) => boolean) {
    return eventually(async () => this.answers, (answers) => holds(answers) || this.closed !== undefined)
  }
}

const upgrade = async () => {
  const client = await openRaw(head("GET", bearer, ...handshake))
  await eventually(async () => client.received, (text) => text.includes("\r\n\r\n"))
  return client
}

/** One text message of a WebSocket client. */
const frame = (text: string) => {
  const payload = Buffer.from(text)
  const start = Buffer.alloc(14)
  start.writeUInt16BE(0x81ff, 0)
  start.writeBigUInt64BE(BigInt(payload.length), 2)
  return Buffer.concat([start, payload])
}

const errorOf = ({ exit }: any) => exit.cause[0].error

describe("a caller without one of the tokens", () => {
  it("gets 401 before its body is read, regardless of its size", async () => {
    const { baseMemory, health, peakMemory } = await victim.observe(async () => {
      const body = Buffer.alloc(14 * mebibyte, "[1],")
      for (const authorization of ["X-None: 1", "Authorization: Bearer wrong", "Authorization: Basic eDp4"]) {
        await Promise.all(Array.from({ length: 8 }, async () => {
          const client = await openRaw(head("POST", authorization, `Content-Length: ${body.length}`))
          await client.sendAll(body)
          const answer = await client.answer()
          assert.strictEqual(answer.status, 401)
          assert.match(answer.head, /www-authenticate: bearer/i)
          assert.isString(JSON.parse(answer.body).message)
        }))
      }
    })
    assert.isBelow(peakMemory - baseMemory, 150)
    assert.isBelow(health.at(-1) ?? 0, 1000)
  })
})

describe("many calls in one POST", () => {
  it("are all answered, from 1 to 1,000", async () => {
    for (const count of [1, 16, 17, 100, 1000]) {
      const { status, text } = await post(lines(Array.from({ length: count }, (_, id) => call(id))))
      assert.strictEqual(status, 200)
      const answers = parse(text)
      assert.deepStrictEqual(new Set(answers.map(({ requestId }) => requestId)).size, count)
      assert.isTrue(answers.every(({ _tag, exit }) => _tag === "Exit" && exit._tag === "Success"))
    }
  })

  it("are all rejected when there are too many", async () => {
    const { status, text } = await post(lines(Array.from({ length: 1001 }, (_, id) => call(id))))
    assert.strictEqual(status, 413)
    assert.match(JSON.parse(text).message, /1000/)
    const { longestTurn } = await victim.observe(async () => {
      assert.strictEqual((await post("\n".repeat(16 * mebibyte))).status, 413)
    })
    assert.isBelow(longestTurn, 500)
  })

  it("are answered although the last line is not terminated", async () => {
    for (
      const body of [lines([call("a"), call("b")]).trimEnd(), lines([call("a"), call("b")]).replaceAll("\n", "\r\n")]
    ) {
      assert.deepStrictEqual(parse((await post(body)).text).map(({ requestId }) => requestId).toSorted(), ["a", "b"])
    }
  })

  it("are read only up to the byte limit", async () => {
    const limit = Limits.rpcMessageBytes
    const padded = (size: number) => JSON.stringify(call("a")).padEnd(size)
    assert.strictEqual((await post(padded(limit))).status, 200)
    assert.strictEqual((await post(padded(limit + 1))).status, 413)
    const packed = await post(lines([call("a")]), { "content-encoding": "gzip" })
    assert.strictEqual(packed.status, 415)
  })
})

describe("eight concurrent large POSTs", () => {
  it("take a few times their size in memory, whatever their content", async () => {
    const fill: Readonly<Record<string, readonly [number, string]>> = {
      "one text": [200, JSON.stringify("x".repeat(14 * mebibyte))],
      "small values": [200, `[${"[],".repeat(14 * mebibyte / 3)}0]`]
    }
    for (const [name, [expected, task]] of Object.entries(fill)) {
      const body = `{"_tag":"Request","id":1,"tag":"Tasks.create","payload":{"sub":"x","task":${task}}}`
      const { baseMemory, longestTurn, peakMemory } = await victim.observe(async () => {
        const found = await Promise.all(Array.from({ length: 8 }, () => post(body)))
        assert.deepStrictEqual([...new Set(found.map(({ status }) => status))], [expected], name)
      })
      assert.isBelow(peakMemory - baseMemory, 500, name)
      assert.isBelow(longestTurn, 500, name)
    }
  })
})

describe("an invalid call", () => {
  it("gets an InvalidRequest that names the field, by POST and over a WebSocket", async () => {
    const wrong = [
      call("sub", "Tasks.list", { sub: 1 }),
      call("none", "Tasks.list", null),
      call("uuid", "Tasks.get", { sub: "x", uuid: ["y"] }),
      call("item", "Tasks.list", { sub: "x", status: ["pending", 1] }),
      call("tag", "No.such", {})
    ]
    const line = await new Line().open()
    line.socket.send(lines(wrong))
    const [byPost, bySocket] = [
      parse((await post(lines(wrong))).text),
      await line.until((answers) => answers.length >= wrong.length)
    ]
    for (const answers of [byPost, bySocket]) {
      const byId = new Map(answers.map((answer) => [answer.requestId, answer]))
      for (const { id } of wrong) {
        assert.strictEqual(errorOf(byId.get(id))._tag, "InvalidRequest", JSON.stringify(byId.get(id)))
      }
      assert.deepStrictEqual(Object.keys(errorOf(byId.get("sub")).errors), ["sub"])
      assert.deepStrictEqual(Object.keys(errorOf(byId.get("uuid")).errors), ["uuid"])
      assert.deepStrictEqual(Object.keys(errorOf(byId.get("item")).errors), ["status.1"])
    }
  })

  it("gets 422 by POST, and no call of the batch is executed", async () => {
    const bodies = [
      "not json\n",
      "[]\n",
      "null\n",
      "{}\n",
      lines([{ ...call("a"), id: {} }]),
      lines([{ ...call("a"), tag: 1 }]),
      lines([call("a"), call("a")]),
      `${lines([call("a")])}{"_tag":`
    ]
    for (const body of bodies) {
      const { status, text } = await post(body)
      assert.strictEqual(status, 422, body)
      assert.deepStrictEqual(Object.keys(JSON.parse(text).errors), ["body"], body)
    }
    assert.strictEqual((await post("")).status, 200)
  })

  it("gets a defect over a WebSocket, which stays open", async () => {
    const line = await new Line().open()
    const bad = [
      "not json",
      "[]",
      "{\"_tag\":\"Request\"",
      "{\"_tag\":\"Eof\"}",
      "{\"_tag\":\"Ack\"}",
      "\0".repeat(1000)
    ]
    for (const text of bad) line.socket.send(text)
    line.socket.send(JSON.stringify(call(1)))
    line.socket.send(new TextEncoder().encode(JSON.stringify({ _tag: "Ping" })))
    const answers = await line.until((all) => all.length >= bad.length + 2)
    const tags = answers.map(({ _tag }) => _tag)
    assert.strictEqual(tags.filter((tag) => tag === "Defect").length, bad.length)
    assert.includeMembers(tags, ["Exit", "Pong"])
  })
})

describe("a WebSocket", () => {
  it("buffers no unterminated lines, on 60 connections", async () => {
    const { baseMemory, health, peakMemory } = await victim.observe(async () => {
      const unfinished = frame(`{"_tag":"Request","payload":"${"x".repeat(4 * mebibyte)}`)
      for (let n = 0; n < 60; n++) {
        const client = await upgrade()
        await client.sendAll(unfinished)
        await eventually(async () => client.received, (text) => text.includes("Defect"))
      }
    })
    assert.isBelow(peakMemory - baseMemory, 150)
    assert.isBelow(health.at(-1) ?? 0, 2000)
  })

  it("is closed with an error that names the limit when a message is too long", async () => {
    const line = await new Line().open()
    line.socket.send("x".repeat(Limits.rpcMessageBytes + 1))
    assert.strictEqual(await eventually(async () => line.closed, (code) => code !== undefined), 1009)
    assert.include(line.answers[0]?.defect.message, `longer than ${Limits.rpcMessageBytes} bytes`)
  })

  it("rejects concurrent calls above its limit and answers the others", async () => {
    const line = await new Line().open()
    line.socket.send(lines(Array.from({ length: 1000 }, (_, id) => call(id))))
    line.socket.send(lines(Array.from({ length: 1000 }, (_, id) => call(1000 + id))))
    const answers = await line.until((all) => all.length >= 2000)
    assert.strictEqual(answers.length, 2000)
    const failures = answers.filter(({ exit }) => exit._tag === "Failure")
    assert.isAtMost(failures.length, 1000)
    assert.isTrue(failures.every((answer) => errorOf(answer)._tag === "Unavailable"))
    line.socket.send(lines(Array.from({ length: 1001 }, (_, id) => call(`n${id}`))))
    const [defect] = await line.until((all) => all.length > 2000).then((all) => all.slice(2000))
    assert.strictEqual(defect._tag, "Defect")
  })

  it("is terminated when its peer sends calls but never reads", async () => {
    const client = await upgrade()
    client.socket.pause()
    const unknown = `x${"y".repeat(60_000)}`
    const { baseMemory, peakMemory } = await victim.observe(async () => {
      for (let n = 0; n < 3000 && !client.socket.destroyed; n++) {
        await client.sendAll(frame(JSON.stringify(call(n + unknown, "No.such", {}))))
      }
    })
    assert.isBelow(peakMemory - baseMemory, 250)
  })

  it("is rejected when 100 are open", async () => {
    const clients = await Promise.all(Array.from({ length: 110 }, upgrade))
    const found = clients.map(({ received }) => Number(/^HTTP\/1\.1 (\d+)/.exec(received)?.[1]))
    assert.strictEqual(found.filter((status) => status === 101).length, 100)
    assert.strictEqual(found.filter((status) => status === 503).length, 10)
    for (const client of clients) client.close()
    await eventually(
      async () => (await new Line().open()).socket.readyState,
      (state) => state === WebSocket.OPEN
    )
  })
})
