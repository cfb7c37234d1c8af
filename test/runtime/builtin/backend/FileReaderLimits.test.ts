import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import { spawn } from "node:child_process"
import { once } from "node:events"
import * as fs from "node:fs"
import { createServer } from "node:net"
import * as path from "node:path"
import * as FileReader from "../../../../src/runtime/builtin/backend/FileReader.ts"
import { eventually } from "../../../kit/Service.ts"
import { useDirectory } from "../../../kit/suite.ts"

const directory = useDirectory()
const program = path.resolve(import.meta.dirname, "../../../kit/exploitedReader.ts")
const reader = FileReader.make(program)

let files = 0

const write = (code: string) => {
  const file = path.join(directory, `${files++}.txt`)
  fs.writeFileSync(file, code)
  return file
}

const readFile = (file: string, offset = 0) =>
  reader.read({ path: file, name: "a.txt", size: 1, format: "txt" }, offset, 10_000, "someone")

/** The value that code of a file exports in its reader. */
const valueOf = (code: string) => Effect.map(readFile(write(code)), ({ text }) => JSON.parse(text))

const messageOf = (code: string) => Effect.map(Effect.flip(readFile(write(code))), ({ message }) => message)

/** The processes that have the words in their command line, and have not ended. */
const processesOf = (words: string) =>
  fs.readdirSync("/proc").filter((pid) => {
    try {
      return /^\d+$/.test(pid) && fs.readFileSync(`/proc/${pid}/cmdline`, "utf8").includes(words)
    } catch {
      return false
    }
  })

const spin = "for (;;);"

/** Offsets that no other reader has, by which a reader is found. */
let offset = process.pid * 1000

describe("the process that reads a file", () => {
  it.live("has no settings of the service and no permissions", () =>
    Effect.gen(function*() {
      process.env["NODE_OPTIONS"] = "--max-old-space-size=4096"
      process.env["JWT_SECRET"] = "a secret"
      const found = yield* valueOf(`
        import { readFileSync } from "node:fs"
        import { getHeapStatistics } from "node:v8"
        const { heap_size_limit } = getHeapStatistics()
        const denied = ["fs.read", "fs.write", "child", "worker", "addons"].filter((each) => !process.permission.has(each))
        export default { env: Object.keys(process.env), execArgv: process.execArgv, heap_size_limit, denied }`)
      delete process.env["NODE_OPTIONS"]
      delete process.env["JWT_SECRET"]
      assert.notInclude(found.env, "NODE_OPTIONS")
      assert.notInclude(found.env, "JWT_SECRET")
      assert.isBelow(found.heap_size_limit, 400 * 1024 * 1024)
      assert.deepStrictEqual(found.denied, ["fs.read", "fs.write", "child", "worker", "addons"])
    }))

  it.live("opens no other file and no socket", () =>
    Effect.gen(function*() {
      const server = createServer().listen(0, "127.0.0.1")
      yield* Effect.promise(() => once(server, "listening"))
      const { port } = server.address() as { readonly port: number }
      const other = write("a secret")
      const codes = yield* valueOf(`
        import { readFileSync, readdirSync, writeFileSync } from "node:fs"
        import { connect } from "node:net"
        import { spawnSync } from "node:child_process"
        const codeOf = (call) => { try { call() } catch ({ code }) { return code } }
        const files = [
          () => readFileSync(${JSON.stringify(other)}),
          () => readFileSync("/proc/" + process.ppid + "/environ"),
          () => readdirSync(${JSON.stringify(directory)}),
          () => writeFileSync(${JSON.stringify(other)}, ""),
          () => spawnSync("true")
        ].map(codeOf)
        const socket = await new Promise((resolve) => {
          const code = codeOf(() => connect(${port}, "127.0.0.1").on("error", ({ code }) => resolve(code)).on("connect", () => resolve("connected")))
          if (code !== undefined) resolve(code)
        })
        export default [...files, socket]`)
      server.close()
      assert.deepStrictEqual(codes, Array.from({ length: 6 }, () => "ERR_ACCESS_DENIED"))
    }))

  it.live.each(
    [
      ["aborts", "process.abort()"],
      ["kills itself", "process.kill(process.pid, 'SIGKILL')"],
      ["kills its shell", "process.kill(process.ppid, 'SIGKILL')"],
      ["ends without a result", "process.exit(0)"],
      ["fills its heap", "const all = []; for (;;) all.push({ [all.length]: [] })"],
      ["fills memory outside of its heap", "const all = []; for (;;) all.push(Buffer.alloc(2 ** 24, 1))"],
      ["writes without end", "import { writeSync } from 'node:fs'; for (;;) writeSync(3, Buffer.alloc(2 ** 20, 32))"],
      ["writes no result", "import { writeSync } from 'node:fs'; writeSync(3, '{\"text\": 1}'); process.exit()"]
    ] as const
  )("is a file that cannot be read when it %s", ([, code]) =>
    Effect.gen(function*() {
      assert.match(yield* messageOf(code), /^The file (cannot be read|is not a txt that can be read):/)
      assert.strictEqual(yield* valueOf("export default 1"), 1)
    }), 30_000)

  it.live("has little memory", () =>
    Effect.gen(function*() {
      const bytes = yield* valueOf(`
        const all = []
        try { for (;;) all.push(Buffer.alloc(2 ** 22, 1)) } catch { all.length -= 20 }
        export default process.memoryUsage.rss()`)
      assert.isAbove(bytes, 256 * 1024 * 1024)
      assert.isBelow(bytes, FileReader.limits.dataMegabytes * 1024 * 1024)
    }))

  it.live("ends with the fiber that waits for it", () =>
    Effect.gen(function*() {
      const words = `"offset":${++offset}`
      const reading = yield* Effect.forkChild(readFile(write(spin), offset))
      // The shell and the reader.
      yield* Effect.promise(() => eventually(async () => processesOf(words).length, (count) => count === 2))
      yield* Fiber.interrupt(reading)
      assert.deepStrictEqual(processesOf(words), [])
    }))

  it.live("is the first to be killed when memory is short, and ends with the process that started it", () =>
    Effect.gen(function*() {
      const words = `"offset":${++offset}`
      const parent = spawn(process.execPath, [
        path.resolve(import.meta.dirname, "../../../kit/readingProcess.ts"),
        program,
        write(spin),
        String(offset)
      ], { stdio: "inherit" })
      const pids = yield* Effect.promise(() =>
        eventually(
          async () => processesOf(words).filter((pid) => pid !== String(parent.pid)),
          ({ length }) => length === 2
        )
      )
      for (const pid of pids) assert.strictEqual(fs.readFileSync(`/proc/${pid}/oom_score_adj`, "utf8").trim(), "1000")
      parent.kill("SIGKILL")
      yield* Effect.promise(() => eventually(async () => processesOf(words), ({ length }) => length === 0))
    }))
})
