/** Uploads that stream to the backend: its responses, backpressure, disconnects and timeouts. */
import { execFileSync } from "node:child_process"
import { randomBytes } from "node:crypto"
import * as fs from "node:fs"
import { assert, beforeEach, describe, it, onTestFinished } from "vitest"
import { authorization, formOf, formTail, headOf, named, partHead, postForm } from "../kit/forms.ts"
import { answerJson } from "../kit/LoopbackServer.ts"
import { RawClient } from "../kit/RawClient.ts"
import { readForm, ScriptedBackend, takeFile } from "../kit/ScriptedBackend.ts"
import { eventually, freePort, Service } from "../kit/Service.ts"
import { expectQuiet, use } from "../kit/suite.ts"
import { startSystem } from "../kit/System.ts"

const limit = 1_024_000 * 1024
const mebibyte = 1024 * 1024

const backend = await use(new ScriptedBackend().listen())
const { service, settings } = await use(startSystem({ ASSISTANT_BACKEND_URL: backend.url }))
const impatient = await use(Service.start(settings, undefined, "test/kit/ImpatientService.ts"))
expectQuiet(service, impatient)
const post = (form: Buffer, at = service) => postForm(at, form)

beforeEach(() => {
  backend.onUpload = takeFile
  backend.uploads.length = 0
})

const isWell = async (at = service) => assert.strictEqual((await fetch(`${at.url}/healthz`)).status, 200)

describe("the backend's response", () => {
  it("is mapped to ours, whether it arrives at the end or early", async () => {
    const refusal =
      "{ \"errors\": {\"file\":[\"Nein 🚫\"], \"size\": [\"a\",\"b\"]},\"message\":\"No.\", \"more\": 1.0 }"
    const cases: ReadonlyArray<readonly [number, string, number, RegExp]> = [
      [422, refusal, 422, /^/],
      [413, "too large, says nginx", 422, /"file":\["The file is larger than 1024000 KB"\]/],
      [401, "{}", 401, /token/],
      [403, "", 401, /token/],
      [422, "{\"message\":", 502, /backend/],
      [422, "{\"errors\":{}}", 502, /backend/],
      [200, "<html>", 502, /backend/],
      [201, "{\"id\":1}", 502, /backend/],
      [302, "", 502, /backend/],
      [404, "{\"message\":\"secret internals\"}", 502, /backend/],
      [500, "stack trace", 502, /backend/],
      [200, JSON.stringify({ id: 1, padding: "x".repeat(2 * mebibyte) }), 502, /backend/]
    ]
    for (const isEarly of [false, true]) {
      for (const [status, body, expected, words] of cases) {
        backend.onUpload = async (request, response, upload) => {
          if (!isEarly) await readForm(request, upload)
          response.writeHead(status, { "content-type": "application/json", location: "/elsewhere" }).end(body)
        }
        const answer = await post(formOf([{ content: randomBytes(isEarly ? 8 * mebibyte : 1000) }]))
        assert.strictEqual(answer.status, expected, `${status} ${body.slice(0, 50)}`)
        assert.match(answer.text, words)
        assert.notMatch(answer.text, /secret|stack|nginx/)
        if (status === 422 && expected === 422) assert.strictEqual(answer.text, refusal)
      }
    }
    await isWell()
  })

  it("is an error when it reports success before the end of the file", async () => {
    backend.onUpload = (_, response) => {
      answerJson(response, 201, { id: 1, name: "a.txt", mime_type: "text/plain", provider_data: { path: "1" } })
    }
    assert.strictEqual((await post(formOf([{ content: randomBytes(8 * mebibyte) }]))).status, 502)
  })

  it("may have an id that exceeds the exact range of numbers", async () => {
    backend.onUpload = async (request, response, upload) => {
      await readForm(request, upload)
      response.end(
        "{\"id\":9007199254740993,\"name\":\"n\",\"mime_type\":\"m/m\",\"provider_data\":{\"path\":\"p\",\"x\":1}}"
      )
    }
    assert.deepStrictEqual((await post(formOf([{}]))).body, {
      type: "file",
      file: { id: "9007199254740993", name: "n", mime_type: "m/m", provider_data: { path: "p" } }
    })
  })

  it("becomes 502 when it never arrives, never ends or is cut off", async () => {
    backend.onUpload = async (request, response, upload) => {
      await readForm(request, upload)
      response.destroy()
    }
    assert.strictEqual((await post(formOf([{}]))).status, 502)
    backend.onUpload = (_, response) => void response.destroy()
    assert.strictEqual((await post(formOf([{ content: randomBytes(mebibyte) }]))).status, 502)
    backend.onUpload = async (request, response, upload) => {
      await readForm(request, upload)
      response.writeHead(200, { "content-length": 1000 }).write("{\"id\"")
      response.socket?.end()
    }
    assert.strictEqual((await post(formOf([{}]))).status, 502)

    const endless: ReadonlyArray<ScriptedBackend["onUpload"]> = [
      (request) => void request.resume(),
      async (request, response, upload) => {
        await readForm(request, upload)
        response.writeHead(200)
        const drip = setInterval(() => response.write(" "), 50)
        response.once("close", () => clearInterval(drip))
      },
      (request) => void request.pause()
    ]
    // One at a time, because a client that pauses for half a second is cut off.
    const large = formOf([{ content: randomBytes(24 * mebibyte) }])
    for (const [index, onUpload] of endless.entries()) {
      backend.onUpload = onUpload
      assert.strictEqual((await post(large, impatient)).status, 502, String(index))
    }
    await isWell(impatient)
  })

  it("becomes 502 when the backend is not reachable", async () => {
    const url = `http://127.0.0.1:${await freePort()}`
    const alone = await use(Service.start({ ...settings, ASSISTANT_BACKEND_URL: url }), onTestFinished)
    assert.strictEqual((await post(formOf([{}]), alone)).status, 502)
    assert.strictEqual((await fetch(`${alone.url}/api/storage/base`, { headers: { authorization } })).status, 502)
    // One line for both.
    await alone.logged(/WARN/)
    const lines = alone.output.split("\n").filter((line) => line.includes("WARN"))
    assert.lengthOf(lines, 1)
    assert.match(lines.join(), /The assistant backend is unavailable: connect ECONNREFUSED .*\. Clients get 502$/)
  })
})

/** Resident memory. */
const residentOf = (at: Service) =>
  1024 * Number(
    process.platform === "linux"
      ? /VmRSS:\s+(\d+) kB/.exec(fs.readFileSync(`/proc/${at.process.pid}/status`, "utf8"))?.[1]
      : execFileSync("ps", ["-o", "rss=", "-p", String(at.process.pid)], { encoding: "utf8" })
  )

describe("the client and the backend of an upload", () => {
  it("a stalled backend stops the client, and the whole file arrives when it continues", async () => {
    let resume = () => {}
    const stalled = new Promise<void>((resolve) => resume = resolve)
    backend.onUpload = async (request, response, upload) => {
      await stalled
      return takeFile(request, response, upload)
    }
    const size = 64 * mebibyte
    const block = randomBytes(mebibyte)
    const client = await RawClient.open(service.url)
    client.send(headOf(partHead.length + size + formTail.length)).send(partHead)
    const before = residentOf(service)
    const sending = (async () => {
      for (let at = 0; at < size; at += block.length) await client.sendAll(block)
      client.send(formTail)
    })()
    const taken = () => client.socket.bytesWritten - client.socket.writableLength
    // Backpressure: the number of accepted bytes no longer grows.
    let last = -1
    await eventually(async () => {
      const [now, earlier] = [taken(), last]
      last = now
      await new Promise((resolve) => setTimeout(resolve, 200))
      return now === earlier && now > 0
    }, (isHeld) => isHeld)
    assert.isBelow(taken(), 24 * mebibyte)
    assert.isBelow(residentOf(service) - before, 24 * mebibyte)
    resume()
    await sending
    assert.strictEqual((await client.answer()).status, 201)
    assert.strictEqual(backend.last?.size, size)
  })

  it("a client that disconnects aborts the backend's call", async () => {
    for (const end of ["destroy", "resetAndDestroy"] as const) {
      backend.uploads.length = 0
      const client = await RawClient.open(service.url)
      client.send(headOf(10 * mebibyte)).send(partHead).send(randomBytes(mebibyte))
      const begun = await eventually(async () => backend.uploads.length, (count) => count > 0)
      assert.strictEqual(begun, 1)
      client.socket[end]()
      await eventually(async () => backend.last?.state, (state) => state === "aborted")
      assert.isBelow(backend.last?.size ?? limit, 10 * mebibyte)
    }
    await isWell()
  })

  it("a client that disconnects after its file is sent aborts the backend's call too", async () => {
    backend.onUpload = (request, _, upload) => readForm(request, upload)
    const client = await RawClient.open(service.url)
    const form = formOf([{}])
    client.send(headOf(form.length)).send(form)
    await eventually(async () => backend.last?.state, (state) => state === "complete")
    let isGone = false
    backend.onUpload = takeFile
    backend.sockets.at(-1)?.once("close", () => isGone = true)
    client.close()
    assert.isTrue(await eventually(async () => isGone, (gone) => gone))
  })

  it("a slow but steady client is served; one that stops before or within its file is cut off", async () => {
    const steady = await RawClient.open(impatient.url)
    const form = formOf([{ content: "x".repeat(40) }])
    steady.send(headOf(form.length))
    const slowly = (async () => {
      // Takes longer in total than any timeout.
      for (let at = 0; at < form.length; at += 16) {
        steady.send(form.subarray(at, at + 16))
        await new Promise((resolve) => setTimeout(resolve, 200))
      }
    })()
    const inFile = await RawClient.open(impatient.url)
    inFile.send(headOf(1_000_000)).send(partHead).send(randomBytes(1000))
    const before = await RawClient.open(impatient.url)
    before.send(headOf(1_000_000)).send("--x-bound")
    for (const client of [inFile, before]) {
      const answer = await client.answer()
      assert.strictEqual(answer.status, 408)
      assert.match(answer.head, /connection: close/i)
      assert.isString(JSON.parse(answer.body).message)
      await eventually(async () => client.ended, (ended) => ended === "closed")
    }
    await eventually(async () => backend.uploads, (all) => all.some(({ state }) => state === "aborted"))
    await slowly
    assert.strictEqual((await steady.answer()).status, 201)
  })

  it("a rejected file gets a response although its client keeps sending before it reads", async () => {
    const content = randomBytes(24 * mebibyte)
    const form = named("filename=\"a.exe\"", content)
    const client = await RawClient.open(service.url)
    client.socket.pause()
    client.send(headOf(form.length))
    await client.sendAll(form)
    client.socket.resume()
    assert.strictEqual((await client.answer()).status, 422)
    await isWell()
  })

  it("waits for 100-continue, and is rejected without it when it is too large", async () => {
    const form = formOf([{}])
    const client = await RawClient.open(service.url)
    client.send(headOf(form.length, "Expect: 100-continue\r\n"))
    assert.strictEqual((await client.answer()).status, 100)
    client.send(form)
    assert.strictEqual((await client.answer(1)).status, 201)
    const large = await RawClient.open(service.url)
    large.send(headOf(limit + 100 * mebibyte, "Expect: 100-continue\r\n"))
    const answer = await large.answer()
    assert.strictEqual(answer.status, 422)
    assert.match(answer.body, /larger than 1024000 KB/)
    assert.strictEqual(backend.uploads.length, 1)
  })
})
