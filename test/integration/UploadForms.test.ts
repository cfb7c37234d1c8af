/** The forms of uploads: file names, other fields, and rejected forms. */
import { createHash, randomBytes } from "node:crypto"
import { assert, beforeEach, describe, it } from "vitest"
import { authorization, formOf, headOf, named, postForm } from "../kit/forms.ts"
import { RawClient } from "../kit/RawClient.ts"
import { fileName, ScriptedBackend } from "../kit/ScriptedBackend.ts"
import { eventually } from "../kit/Service.ts"
import { expectQuiet, use } from "../kit/suite.ts"
import { startSystem } from "../kit/System.ts"

const backend = await use(new ScriptedBackend().listen())
const { service } = await use(startSystem({ ASSISTANT_BACKEND_URL: backend.url }))
expectQuiet(service)
const post = (form: Buffer, type?: string) => postForm(service, form, type)

beforeEach(() => {
  backend.uploads.length = 0
})

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
    }
    assert.strictEqual(backend.last?.headers.authorization, authorization)
    // Tracing is off: a trace header would name a span that does not exist.
    assert.doesNotHaveAnyKeys(backend.last?.headers, ["traceparent", "b3"])
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
    const part = (filename: string, content: string, type = "") =>
      formOf([{ disposition: `form-data; name="file"; filename="${filename}"`, content, type }])
    const refused = [
      part("a.exe", "x"),
      part("a.txt/", "x"),
      part("a.txt\\\\..", "x"),
      part("a.pdf", "x", "image/png"),
      part("a.png", "\x7fELF\x02\x01\x01\0"),
      part("a.mp4", "")
    ]
    for (const [index, form] of refused.entries()) {
      const { body, status } = await post(form)
      assert.strictEqual(status, 422, String(index))
      assert.deepStrictEqual(Object.keys(body.errors), ["file"])
    }
    assert.strictEqual(backend.uploads.length, 0)
    const accepted = [part("run.txt", "#!/bin/sh\n"), part("a.htm", "<p>", "text/html"), part("a.json", "")]
    for (const form of accepted) assert.strictEqual((await post(form)).status, 201)
  })

  it("has the media type of its name where the form has none", async () => {
    const part = (filename: string, type: string) =>
      formOf([{ disposition: `form-data; name="file"; filename="${filename}"`, type }])
    const types = [
      ["a.CSV", "", "text/csv"],
      ["a.png", "application/octet-stream", "image/png"],
      ["a.csv", "text/plain", "text/plain"]
    ] as const
    for (const [name, declared, expected] of types) {
      const { body } = await post(part(name, declared))
      assert.strictEqual(body.file.mime_type, expected, name)
    }
  })

  it("has the format of its declared type where it has no extension, and a type that nobody knows is passed on", async () => {
    const part = (disposition: string, type: string) =>
      formOf([{ disposition: `form-data; name="file"${disposition}`, type }])
    const docx = "application/wps-office.docx"
    const cases = [
      ["; filename=\"blob\"", "audio/webm;codecs=opus", "blob.webm", "audio/webm"],
      // A browser quotes no list of codecs.
      ["; filename=\"blob\"", "video/webm;codecs=vp8,opus", "blob.webm", "video/webm"],
      ["; filename=\"blob\"", "AUDIO/OGG; Codecs=\"opus\"", "blob.ogg", "audio/ogg"],
      ["; filename=\"\"", "application/pdf", "file.pdf", "application/pdf"],
      ["", "audio/mp4", "file.m4a", "audio/mp4"],
      ["; filename=\"voice.\"", "audio/mpeg", "voice.mp3", "audio/mpeg"],
      ["; filename=\"image.jfif\"", "image/jpeg", "image.jpg", "image/jpeg"],
      ["; filename=\"a.docx\"", docx, "a.docx", docx]
    ] as const
    for (const [disposition, type, name, mime_type] of cases) {
      const { body, status, text } = await post(part(disposition, type))
      assert.strictEqual(status, 201, `${disposition} ${type}: ${text}`)
      assert.deepInclude(body.file, { name, mime_type })
      assert.strictEqual(fileName(backend.last!), name)
    }
    const form = new FormData()
    form.append("file", new Blob(["x"], { type: "audio/webm;codecs=opus" }))
    const sent = await fetch(`${service.url}/api/files`, { method: "POST", headers: { authorization }, body: form })
    assert.strictEqual(sent.status, 201)
    backend.uploads.length = 0
    const refused = [["; filename=\"blob\"", "application/octet-stream"], ["; filename=\"a.exe.\"", "image/png"], [
      "",
      "text/plain"
    ]]
    for (const [disposition = "", type = ""] of refused) {
      const { body, status } = await post(part(disposition, type))
      assert.deepStrictEqual([status, Object.keys(body.errors)], [422, ["file"]], disposition)
    }
    assert.strictEqual(backend.uploads.length, 0)
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
      ["content that begins like a boundary", formOf([{ content: "--x-boundary\r\n" }])],
      ["content that begins with more than a boundary", formOf([{ content: "--x-boundaryX\r\n" }])],
      ["a line like a boundary before the first part", Buffer.concat([Buffer.from("--x-boundaryX\r\n"), formOf([{}])])],
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
