/** Live text on one node: appends of a core, and readers of `?include=text`. */
import { once } from "node:events"
import * as net from "node:net"
import { assert, describe, it, onTestFinished } from "vitest"
import { LiveReader } from "../kit/LiveReader.ts"
import { complete, interrupt, report, type StartedRun, turnOf } from "../kit/ScriptedCore.ts"
import { eventually, internalToken, mint } from "../kit/Service.ts"
import { sharedSystem } from "../kit/System.ts"

const system = await sharedSystem()
const { runOf, service } = system

let users = 0

const begin = async () => {
  const token = await mint(`live-${++users}`)
  const { uuid } = (await service.create(token, "x")).body
  const run = await runOf(uuid)
  let index = 0
  return {
    token,
    uuid,
    run,
    append: (text: string, at = index++) => report(run, { type: "progress", append: { index: at, text } }),
    read: async (lastId?: string, text?: string) => {
      const reader = await LiveReader.open(service.url, token, uuid, lastId, text)
      onTestFinished(() => reader.close())
      return reader
    }
  }
}

const batch = (events: ReadonlyArray<unknown>) =>
  service.call("POST", "/internal/core/events", internalToken, { events })

describe("appends of a core", () => {
  it("are numbered: a repeated one changes nothing, and a gap is answered by the index that is expected", async () => {
    const { append, read, run, token, uuid } = await begin()
    const reader = await read()
    const answers = [await append("Be"), await append("Be", 0), await append("use", 2), await append("cause", 1)]
    assert.deepStrictEqual(answers.map(({ body, status }) => [status, body]), [
      [200, { status: "processing", applied: true, next: 1 }],
      [200, { status: "processing", applied: false, next: 1 }],
      [200, { status: "processing", applied: false, next: 1 }],
      [200, { status: "processing", applied: true, next: 2 }]
    ])
    const several = await report(run, {
      type: "progress",
      appends: [{ index: 1, text: "cause" }, { index: 2, text: " it" }, { index: 3, text: " is." }, {
        index: 5,
        text: "?"
      }]
    })
    assert.deepStrictEqual(several.body, { status: "processing", applied: true, next: 4 })
    await reader.has("Because it is.")
    // Nothing of it is stored.
    assert.isNull((await service.get(token, uuid)).body.turn)
    assert.strictEqual(reader.replaced, 0)
  })

  it("give way to a whole turn, which says which appends it has", async () => {
    const { append, read, run, token, uuid } = await begin()
    const reader = await read()
    await append("Hello")
    await append(" wor")
    const progress = (turn: object, next_append?: number) => report(run, { type: "progress", turn, next_append })
    assert.deepStrictEqual((await progress(turnOf("Hello world"), 7)).body, {
      status: "processing",
      applied: true,
      next: 7
    })
    assert.deepStrictEqual((await append("!", 7)).body["next"], 8)
    await reader.has("Hello world!")
    // The same text, and one that goes on, are no news for a reader.
    await progress(turnOf("Hello world!"), 8)
    await progress(turnOf("Hello world! How"), 9)
    await reader.has("Hello world! How")
    assert.strictEqual(reader.replaced, 0)
    await progress(turnOf("Goodbye"), 9)
    await reader.has("Goodbye")
    assert.strictEqual(reader.replaced, 1)
    const last = reader.texts.at(-1)!
    assert.deepStrictEqual(last.data, { offset: 0, text: "Goodbye", replaced: true })
    await append(".", 9)
    await complete(run, "Goodbye. Really")
    await reader.ended()
    assert.strictEqual(reader.text, "Goodbye. Really")
    assert.deepStrictEqual(reader.events.slice(-2).map(({ event }) => event), ["text", "completed"])
    assert.strictEqual((await service.get(token, uuid)).body.turn.output[0].text, "Goodbye. Really")
  })

  it("accept a pending run, and are refused for another run, after the end and for no task", async () => {
    const { append, run, token, uuid } = await begin()
    assert.strictEqual((await append("a")).body["status"], "processing")
    assert.strictEqual((await service.get(token, uuid)).body.status, "processing")
    await interrupt(run, { turn: turnOf("a") })
    assert.deepStrictEqual((await append("b", 1)).body["applied"], false)
    await service.call("POST", `/api/tasks/${uuid}/tool-results`, token, {
      results: [{ tool_call_id: "c1", output: 1 }]
    })
    const late = await append("b", 1)
    assert.deepStrictEqual([late.status, late.body["status"]], [409, "processing"])
    const second = await system.core.run(uuid, run)
    const first = (text: string) => report(second, { type: "progress", append: { index: 0, text } })
    assert.deepStrictEqual((await first("c")).body, { status: "processing", applied: true, next: 1 })
    assert.strictEqual((await service.call("POST", `/api/tasks/${uuid}/stop`, token)).status, 200)
    const ended = await first("d")
    assert.deepStrictEqual([ended.status, ended.body["status"]], [409, "canceled"])
    const done = await begin()
    await done.append("a")
    assert.strictEqual((await complete(done.run, "a")).status, 200)
    const behind = await done.append("b", 1)
    assert.deepStrictEqual([behind.status, behind.body["status"]], [409, "completed"])
    const unknown = { ...run, task_id: "019ac5d2-7f3e-7c41-9b1a-2f60c8a7d913" } as StartedRun
    assert.strictEqual((await report(unknown, { type: "progress", append: { index: 0, text: "x" } })).status, 404)
  })

  it("have at most 64 KiB of text an event, any characters and halves of them", async () => {
    const { append, read, run } = await begin()
    const reader = await read()
    assert.strictEqual((await append("x".repeat(64 * 1024))).status, 200)
    const refused = await append("x".repeat(64 * 1024 + 1), 1)
    assert.deepStrictEqual([refused.status, Object.keys(refused.body["errors"] as object)], [422, ["append"]])
    const half = "x".repeat(32 * 1024)
    const tooMuch = { type: "progress", appends: [half, half, "x"].map((text, index) => ({ index: index + 1, text })) }
    assert.strictEqual((await report(run, tooMuch)).status, 422)
    for (
      const wrong of [{ index: -1, text: "x" }, { index: 1.5, text: "x" }, { index: 1 }, { index: 1, text: 5 }, "x"]
    ) {
      assert.strictEqual((await report(run, { type: "progress", append: wrong })).status, 422, JSON.stringify(wrong))
    }
    const pieces = ["\0", "\ud83d", "\ude00", "e", "\u0301", "\u2028", "\ud83d\udc69", "\u200d", "\ud83d", "\udcbb"]
    for (const [at, piece] of pieces.entries()) assert.strictEqual((await append(piece, at + 1)).body["next"], at + 2)
    await reader.has("x".repeat(64 * 1024) + pieces.join(""))
    for (const { data: { text } } of reader.texts) assert.isTrue(text.isWellFormed())
  })

  it("come in batches of any runs, answered in their order", async () => {
    const [one, two] = [await begin(), await begin()]
    const readers = [await one.read(), await two.read()]
    const event = ({ run: { run_id, task_id } }: typeof one, more: object, event_id = "e") => ({
      task_id,
      run_id,
      event_id,
      ...more
    })
    const append = (index: number, text: string) => ({ type: "progress", append: { index, text } })
    const { body, status } = await batch([
      event(one, append(0, "a")),
      event(two, append(0, "A")),
      event(one, append(1, "b")),
      event(two, append(2, "C")),
      { ...event(one, append(0, "x")), run_id: "019ac5d2-7f3e-7c41-9b1a-2f60c8a7d913" },
      { ...event(one, append(0, "x")), task_id: "019ac5d2-7f3e-7c41-9b1a-2f60c8a7d913" },
      event(one, { type: "dance" }),
      event(two, { type: "completed", turn: turnOf("AB") }),
      7
    ])
    assert.strictEqual(status, 200)
    const done = (applied: boolean, next: number) => ({ status: "processing", applied, next })
    assert.deepStrictEqual(body.results.slice(0, 4), [done(true, 1), done(true, 1), done(true, 2), done(false, 1)])
    assert.deepStrictEqual(
      body.results.slice(4).map(({ code, message, status }: Record<string, unknown>) => [typeof message, code, status]),
      [
        ["string", "run_superseded", 409],
        ["string", "task_not_found", 404],
        ["string", "validation_failed", 422],
        ["undefined", undefined, "completed"],
        ["string", "validation_failed", 422]
      ]
    )
    await Promise.all([readers[0]!.has("ab"), readers[1]!.has("AB")])
    assert.strictEqual(
      (await batch(Array.from({ length: 20 }, () => event(one, append(2, "x".repeat(60_000)))))).status,
      413
    )
    for (const events of [5, "x", {}, false]) {
      const refused = await service.call("POST", "/internal/core/events", internalToken, { events })
      assert.deepStrictEqual([refused.status, Object.keys(refused.body.errors)], [422, ["events"]])
    }
  })
})

describe("readers of a text", () => {
  it("get every character once, wherever their stream is cut", async () => {
    const { append, read, run } = await begin()
    const expected = "One 😀 two 👩‍💻 three é four."
    let reader = await read()
    for (const [index, character] of expected.split("").entries()) {
      await append(character)
      if (index % 3 === 0) {
        await eventually(async () => reader.text.length, (length) => length >= index - 1)
        const { lastId, text } = reader
        reader.close()
        reader = await read(lastId, text)
      }
      assert.strictEqual(reader.replaced, 0)
    }
    await reader.has(expected)
    await complete(run, `${expected} End`)
    await reader.ended()
    assert.deepStrictEqual([reader.text, reader.replaced], [`${expected} End`, 0])
    const after = await read(reader.lastId, reader.text)
    assert.strictEqual(after.status, 204)
  })

  it("may come back at any offset, within a character too, before and after the end", async () => {
    const { append, read, run } = await begin()
    const expected = "a😀b"
    const first = await read()
    await append(expected)
    await first.has(expected)
    const resume = async () => {
      for (let offset = 0; offset <= expected.length; offset++) {
        const reader = await read(`1.${offset}`, expected.slice(0, offset))
        await reader.has(expected)
        assert.strictEqual(reader.replaced, 0, String(offset))
        reader.close()
      }
    }
    await resume()
    await complete(run, expected)
    await resume()
    const beyond = await read("1.99", "?".repeat(99))
    await beyond.ended()
    assert.deepStrictEqual([beyond.text, beyond.replaced], [expected, 1])
    for (const wrong of ["x", "1.", ".1", "1.2.3", "-1.2"]) {
      assert.strictEqual((await LiveReader.open(service.url, await mint("x"), "nonsense", wrong)).status, 404)
      const { status } = await read(wrong)
      assert.strictEqual(status, 422, wrong)
    }
  })

  it("get at most 20 texts a second, of 10,000 appends of one character all", async () => {
    const { read, run } = await begin()
    const reader = await read()
    const started = performance.now()
    for (let from = 0; from < 10_000; from += 50) {
      const appends = Array.from({ length: 50 }, (_, at) => ({ index: from + at, text: String((from + at) % 10) }))
      await report(run, { type: "progress", appends })
    }
    await reader.has("0123456789".repeat(1000))
    const seconds = (performance.now() - started) / 1000
    assert.isAtMost(reader.texts.length, Math.ceil(seconds * 20) + 2)
  })

  it("see the next run's text in place of the last one's", async () => {
    const { append, read, run, token, uuid } = await begin()
    const reader = await read()
    await append("Let me look")
    await interrupt(run, { turn: turnOf("Let me look.") })
    await reader.has("Let me look.")
    await service.call("POST", `/api/tasks/${uuid}/tool-results`, token, {
      results: [{ tool_call_id: "c1", output: 1 }]
    })
    const second = await system.core.run(uuid, run)
    await report(second, { type: "progress", append: { index: 0, text: "Here" } })
    await reader.has("Here")
    const back = await read(reader.lastId, reader.text)
    await complete(second, "Here it is")
    for (const one of [reader, back]) {
      await one.ended()
      assert.strictEqual(one.text, "Here it is")
    }
    assert.strictEqual(reader.replaced, 1)
  })

  it("follow cores that only report turns", async () => {
    const { read, run } = await begin()
    const reader = await read()
    const progress = (text: string) => report(run, { type: "progress", turn: turnOf(text) })
    await progress("a")
    await reader.has("a")
    await progress("ab")
    await reader.has("ab")
    await progress("ab")
    await progress("x")
    await reader.has("x")
    assert.deepStrictEqual(reader.texts.map(({ data }) => data), [
      { offset: 0, text: "a" },
      { offset: 1, text: "b" },
      { offset: 0, text: "x", replaced: true }
    ])
    const late = await read()
    await late.has("x")
    await complete(run, "x, and done")
    for (const one of [reader, late]) {
      await one.ended()
      assert.strictEqual(one.text, "x, and done")
    }
    const after = await read()
    await after.ended()
    assert.deepStrictEqual([after.text, after.replaced], ["x, and done", 0])
  })

  it("get texts longer than what is kept, from the beginning", async () => {
    const { append, read, run } = await begin()
    const early = await read()
    const piece = "0123456789abcdef".repeat(4096)
    await append(piece)
    await early.has(piece)
    for (let index = 1; index < 8; index++) await append(piece)
    const whole = piece.repeat(8)
    await early.has(whole)
    await report(run, { type: "progress", turn: turnOf(whole), next_append: 8 })
    const late = await read()
    await late.has(whole)
    const back = await read("1.100", whole.slice(0, 100))
    await back.has(whole)
    assert.deepStrictEqual([early.replaced, late.replaced, back.replaced], [0, 0, 0])
    await complete(run, `${whole}!`)
    for (const one of [early, late, back]) {
      await one.ended()
      assert.strictEqual(one.text, `${whole}!`)
    }
  })

  it("are cut off when they read nothing, and go on when they come back", async () => {
    const { append, read, run, token, uuid } = await begin()
    const { hostname, port } = new URL(service.url)
    const socket = net.connect(Number(port), hostname)
    onTestFinished(() => void socket.destroy())
    socket.on("error", () => {})
    let received = ""
    socket.setEncoding("utf8").on("data", (chunk) => received += chunk)
    socket.write(
      `GET /api/tasks/${uuid}/events?include=text HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${token}\r\n\r\n`
    )
    await append("first")
    await eventually(async () => received, (received) => received.includes("first"))
    socket.pause()
    const piece = "x".repeat(64 * 1024)
    // The kernel takes some megabytes.
    for (let index = 0; index < 400; index++) await append(piece)
    const end = once(socket, "close")
    socket.resume()
    await end
    assert.isBelow(received.length, 400 * piece.length)
    assert.notMatch(received.slice(-20), /\r\n0\r\n\r\n$/)
    const whole = `first${piece.repeat(400)}`
    const back = await read("1.5", "first")
    await complete(run, whole)
    await back.ended()
    assert.isTrue(back.text === whole)
  }, 120_000)

  it("are cut off when the token is revoked", async () => {
    const token = await mint("revoked-reader", { jti: "revoked-reader" })
    const { uuid } = (await service.create(token, "x")).body
    const run = await runOf(uuid)
    const reader = await LiveReader.open(service.url, token, uuid)
    await report(run, { type: "progress", append: { index: 0, text: "a" } })
    await reader.has("a")
    await service.call("POST", "/internal/tokens/revoke", internalToken, { jti: "revoked-reader" })
    await reader.ended()
    assert.strictEqual((await report(run, { type: "progress", append: { index: 1, text: "b" } })).status, 409)
    assert.strictEqual(reader.text, "a")
  })
})
