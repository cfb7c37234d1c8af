import { createHash, randomBytes } from "node:crypto"
import * as fs from "node:fs"
import { afterAll, assert, beforeAll, beforeEach, describe, it } from "vitest"
import { type OpenDatabase, openDatabase } from "../kit/databases.ts"
import { RawClient } from "../kit/RawClient.ts"
import { answerJson, fileName, readForm, ScriptedBackend, takeFile } from "../kit/ScriptedBackend.ts"
import { eventually, freePort, mint, Service } from "../kit/Service.ts"

const limit = 1_024_000 * 1024
const mebibyte = 1024 * 1024

let database: OpenDatabase
let backend: ScriptedBackend
let service: Service
let impatient: Service
let token: string

beforeAll(async () => {
  database = await openDatabase()
  backend = await new ScriptedBackend().listen()
  const settings = { DATABASE_URL: database.url, ASSISTANT_BACKEND_URL: backend.url }
  service = await Service.start(settings)
  impatient = await Service.start(settings, undefined, "test/kit/ImpatientService.ts")
  token = await mint("uploader")
})

beforeEach(() => {
  backend.onUpload = takeFile
  backend.uploads.length = 0
})

afterAll(async () => {
  await service.stop()
  await impatient.stop()
  assert.notMatch(service.output + impatient.output, /a request failed|WARN|ERROR/)
  await backend.close()
  await database.drop()
})

interface Part {
  readonly disposition?: string
  readonly type?: string
  readonly content?: Uint8Array | string
}

const formOf = (parts: ReadonlyArray<Part>, boundary = "x-boundary") =>
  Buffer.concat([
    ...parts.flatMap(({ content = "text", disposition = "form-data; name=\"file\"; filename=\"a.txt\"", type }) => [
      Buffer.from(`--${boundary}\r\nContent-Disposition: ${disposition}\r\n`),
      Buffer.from(type === undefined ? "\r\n" : `Content-Type: ${type}\r\n\r\n`),
      Buffer.from(content),
      Buffer.from("\r\n")
    ]),
    Buffer.from(`--${boundary}--\r\n`)
  ])

const post = async (body: Buffer, contentType = "multipart/form-data; boundary=x-boundary", at = service) => {
  const response = await fetch(`${at.url}/api/files`, {
    method: "POST",
    headers: { authorization: `Bearer ${token}`, "content-type": contentType },
    body: new Uint8Array(body)
  })
  const text = await response.text()
  return { status: response.status, text, body: JSON.parse(text) }
}

const named = (filename: string, content: Uint8Array | string = "text") =>
  formOf([{ disposition: `form-data; name="file"; ${filename}`, content }])

const headOf = (length: number | "chunked", headers = "") =>
  `POST /api/files HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${token}\r\n`
  + "Content-Type: multipart/form-data; boundary=x-boundary\r\n"
  + `${length === "chunked" ? "Transfer-Encoding: chunked" : `Content-Length: ${length}`}\r\n${headers}\r\n`

const partHead = "--x-boundary\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.txt\"\r\n\r\n"
const formTail = "\r\n--x-boundary--\r\n"

const isWell = async (at = service) => assert.strictEqual((await fetch(`${at.url}/healthz`)).status, 200)

describe("a file that is streamed to the backend", () => {
  it("arrives unchanged with the user's own token, however it is split, and the response has its id as text", async () => {
    // Bytes that resemble the end of the form almost everywhere.
    const near = Buffer.from("\r\n--x-boundar\r\n--x-\r\r\n-\n--x-boundary\r\r\n--")
    const content = Buffer.concat([near, randomBytes(3000), near, near, randomBytes(70_000), near])
    const form = formOf([{ content, type: "text/plain; charset=utf-8" }])
    const sha256 = createHash("sha256").update(content).digest("hex")
    for (const step of [1, 7, 4096, form.length]) {
      const client = await RawClient.open(service.url)
      client.socket.setNoDelay(true)
      const slow = step < 100 ? form.subarray(0, 400) : form
      client.send(headOf(form.length))
      for (let at = 0; at < slow.length; at += step) {
        client.send(slow.subarray(at, at + step))
        if (step < 100) await new Promise(setImmediate)
      }
      if (slow !== form) client.send(form.subarray(400))
      const { body, status } = await client.answer()
      assert.strictEqual(status, 201, body)
      assert.deepStrictEqual(JSON.parse(body), {
        type: "file",
        file: { id: "17", name: "a.txt", mime_type: "text/plain", provider_data: { path: `17/${sha256}` } }
      })
      client.close()
    }
    assert.strictEqual(backend.last?.authorization, `Bearer ${token}`)
  })

  it("keeps its name in every spelling, without any folders", async () => {
    const names = [
      ["filename=\"plain.txt\"", "plain.txt"],
      ["filename=\"Größe 漢字 🎉.txt\"", "Größe 漢字 🎉.txt"],
      ["filename=unquoted.txt", "unquoted.txt"],
      ["filename=\"fallback.txt\"; filename*=UTF-8''%E2%82%AC%20rates.txt", "€ rates.txt"],
      ["filename*=iso-8859-1''caf%E9.txt", "café.txt"],
      ["filename=\"say \\\"hi\\\".txt\"", "say %22hi%22.txt"],
      ["filename=\"say %22hi%22.txt\"", "say %22hi%22.txt"],
      ["filename=\"semi;colon=1.txt\"", "semi;colon=1.txt"],
      ["filename=\"../../x.txt\"", "x.txt"],
      ["filename=\"/etc/cron.d/x.txt\"", "x.txt"],
      ["filename=\"..\\..\\x.txt\"", "x.txt"],
      ["filename=\"C:\\Users\\me\\x.txt\"", "x.txt"],
      ["filename*=UTF-8''..%2f..%2Fx.txt", "x.txt"],
      ["filename*=UTF-8''a%0d%0aX-Evil%3A%201%00.txt", "aX-Evil: 1.txt"],
      ["filename=\"UPPER.TXT\"", "UPPER.TXT"]
    ] as const
    for (const [given, arrived] of names) {
      const { status, text } = await post(named(given))
      assert.strictEqual(status, 201, `${given}: ${text}`)
      assert.strictEqual(fileName(backend.last!), arrived)
      assert.strictEqual(backend.last?.head.split("\r\n").length, 3, given)
    }
  })

  it("is rejected by name, declared type or dangerous content before the backend is called", async () => {
    const file = (filename: string, content: Uint8Array | string, type?: string) =>
      formOf([{
        disposition: `form-data; name="file"; filename="${filename}"`,
        content,
        ...(type === undefined ? {} : { type })
      }])
    const program = new Uint8Array(4096)
    const node = fs.openSync(process.execPath, "r")
    fs.readSync(node, program)
    fs.closeSync(node)
    const refused = [
      file("a.exe", "x"),
      file("noextension", "x"),
      file("a.txt/", "x"),
      file("a.txt\\\\..", "x"),
      file("a.png", "x", "application/x-msdownload"),
      file("a.pdf", "x", "image/png"),
      file("a.txt", "x", "application/pdf"),
      file("a.png", program),
      file("a.txt", program, "text/plain"),
      file("a.pdf", "#!/bin/sh\nreboot\n", "application/pdf"),
      file("a.gif", "<script>alert(1)</script>", "image/gif"),
      file("a.mp4", "")
    ]
    for (const [index, form] of refused.entries()) {
      const { body, status } = await post(form)
      assert.strictEqual(status, 422, String(index))
      assert.deepStrictEqual(Object.keys(body.errors), ["file"])
    }
    assert.strictEqual(backend.uploads.length, 0)
    const accepted = [
      file("a.json", "{}", "application/json"),
      file("run.txt", "#!/bin/sh\n"),
      file("a.htm", "<p>", "text/html"),
      file("a.csv", "", "application/vnd.ms-excel"),
      file("a.json", ""),
      file("a.txt", "")
    ]
    for (const form of accepted) assert.strictEqual((await post(form)).status, 201)
  })

  it("is accepted as real tools write it, in every format, with and without a declared type", async () => {
    const directory = "test/kit/files"
    for (const name of fs.readdirSync(directory).filter((name) => name !== "README.md")) {
      const content = fs.readFileSync(`${directory}/${name}`)
      const sha256 = createHash("sha256").update(content).digest("hex")
      for (const type of [undefined, "application/octet-stream"]) {
        const disposition = `form-data; name="file"; filename="${name}"`
        const { body, status, text } = await post(formOf([{ disposition, content, ...(type ? { type } : {}) }]))
        assert.strictEqual(status, 201, `${name}: ${text}`)
        assert.strictEqual(body.file.provider_data.path, `17/${sha256}`, name)
      }
    }
  })

  it("may have other fields before and after it", async () => {
    const other = { disposition: "form-data; name=\"note\"", content: "x" }
    const unwanted = {
      disposition: "form-data; name=\"attachment\"; filename=\"b.exe\"",
      content: randomBytes(300_000)
    }
    for (const parts of [[other, {}], [{}, other], [unwanted, other, {}, other, unwanted]]) {
      assert.strictEqual((await post(formOf(parts))).status, 201)
      assert.strictEqual(backend.last?.size, 4)
    }
  })
})

describe("an invalid form", () => {
  it("gets 422 on the field file, and the backend stores nothing", async () => {
    const whole = formOf([{ content: randomBytes(200_000) }])
    const cases: ReadonlyArray<readonly [string, Buffer, string?]> = [
      ["no file field", formOf([{ disposition: "form-data; name=\"note\"" }])],
      ["an empty form", formOf([])],
      ["an empty body", Buffer.alloc(0)],
      ["two files", formOf([{ content: randomBytes(200_000) }, {}])],
      ["a field named file", formOf([{ disposition: "form-data; name=\"file\"" }])],
      ["an empty name", named("filename=\"\"")],
      ["an empty picture", named("filename=\"a.png\"", "")],
      ["a broken filename*", named("filename*=UTF-8''%E2%82.txt")],
      ["a part without a name", formOf([{ disposition: "form-data; filename=\"a.txt\"" }])],
      ["no disposition", Buffer.from("--x-boundary\r\nX: y\r\n\r\nz\r\n--x-boundary--\r\n")],
      ["too many parts", formOf(Array.from({ length: 17 }, () => ({ disposition: "form-data; name=\"n\"" })))],
      ["a field too long", formOf([{ disposition: "form-data; name=\"n\"", content: Buffer.alloc(70_000) }, {}])],
      ["a head too long", named(`filename="${"x".repeat(20_000)}.txt"`)],
      ["a cut in the content", whole.subarray(0, 150_000)],
      ["a cut in the end", whole.subarray(0, -5)],
      ["no end", whole.subarray(0, -20)],
      ["JSON", Buffer.from("{}"), "application/json"],
      ["another type", whole, "text/plain; boundary=x-boundary"],
      ["no boundary", whole, "multipart/form-data"],
      ["another boundary", whole, "multipart/form-data; boundary=other"]
    ]
    for (const [name, body, contentType] of cases) {
      const answer = await post(body, contentType)
      assert.strictEqual(answer.status, 422, `${name}: ${answer.text}`)
      assert.deepStrictEqual(Object.keys(answer.body.errors), ["file"], name)
      assert.isString(answer.body.message)
    }
    await eventually(async () => backend.uploads, (all) => all.every(({ state }) => state === "aborted"))
    assert.isAtLeast(backend.uploads.length, 3)
  })
})

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
    backend.onUpload = (...call) => endless[backend.uploads.length % endless.length]?.(...call)
    await Promise.all(endless.map(async () => {
      const answer = await post(formOf([{ content: randomBytes(24 * mebibyte) }]), undefined, impatient)
      assert.strictEqual(answer.status, 502)
    }))
    await isWell(impatient)
  })

  it("becomes 502 when the backend is not reachable", async () => {
    const url = `http://127.0.0.1:${await freePort()}`
    const alone = await Service.start({ DATABASE_URL: database.url, ASSISTANT_BACKEND_URL: url })
    assert.strictEqual((await post(formOf([{}]), undefined, alone)).status, 502)
    assert.strictEqual((await alone.call("GET", "/api/storage/base", token)).status, 502)
    await alone.stop()
  })
})

/** Resident memory; zero if the system does not report it. */
const residentOf = (at: Service) =>
  process.platform !== "linux"
    ? 0
    : Number(/VmRSS:\s+(\d+) kB/.exec(fs.readFileSync(`/proc/${at.process.pid}/status`, "utf8"))?.[1]) * 1024

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
    client.close()
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
      client.close()
    }
    await eventually(async () => backend.uploads, (all) => all.some(({ state }) => state === "aborted"))
    await slowly
    assert.strictEqual((await steady.answer()).status, 201)
    steady.close()
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
    client.close()
    await isWell()
  })

  it("waits for 100-continue, and is rejected without it when it is too large", async () => {
    const form = formOf([{}])
    const client = await RawClient.open(service.url)
    client.send(headOf(form.length, "Expect: 100-continue\r\n"))
    assert.strictEqual((await client.answer()).status, 100)
    client.send(form)
    assert.strictEqual((await client.answer(1)).status, 201)
    client.close()
    const large = await RawClient.open(service.url)
    large.send(headOf(limit + 100 * mebibyte, "Expect: 100-continue\r\n"))
    const answer = await large.answer()
    assert.strictEqual(answer.status, 422)
    assert.match(answer.body, /larger than 1024000 KB/)
    large.close()
    assert.strictEqual(backend.uploads.length, 1)
  })
})
