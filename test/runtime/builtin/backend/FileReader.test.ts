import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import * as fs from "node:fs"
import * as path from "node:path"
import { formatOf } from "../../../../src/domain/FileFormat.ts"
import * as FileReader from "../../../../src/runtime/builtin/backend/FileReader.ts"
import { docx, hugeSheet, pdf, wideSheet, workbook } from "../../../kit/documents.ts"
import { useDirectory } from "../../../kit/suite.ts"

const directory = useDirectory()

const reader = FileReader.make()

const read = (name: string, bytes: Buffer, offset = 0, characters = 10_000, user = "someone") => {
  const file = path.join(directory, name)
  fs.writeFileSync(file, bytes)
  return reader.read({ path: file, name, size: bytes.length, format: formatOf(name) }, offset, characters, user)
}

const textOf = (name: string, bytes: Buffer) => Effect.map(read(name, bytes), ({ text }) => text)

const rows = [["town", "sales"], ["Oslo", 4711], ["Rome", 12.5]]
const csv = "--- sheet Sales ---\ntown,sales\nOslo,4711\nRome,12.5"

/** Takes longer to read than a short text. */
const sheet = hugeSheet(3000)

describe("FileReader", () => {
  it.live("reads text, PDF, DOCX, XLSX and XLS", () =>
    Effect.gen(function*() {
      assert.strictEqual(yield* textOf("a.txt", Buffer.from("Größe ✓")), "Größe ✓")
      assert.strictEqual(yield* textOf("utf16.csv", Buffer.from("\ufeffa,b", "utf16le")), "a,b")
      assert.strictEqual(yield* textOf("a.html", Buffer.from("<p>x</p>")), "<p>x</p>")
      assert.strictEqual(yield* textOf("a.pdf", pdf("Hello from a page")), "--- page 1 ---\nHello from a page")
      assert.strictEqual((yield* textOf("a.docx", docx("Hello from Word"))).trim(), "Hello from Word")
      assert.strictEqual((yield* textOf("a.xlsx", workbook("xlsx", rows))).trim(), csv)
      assert.strictEqual((yield* textOf("a.xls", workbook("biff8", rows))).trim(), csv)
    }), 30_000)

  it.live("reads a document where node_modules is a link", () =>
    Effect.gen(function*() {
      const root = path.resolve(import.meta.dirname, "../../../..")
      const program = path.join(directory, "extractText.ts")
      fs.copyFileSync(path.join(root, "src/runtime/builtin/backend/extractText.ts"), program)
      fs.symlinkSync(path.join(root, "node_modules"), path.join(directory, "node_modules"))
      const file = path.join(directory, "linked.pdf")
      fs.writeFileSync(file, pdf("Hello"))
      const found = { path: file, name: "linked.pdf", size: 1, format: "pdf" }
      const { text } = yield* FileReader.make(program).read(found, 0, 100, "someone")
      assert.strictEqual(text, "--- page 1 ---\nHello")
    }))

  it.live("continues at an offset", () =>
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* read("a.txt", Buffer.from("0123456789"), 4, 3), { text: "456", total: 10 })
    }))

  it.live("returns no half of a surrogate pair", () =>
    Effect.gen(function*() {
      const emoji = Buffer.from("ab🎉cd")
      assert.deepStrictEqual(yield* read("a.txt", emoji, 0, 3), { text: "ab", total: 6 })
      assert.deepStrictEqual(yield* read("a.txt", emoji, 2, 3), { text: "🎉c", total: 6 })
    }))

  it.live("returns an error for files that it cannot read", () =>
    Effect.gen(function*() {
      const message = (name: string, bytes: Buffer) => Effect.map(Effect.flip(read(name, bytes)), (e) => e.message)
      const broken = /it is broken or locked/
      assert.match(yield* message("broken.pdf", Buffer.from("%PDF-1.7 and no more")), broken)
      assert.match(yield* message("cut.pdf", pdf("Hello").subarray(0, 60)), broken)
      assert.match(yield* message("broken.docx", Buffer.from("PK\x03\x04 and no more")), broken)
      assert.match(yield* message("sound.mp3", Buffer.from("ID3")), /format mp3 cannot be read as text/)
      const large = { path: "/nowhere", name: "a.txt", size: 2 ** 31, format: "txt" }
      assert.match((yield* Effect.flip(reader.read(large, 0, 1, "someone"))).message, /larger than 64 MB/)
    }), 30_000)

  it.live("reads a sheet that declares huge dimensions", () =>
    Effect.gen(function*() {
      assert.strictEqual(yield* textOf("wide.xlsx", wideSheet()), "--- sheet S ---\n1")
    }), 60_000)

  it.live("reads another user's file while one user has many slow files", () =>
    Effect.gen(function*() {
      const ended: Array<string> = []
      const reading = (name: string, file: Buffer, user: string) =>
        Effect.ensuring(Effect.exit(read(name, file, 0, 10, user)), Effect.sync(() => ended.push(name)))
      const greedy = yield* Effect.forkChild(
        Effect.all([1, 2, 3, 4].map((n) => reading(`slow${n}.xlsx`, sheet, "greedy")), { concurrency: "unbounded" }),
        { startImmediately: true }
      )
      const next = yield* Effect.forkChild(reading("next.txt", Buffer.from("x"), "greedy"), { startImmediately: true })
      yield* reading("small.txt", Buffer.from("x"), "other")
      const before = [...ended]
      yield* Fiber.join(greedy)
      yield* Fiber.join(next)
      // It waits for the one that is being read, and the greedy user's next file for all of them.
      assert.isAtMost(before.length, 2, before.join())
      assert.strictEqual(before.at(-1), "small.txt")
      assert.strictEqual(ended.at(-1), "next.txt")
    }), 120_000)
})
