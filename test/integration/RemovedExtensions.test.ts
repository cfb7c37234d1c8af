/** Each extension can be deleted, as CONTRIBUTING says: the rest has its types, and the core passes its tests. */
import { execFile } from "node:child_process"
import * as fs from "node:fs"
import * as path from "node:path"
import { promisify, stripVTControlCharacters } from "node:util"
import { assert, describe, it } from "vitest"
import { Service } from "../kit/Service.ts"
import { useDirectory } from "../kit/suite.ts"

const root = path.resolve(import.meta.dirname, "../..")
const copy = path.join(useDirectory(), "copy")
const dataDir = useDirectory()
const run = promisify(execFile)

const bin = (name: string) => path.join(root, "node_modules/.bin", name)

/** Files with a line, or an entry of several, of each extension. */
const lists = new Set([
  "src/runtime/extensions.ts",
  "src/http/client/promise/resources.ts",
  "src/http/console/extensions.ts",
  "src/http/client/python/async_task_service_client/client.py"
])

const names = fs.readdirSync(path.join(root, "src/runtime/extensions"))
/** Façades go with what they share. */
const sharing = names.filter((name) => {
  const folder = path.join(root, "src/http", name)
  return name !== "facades" && fs.existsSync(folder) &&
    fs.readdirSync(folder, { recursive: true, encoding: "utf8" }).some((file) =>
      file.endsWith(".ts") && fs.readFileSync(path.join(folder, file), "utf8").includes("\"../facades/")
    )
})

/** Files of the tree and their texts; an empty text is not read. */
type Tree = ReadonlyMap<string, string>

const isSource = (file: string) => /\.tsx?$/.test(file) && !/\/apps\/|^test\/package\/user\//.test(file)

const tree: Tree = new Map(
  fs.globSync("{src,test,.github}/**/*", { cwd: root, exclude: ["**/node_modules", "test/golden/files"] })
    .filter((file) => fs.statSync(path.join(root, file)).isFile())
    .map((file) => [file, isSource(file) || lists.has(file) ? fs.readFileSync(path.join(root, file), "utf8") : ""])
)

/** Without the folders of the name below `src` and `test`, the files of the name below `test`, and the lines in the lists. */
const without = (tree: Tree, name: string): Tree => {
  const isGone = new RegExp(
    `^(src|test)/(.*/)?${name}/|^test/(.*/)?${name}\\.ts$|^src/http/client/python/.*/${name}\\.py$`
  )
  return new Map(
    [...tree].filter(([file]) => !isGone.test(file)).map(([file, text]) => {
      if (!lists.has(file)) return [file, text]
      const withoutEntries = text.replaceAll(
        /^ {2}\{\n[^{}]*\n {2}\},?\n/gm,
        (entry) => entry.includes(`/${name}/`) ? "" : entry
      )
      return [file, withoutEntries.split("\n").filter((line) => !new RegExp(`\\b${name}\\b`).test(line)).join("\n")]
    })
  )
}

const makeCopy = (tree: Tree) => {
  fs.rmSync(copy, { recursive: true, force: true })
  for (const [file, text] of tree) {
    fs.mkdirSync(path.dirname(path.join(copy, file)), { recursive: true })
    if (lists.has(file)) fs.writeFileSync(path.join(copy, file), text)
    else fs.copyFileSync(path.join(root, file), path.join(copy, file))
  }
  for (const name of ["package.json", "tsconfig.json", "vitest.config.ts", ".oxlintrc.js", "README.md"]) {
    fs.copyFileSync(path.join(root, name), path.join(copy, name))
  }
  fs.symlinkSync(path.join(root, "node_modules"), path.join(copy, "node_modules"))
}

/** What the compiler says of the copy. */
const checkTypes = () =>
  run(bin("tsc"), ["--noEmit"], { cwd: copy, maxBuffer: 2 ** 24 }).then(
    ({ stdout }) => stdout,
    ({ stdout }: { readonly stdout: string }) => stdout.slice(0, 4000)
  )

/** The imports of files that are gone, which is where a compiler would find an error. */
const brokenImports = (tree: Tree) =>
  // Some have imports in texts.
  [...tree].filter(([file]) => !/RemovedExtensions\.test\.ts$|^test\/docs\/typescriptTypes\.ts$/.test(file))
    .flatMap(([file, text]) =>
      Array.from(
        text.matchAll(/^(?:import|export|\} from| *\S.*import\().*?"(\.{1,2}\/[^"]+\.tsx?)"/gm),
        ([, address = ""]) => address
      )
        .filter((address) => !tree.has(path.join(path.dirname(file), address)))
        .map((address) => `${file}: ${address}`)
    )

describe("without an extension the rest imports nothing of it", () => {
  it("which a file that is gone would show", () => {
    assert.deepStrictEqual(brokenImports(tree), [])
    const rest = new Map(tree)
    rest.delete("src/domain/Task.ts")
    assert.isAbove(brokenImports(rest).length, 50)
  })

  for (const name of names) {
    const gone = name === "facades" ? [name, ...sharing] : [name]
    it(`${gone.join(", ")}`, () => {
      assert.deepStrictEqual(brokenImports(gone.reduce(without, tree)), [])
    })
  }
})

describe("a new extension", () => {
  /** The example, as if it had been written in the folders of an extension. */
  const add = () => {
    const example = path.join(root, "test/examples/extension")
    for (const file of fs.globSync("**/*.ts", { cwd: example })) {
      const target = path.join(copy, "src", file)
      fs.mkdirSync(path.dirname(target), { recursive: true })
      const source = path.dirname(path.join(example, file))
      const text = fs.readFileSync(path.join(example, file), "utf8").replaceAll(
        /"(\.[^"]*\/src\/[^"]*)"/g,
        (_, imported) => {
          const found = path.relative(path.join(root, "src"), path.resolve(source, imported))
          return JSON.stringify(path.relative(path.dirname(target), path.join(copy, "src", found)))
        }
      )
      fs.writeFileSync(target, text)
    }
    const list = path.join(copy, "src/runtime/extensions.ts")
    const line = "  { server: () => import(\"./extensions/bot/server.ts\") },"
    fs.writeFileSync(
      list,
      fs.readFileSync(list, "utf8").replace("ExtensionModules> = [", (start) => `${start}\n${line}`)
    )
  }

  it("is folders and a line: a bot for users without a JWT answers", async () => {
    makeCopy(tree)
    add()
    const service = await Service.start(
      // An embedded service mints the tokens of users.
      { BOT_TOKEN: "the platform's own token", DATA_DIR: dataDir },
      undefined,
      [path.join(copy, "src/runtime/Main.ts")]
    )
    const ask = (token: string, body: unknown) =>
      fetch(`${service.url}/bot/messages`, {
        method: "POST",
        headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
        body: JSON.stringify(body)
      })
    const answered = await ask("the platform's own token", { chat: "c-1", text: "What is 6 * 7?" })
    assert.deepStrictEqual([answered.status, await answered.json()], [200, { text: "42" }])
    assert.strictEqual((await ask("another", { chat: "c-1", text: "Hello" })).status, 401)
    assert.strictEqual((await ask("the platform's own token", { chat: "c 1", text: "Hello" })).status, 422)
    await service.stop()
  }, 120_000)
})

describe("without all extensions", () => {
  it("the core has its types and passes its tests", async () => {
    makeCopy(names.reduce(without, tree))
    assert.strictEqual(await checkTypes(), "")
    // The kit runs the whole core; other suites of it import what the compiler has found.
    const suites = ["test/http/rpc", "test/http/handlers", "test/runtime/testing/TestService"]
    const { stdout } = await run(bin("vitest"), ["run", "--project", "unit", "--maxWorkers=1", ...suites], {
      cwd: copy,
      maxBuffer: 2 ** 24
    }).catch(({ stdout }: { readonly stdout: string }) => assert.fail(stdout.slice(-6000)))
    assert.match(stripVTControlCharacters(stdout), /Tests +\d+ passed/)
  }, 600_000)
})
