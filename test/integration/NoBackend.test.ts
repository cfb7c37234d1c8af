/** A service whose core needs no assistant backend: without files, and with files in a directory that two nodes share. */
import { randomBytes } from "node:crypto"
import * as fs from "node:fs"
import * as path from "node:path"
import { assert, describe, it, onTestFinished } from "vitest"
import { type Run, serveCore } from "../../src/http/client/Core.ts"
import { openDatabase } from "../kit/databases.ts"
import { mint, Service } from "../kit/Service.ts"
import { use, useDirectory } from "../kit/suite.ts"

const coreToken = "a token for calls of the core"
const internalToken = "an internal token of 32 characters or more"
const eventToken = "an event token of 32 characters or more"

const production = {
  NODE_ENV: "production",
  INTERNAL_TOKENS: internalToken,
  CORE_TOKEN: coreToken,
  CORE_EVENT_TOKENS: eventToken,
  ENCRYPTION_KEY: randomBytes(32).toString("base64"),
  ASSISTANT_BACKEND_URL: "none"
}

/** Answers with the content of the first file, or else with the prompt. */
const work = async ({ files, input, prompt }: Run) => {
  const file = input.find((item) => item.type === "file")
  return file === undefined ? prompt : (await files.download(file)).text()
}

const log = { info: () => {}, error: () => {} }
const core = await use(serveCore({ run: work, port: 0, token: coreToken, eventToken, handleSignals: false, log }))
const database = await use(openDatabase())
const settings = { ...production, DATABASE_URL: database.url, CORE_URL: core.url }

describe("a service in production without an assistant backend", () => {
  it("runs tasks, and has no files", async () => {
    const service = await use(Service.start(settings), onTestFinished)
    const token = await mint("user")
    const { body: { uuid } } = await service.create(token, "hello", { assistant_id: 12_345 })
    assert.strictEqual((await service.until(token, uuid, "completed")).body.turn.output[0].text, "hello")
    const refused = await Promise.all([
      service.upload(token, "notes.txt", "hello"),
      service.call("POST", "/api/files", token, "no form"),
      service.call("GET", "/api/storage/base", token)
    ])
    for (const { body, status } of refused) {
      assert.strictEqual(status, 404)
      assert.strictEqual(body.code, "files_not_kept")
      assert.match(body.message, /keeps no files.*FILES_DIR/)
    }
    assert.strictEqual((await service.call("GET", "/api/storage/base", "none")).status, 401)
    assert.strictEqual((await service.call("POST", "/api/files", "none")).status, 401)
    assert.strictEqual((await service.call("GET", "/storage/a/b", token)).status, 404)
  })

  it("keeps files in FILES_DIR, which its nodes share, with formats and quota", async () => {
    const directory = path.join(useDirectory(onTestFinished), "files")
    const shared = { ...settings, FILES_DIR: directory, STORAGE_QUOTA: "16 KiB" }
    const nodes = await Promise.all([1, 2].map(() => use(Service.start(shared), onTestFinished)))
    const [one, two] = nodes as [Service, Service]
    const token = await mint("user-of-files")
    const item = await one.store(token, "notes.txt", "content of the file")
    assert.match(item.file.provider_data.path, /^[0-9a-f-]{36}\/notes\.txt$/)
    const { body: { url }, status } = await two.call("GET", "/api/storage/base", token)
    assert.deepStrictEqual([status, url], [200, `${two.url}/storage`])
    // Downloads need no token, on any node.
    for (const node of nodes) {
      const response = await fetch(`${node.url}/storage/${item.file.provider_data.path}`)
      assert.strictEqual(await response.text(), "content of the file")
      assert.strictEqual(response.headers.get("x-content-type-options"), "nosniff")
    }
    const { body: { uuid } } = await two.call("POST", "/api/tasks", token, { assistant_id: 1, input: [item] })
    assert.strictEqual((await two.until(token, uuid, "completed")).body.turn.output[0].text, "content of the file")

    const program = await one.upload(token, "tool.exe", "MZ")
    assert.strictEqual(program.status, 422)
    assert.property(program.body.errors, "file")
    // Each file counts as a block of 4 KiB at least, on whichever node it was stored.
    for (const node of [two, one]) assert.strictEqual((await node.upload(token, "a.txt", "x")).status, 201)
    const full = await two.upload(token, "b.txt", "x".repeat(8192))
    assert.strictEqual(full.status, 422)
    assert.match(full.body.errors.file[0], /larger than 16384 bytes/)
    assert.strictEqual((await one.upload(await mint("another"), "b.txt", "x")).status, 201)
    assert.strictEqual(fs.statSync(path.join(directory, "storage")).mode & 0o777, 0o700)
  })
})
