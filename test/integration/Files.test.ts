import * as fs from "node:fs"
import { afterAll, assert, beforeAll, describe, it } from "vitest"
import { type OpenDatabase, openDatabase } from "../kit/databases.ts"
import { removeDirectory, temporaryDirectory } from "../kit/directories.ts"
import { eventually, mint, Service } from "../kit/Service.ts"

let database: OpenDatabase
let service: Service
let token: string
const directory = temporaryDirectory()

beforeAll(async () => {
  database = await openDatabase()
  service = await Service.start({ DATABASE_URL: database.url, DATA_DIR: directory })
  token = await mint("uploader")
})

afterAll(async () => {
  await service.stop()
  await database.drop()
  removeDirectory(directory)
})

const upload = (name: string, content: string | Uint8Array, field?: string) =>
  service.upload(token, name, content, "text/plain", field)

describe("a file", () => {
  it("is uploaded, placed into input as it is, looked at by the assistant, and downloaded without a token", async () => {
    const { body, status } = await upload("Größe 1.txt", "one two\nthree\n")
    assert.strictEqual(status, 201)
    const { id, provider_data } = body.file
    assert.deepStrictEqual(body, {
      type: "file",
      file: { id, name: "Größe 1.txt", mime_type: "text/plain", provider_data }
    })
    assert.isString(id)

    const created = await service.call("POST", "/api/tasks", token, { assistant_id: 1, input: [body] })
    const task = await service.until(token, created.body.uuid, "completed")
    assert.match(task.body.turn.output[0].text, /^Größe 1\.txt: text\/plain, 14 bytes, 3 lines, 3 words, sha256 /)

    const base = await service.call("GET", "/api/storage/base", token)
    const download = await fetch(`${base.body.url}/${provider_data.path}`)
    assert.strictEqual(await download.text(), "one two\nthree\n")
    assert.strictEqual((await fetch(`${base.body.url}/../internal-token`)).status, 404)
    assert.strictEqual((await fetch(`${base.body.url}/%2e%2e/internal-token`)).status, 404)
  })

  it("of a refused format, by name or by content, is 422 on the field file", async () => {
    const refused = [
      await upload("program.exe", "MZ"),
      await upload("noextension", "x"),
      await upload("constructor", "x"),
      await upload("picture.png", "not a picture"),
      await upload("paper.pdf", ""),
      await upload("note.txt", "x", "attachment")
    ]
    for (const { body, status } of refused) {
      assert.strictEqual(status, 422)
      assert.deepStrictEqual(Object.keys(body.errors), ["file"])
    }
    assert.strictEqual(
      (await upload("picture.PNG", new Uint8Array([0x89, 0x50, 0x4e, 0x47, 13, 10, 26, 10, 0]))).status,
      201
    )
  })

  it("that is refused on its way leaves nothing in storage", async () => {
    const stored = () => fs.readdirSync(`${directory}/storage`).length
    const before = stored()
    assert.strictEqual((await upload("picture.gif", new Uint8Array(4 * 1024 * 1024))).status, 422)
    await eventually(async () => stored(), (count) => count === before)
  })

  it("needs a token", async () => {
    assert.strictEqual((await service.call("POST", "/api/files", "nobody")).status, 401)
    assert.strictEqual((await service.call("GET", "/api/storage/base", "nobody")).status, 401)
    assert.strictEqual((await service.call("POST", "/api/files", token, {})).status, 422)
  })
})
