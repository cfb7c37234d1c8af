import * as fs from "node:fs"
import * as path from "node:path"
import { inflateSync } from "node:zlib"
import { assert, describe, it } from "vitest"
import { pdf } from "../kit/documents.ts"
import { RawClient, requestHead } from "../kit/RawClient.ts"
import { eventually, mint, Service } from "../kit/Service.ts"
import { use, useDirectory } from "../kit/suite.ts"
import { startSystem } from "../kit/System.ts"

const directory = useDirectory()
const { service, settings } = await use(startSystem({ CORE_URL: "", DATA_DIR: directory }))
const token = await mint("uploader")

const upload = (name: string, content: string | Uint8Array, type?: string) => service.store(token, name, content, type)

const linkOf = (item: { readonly file: { readonly provider_data: { readonly path: string } } }) =>
  `${service.url}/storage/${item.file.provider_data.path}`

describe("a file", () => {
  const send = (name: string, content: string | Uint8Array) => service.upload(token, name, content)

  it("is read by the assistant, and nothing beside it can be downloaded", async () => {
    const { body } = await send("Größe 1.txt", "one two\nthree\n")
    const created = await service.call("POST", "/api/tasks", token, { assistant_id: 1, input: [body] })
    const task = await service.until(token, created.body.uuid, "completed")
    assert.match(task.body.turn.output[0].text, /^Größe 1\.txt: text\/plain, 14 bytes, 3 lines, 3 words, sha256 /)
    const base = await service.call("GET", "/api/storage/base", token)
    assert.strictEqual((await fetch(`${base.body.url}/../internal-token`)).status, 404)
    assert.strictEqual((await fetch(`${base.body.url}/%2e%2e/internal-token`)).status, 404)
  })

  it("may be empty when its format is a text", async () => {
    for (const name of ["empty.txt", "empty.csv", "empty.json"]) {
      const { body, status } = await send(name, "")
      assert.strictEqual(status, 201)
      assert.strictEqual((await fetch(linkOf(body))).headers.get("content-length"), "0")
    }
  })

  it("is downloaded whatever part of a long name remains", async () => {
    const { body } = await send(`start.${"b".repeat(95)}.txt`, "one")
    assert.strictEqual(await (await fetch(linkOf(body))).text(), "one")
  })

  it("that is rejected during the upload leaves nothing in storage", async () => {
    const stored = () => fs.readdirSync(`${directory}/storage`).length
    const before = stored()
    const program = new Uint8Array(4 * 1024 * 1024)
    program.set([0x7f, 0x45, 0x4c, 0x46])
    assert.strictEqual((await send("picture.gif", program)).status, 422)
    await eventually(async () => stored(), (count) => count === before)
  })
})

describe("the storage", () => {
  it("serves nothing that could run as a page of its origin", async () => {
    const script = "<script>alert(1)</script>"
    const types = {
      "a.html": "text/html",
      "a.xml": "image/svg+xml",
      "a.js": "text/javascript",
      "a.css": "text/css",
      "a.json": "application/json"
    }
    for (const [name, type] of Object.entries(types)) {
      const { headers, status } = await fetch(linkOf(await upload(name, script, type)))
      assert.strictEqual(status, 200)
      assert.strictEqual(headers.get("x-content-type-options"), "nosniff")
      assert.strictEqual(headers.get("content-security-policy"), "default-src 'none'; sandbox")
      assert.strictEqual(headers.get("content-disposition"), "attachment", name)
      assert.notInclude(headers.get("content-type") ?? "", "javascript")
    }
    const lying = await fetch(linkOf(await upload("a.txt", script, "text/html")))
    assert.strictEqual(lying.headers.get("content-type"), "text/plain; charset=utf-8")
    assert.strictEqual(lying.headers.get("content-disposition"), "inline")
  })

  it("supports caching, conditional requests and ranges", async () => {
    const link = linkOf(await upload("a.txt", "0123456789"))
    const whole = await fetch(link)
    assert.strictEqual(whole.headers.get("cache-control"), "public, max-age=31536000, immutable")
    assert.strictEqual(whole.headers.get("accept-ranges"), "bytes")
    const etag = whole.headers.get("etag") ?? ""
    assert.strictEqual((await fetch(link, { headers: { "if-none-match": etag } })).status, 304)

    const ask = async (range: string) => {
      const response = await fetch(link, { headers: { range } })
      assert.strictEqual(response.headers.get("x-content-type-options"), "nosniff")
      return [response.status, await response.text(), response.headers.get("content-range")]
    }
    assert.deepStrictEqual(await ask("bytes=2-4"), [206, "234", "bytes 2-4/10"])
    assert.deepStrictEqual(await ask("bytes=-3"), [206, "789", "bytes 7-9/10"])
    assert.deepStrictEqual(await ask("bytes=8-"), [206, "89", "bytes 8-9/10"])
    assert.deepStrictEqual(await ask("bytes=10-"), [416, "", "bytes */10"])
  })

  it("stores every file in its own folder, regardless of its name", async () => {
    for (const name of ["../../up.txt", "..\\up.txt", ".hidden.txt", "%2e%2e%2fup.txt", `${"x".repeat(300)}.txt`]) {
      const item = await upload(name, "kept")
      assert.match(item.file.provider_data.path, /^[0-9a-f-]{36}\/[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}$/)
      assert.strictEqual(await (await fetch(linkOf(item))).text(), "kept")
    }
    assert.isFalse(fs.existsSync(path.join(directory, "up.txt")))
  })

  it("returns 404 for folders and for paths outside of it", async () => {
    const item = await upload("a.txt", "kept")
    const [folder] = item.file.provider_data.path.split("/")
    fs.writeFileSync(path.join(directory, "secret.txt"), "secret")
    const stored = path.join(directory, "storage", folder)
    fs.symlinkSync("loop.txt", path.join(stored, "loop.txt"))
    fs.symlinkSync("a.txt/x", path.join(stored, "broken.txt"))
    fs.mkdirSync(path.join(stored, "folder.txt"))
    const paths = [
      `${folder}/a.txt/x`,
      `${folder}/a.txt/`,
      `${folder}/a.txt/../a.txt/x`,
      `${folder}/a.txt%2fx`,
      `${folder}/loop.txt`,
      `${folder}/broken.txt`,
      `${folder}/folder.txt`,
      `${folder}/${"x".repeat(100)}`,
      `${folder}/${"%41".repeat(99)}`,
      "../secret.txt",
      "%2e%2e/secret.txt",
      "..%2fsecret.txt",
      "%2e%2e%2fsecret.txt",
      "..\\secret.txt",
      "..%5csecret.txt",
      `${folder}/../../secret.txt`,
      `${folder}/%2e%2e/%2e%2e/secret.txt`,
      "/secret.txt",
      `${path.join(directory, "secret.txt")}`,
      "secret.txt%00.txt",
      "%ff%fe",
      "%",
      folder,
      `${folder}/`,
      "x".repeat(300),
      `${folder}/${"x".repeat(5000)}`,
      "",
      "."
    ]
    for (const one of paths) {
      const client = await RawClient.open(service.url)
      const { body, status } = await client.send(requestHead(`GET /storage/${one}`, "Connection: close")).answer()
      assert.include([400, 404], status, one)
      assert.notInclude(body, "secret")
    }
  })
})

describe("the content of DATA_DIR", () => {
  it("is private, and made private if an earlier version gave others access", async () => {
    await upload("a.txt", "kept")
    const call = { type: "function", name: "weather", parameters: {} }
    const created = await service.create(token, "weather", { assistant_id: 2, client_tools: [call] })
    await service.until(token, created.body.uuid, "interrupted")
    const data = path.join(directory, "older")
    fs.mkdirSync(path.join(data, "storage"), { recursive: true, mode: 0o755 })
    const older = await Service.start({ ...settings, DATA_DIR: data, JWT_SECRET: "" })
    await older.stop()
    for (const root of [directory, data]) {
      const open = fs.readdirSync(root, { recursive: true, withFileTypes: true })
        .filter(({ name }) => name !== "secret.txt" && name !== "older" && !/^(loop|broken|folder)/.test(name))
        .map((entry) => path.join(entry.parentPath, entry.name))
        .filter((file) => (fs.statSync(file).mode & 0o077) !== 0)
      assert.deepStrictEqual(open, [])
    }
    assert.include(fs.readdirSync(data), "jwt-secret")
  })
})

describe("the demo assistants, offline", () => {
  const ask = async (assistant_id: number, text: string, ...more: ReadonlyArray<object>) => {
    const created = await service.create(token, text, { assistant_id, input: [{ type: "text", text }, ...more] })
    return (await service.until(token, created.body.uuid, "completed")).body.turn
  }

  it("answer a question with a passage of a PDF", async () => {
    const item = await upload(
      "report.pdf",
      pdf("Sales fell in Rome. The revenue of Norway was 4711 crowns. The end."),
      "application/pdf"
    )
    const turn = await ask(1, "What was the revenue of Norway?", item)
    assert.strictEqual(turn.output[0].text, "report.pdf: The revenue of Norway was 4711 crowns.")
    // The marks between pages are no sentences.
    for (const request of ["summarize", "Summarize this page, please"]) {
      assert.match((await ask(1, request, item)).output[0].text, /^report\.pdf: Sales fell in Rome\. /)
    }
  })

  it("report a broken file", async () => {
    const item = await upload("report.pdf", "%PDF-1.7 nothing more", "application/pdf")
    assert.match(
      (await ask(1, "What is in it?", item)).output[0].text,
      /^report\.pdf: The file is not a pdf that can be read/
    )
    const gone = { type: "file", file: { id: "../../x", name: "x.txt", mime_type: "text/plain" } }
    assert.match((await ask(1, "What is in it?", gone)).output[0].text, /^x\.txt: There is no file/)
  })

  it("draw a PNG", async () => {
    const turn = await ask(4, "a lighthouse")
    const [text, image] = turn.output
    assert.match(text.text, /lighthouse/)
    const response = await fetch(linkOf(image))
    assert.strictEqual(response.headers.get("content-type"), "image/png")
    const bytes = Buffer.from(await response.arrayBuffer())
    assert.strictEqual(bytes.subarray(1, 4).toString(), "PNG")
    const data = bytes.indexOf("IDAT")
    assert.strictEqual(
      inflateSync(bytes.subarray(data + 4, data + 4 + bytes.readUInt32BE(data - 4))).length,
      256 * (1 + 3 * 256)
    )
  })
})
