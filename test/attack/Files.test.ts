import * as fs from "node:fs"
import * as path from "node:path"
import { assert, describe, it } from "vitest"
import { docx, hugeSheet, pdf, wideDictionary } from "../kit/documents.ts"
import { eventually, freePort, mint, Service } from "../kit/Service.ts"
import { use, useDirectory } from "../kit/suite.ts"
import { assertBounded, startVictim } from "./kit/Victim.ts"

const directory = useDirectory()
const mebibyte = 1024 * 1024
const settings = {
  CORE_URL: "",
  DATA_DIR: path.join(directory, "data"),
  STORAGE_QUOTA: "8 MiB",
  // It lifts the limits of V8 in every process that inherits it.
  NODE_OPTIONS: "--max-old-space-size=4096"
}

const victim = await use(startVictim(settings))

const full = "All your files together are larger than 8388608 bytes"
const refusal = { status: 422, body: { message: full, errors: { file: [full] } } }

const stored = () => fs.readdirSync(path.join(settings.DATA_DIR, "storage")).length

const bytes = (mebibytes: number) => Buffer.alloc(mebibytes * mebibyte, 0x20)

describe("the storage of one user", () => {
  it("has a quota, which applies to concurrent uploads, survives a restart and is separate for each user", async () => {
    const token = await mint("hoarder")
    const { service } = victim
    const answers = await Promise.all([1, 2, 3, 4, 5, 6].map((n) => service.upload(token, `${n}.txt`, bytes(3))))
    const refused = answers.filter(({ status }) => status !== 201)
    assert.isAtLeast(refused.length, 4)
    for (const answer of refused) assert.deepStrictEqual(answer, refusal)
    await eventually(async () => stored(), (count) => count === answers.length - refused.length)
    while (stored() < 2) assert.strictEqual((await service.upload(token, "3.txt", bytes(3))).status, 201)

    assert.deepStrictEqual(await service.upload(token, "3.txt", bytes(3)), refusal)
    assert.strictEqual((await service.upload(token, "1.txt", bytes(1))).status, 201)
    assert.strictEqual((await service.upload(await mint("another"), "7.txt", bytes(7))).status, 201)

    const again = await Service.start({ ...victim.settings, ...settings })
    assert.deepStrictEqual(await again.upload(token, "3.txt", bytes(2)), refusal)
    await again.stop()
  })

  it("counts empty files too, and an assistant that draws reports when it is full", async () => {
    const token = await mint("sower")
    await victim.service.upload(token, "a.txt", bytes(7))
    let last: { readonly status: number } | undefined
    for (let n = 0; n < 300 && last?.status !== 422; n++) last = await victim.service.upload(token, "a.txt", " ")
    assert.deepStrictEqual(last, refusal)
    const { body } = await victim.service.create(token, "a house", { assistant_id: 4 })
    assert.strictEqual((await victim.service.until(token, body.uuid, "failed")).body.error, full)
  })

  it("is also enforced by a backend that is served alone, before the whole file has arrived", async () => {
    const port = await freePort()
    const command = ["src/runtime/cli/Cli.ts", "serve", "--only", "backend"]
    const data = path.join(directory, "alone")
    const backend = await Service.start({ DATA_DIR: data, STORAGE_QUOTA: "1 MiB" }, port, command, "/healthz")
    const service = await Service.start({ ...victim.settings, ASSISTANT_BACKEND_URL: backend.url })
    try {
      const answer = await service.upload(await mint("hoarder"), "a.txt", bytes(40))
      assert.strictEqual(answer.status, 422)
      assert.deepStrictEqual(Object.keys(answer.body.errors), ["file"])
    } finally {
      await service.stop()
      await backend.stop()
    }
  })
})

const keys = 2_100_000

/** Creates a task about a file. */
const ask = async (service: Service, token: string, name: string, content: Buffer) => {
  const input = [{ type: "text", text: "What is in it?" }, await service.store(token, name, content)]
  const { body } = await service.create(token, "x", { assistant_id: 1, input })
  return String(body.uuid)
}

/** The process groups that read the file. */
const groupsReading = (name: string) =>
  fs.readdirSync("/proc").filter((pid) => {
    try {
      return fs.readFileSync(`/proc/${pid}/cmdline`, "utf8").includes(`/${name}\0`)
    } catch {
      return false
    }
  })

const isRunning = (group: string) => {
  try {
    return process.kill(-Number(group), 0)
  } catch {
    return false
  }
}

describe("a document that unpacks to a huge size", () => {
  const refused = /cannot be read|broken/
  const bombs: ReadonlyArray<readonly [name: string, content: () => Buffer, answer: RegExp]> = [
    ["bomb.docx", () => docx(bytes(700)), refused],
    ["bomb.pdf", () => pdf(bytes(900), 2), refused],
    ["keys.pdf", () => wideDictionary(keys), refused],
    ["huge.xlsx", () => hugeSheet(40_000), refused],
    ["lines.txt", () => Buffer.alloc(7 * mebibyte, "\n"), /output/]
  ]
  it.each(bombs)("takes little memory and does not block the event loop: %s", async (name, content, answer) => {
    const token = await mint(`reader-${name}`)
    const file = content()
    const observed = await victim.observe(async () => {
      const uuid = await ask(victim.service, token, name, file)
      const { body: task } = await victim.service.until(token, uuid, "completed", 40_000)
      assert.match(JSON.stringify(task.turn), answer)
    })
    assertBounded(observed)
  })

  it("is not read any more when the node is killed, and its task ends after a restart", async () => {
    const token = await mint("killer")
    const node = await Service.start({ ...victim.settings, ...settings })
    const uuid = await ask(node, token, "killed.pdf", wideDictionary(keys))
    const groups = await eventually(async () => groupsReading("killed.pdf"), ({ length }) => length > 0)
    assert.isTrue(groups.every(isRunning))
    await node.stop("SIGKILL")
    await eventually(async () => groups.some(isRunning), (running) => !running)

    const again = await Service.start({ ...victim.settings, ...settings })
    const { body: task } = await again.until(token, uuid, "completed", 40_000)
    assert.match(JSON.stringify(task.turn), refused)
    await again.stop()
  })
})
