/** The client's package, built and used as a stranger would: size, exports, types, and every program of its README. */
import { execFile, execFileSync, spawnSync } from "node:child_process"
import * as fs from "node:fs"
import * as path from "node:path"
import { promisify } from "node:util"
import { assert, describe, it } from "vitest"
import { mint } from "../kit/Service.ts"
import { use, useDirectory } from "../kit/suite.ts"
import { startSystem } from "../kit/System.ts"

const root = path.resolve(import.meta.dirname, "../..")
const folder = useDirectory()
const installed = path.join(folder, "node_modules/async-task-service-client")
const tsc = path.join(root, "node_modules/typescript/bin/tsc")
/** Returns what the program reports when it fails. */
const problemsOf = (args: ReadonlyArray<string>, cwd: string) => {
  const { status, stderr, stdout } = spawnSync(process.execPath, args, { cwd, encoding: "utf8" })
  return status === 0 ? "" : stdout + stderr
}

assert.strictEqual(problemsOf([tsc, "-p", ".tsconfig.client.json", "--outDir", installed], root), "")
assert.strictEqual(problemsOf([".client-package.js", installed], root), "")
const manifest = JSON.parse(fs.readFileSync(path.join(installed, "package.json"), "utf8"))
const sources = fs.globSync("**/*.{js,d.ts}", { cwd: installed })

/** The programs of the README. All but the first and the receiver of webhooks use the first one's `client`. */
const blocks = [...fs.readFileSync(path.join(installed, "README.md"), "utf8").matchAll(/^```ts\n(.*?)^```/gms)]
  .map(([, code = ""]) => code)
const [first = ""] = blocks
const client = first.slice(0, first.indexOf("const task"))
const isComplete = (code: string) => code === first || code.includes("verifyWebhook")

/** Lets the receiver of the README receive one webhook of the service. */
const receiveOne = `
import { once } from "node:events"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { buffer } from "node:stream/consumers"
import { TaskServiceClient } from "async-task-service-client"
const server = createServer(async (request, response) => {
  const headers = request.headers as Record<string, string>
  const forged = await receive(new Request("http://a", { method: "POST", headers, body: "{}" }))
  const answer = await receive(new Request("http://a", { method: "POST", headers, body: await buffer(request) }))
  response.writeHead(answer.status).end()
  console.log(forged.status, answer.status)
  server.close()
}).listen(0, "127.0.0.1")
await once(server, "listening")
const callback_url = \`http://127.0.0.1:\${(server.address() as AddressInfo).port}\`
const { tasks } = new TaskServiceClient({
  baseUrl: process.env.TASK_SERVICE_URL ?? "",
  token: process.env.TASK_SERVICE_TOKEN ?? ""
})
const body = { assistant_id: 1, input: [{ type: "text", text: "echo hello" }], callback_url } as const
await tasks.create({ ...body, callback_secret: process.env.WEBHOOK_SECRET ?? "" })
`

/** The last lines that each program prints, in the order of the README. */
const expected: ReadonlyArray<RegExp> = [
  /^completed .*42/s,
  /^\S+ interrupted\n\S+ processing\n\S+ completed\ncompleted$/m,
  /^completed$/,
  /^\S+ \S+ completed\n401 204$/,
  /^invalid: .*assistant_id/s,
  /42/,
  /^26 of 26 bytes\ncompleted http\S+notes.txt$/,
  /^0 pending\n1 processing\n(.*\n)*[1-9]\d*\n\S+ completed/,
  /42/,
  /^\[ \{ order: '7' \}, \{ order: '7' \} \]\n\[.*'What is 7 \* 7\?'/
]

const compilerOptions = { module: "NodeNext", target: "ES2022", strict: true, exactOptionalPropertyTypes: true }

/** Compiles files of the folder, the declarations of the package included, and returns the errors. */
const compile = (name: string, files: ReadonlyArray<string>, options: object) => {
  const project = path.join(folder, `${name}.json`)
  fs.writeFileSync(
    project,
    JSON.stringify({ files, compilerOptions: { ...compilerOptions, noEmit: true, skipLibCheck: false, ...options } })
  )
  return problemsOf([tsc, "-p", project], folder)
}

const { service } = await use(
  startSystem({ CORE_URL: "", DATA_DIR: useDirectory(), WEBHOOK_ALLOW_PRIVATE: "true" })
)

describe("async-task-service-client", () => {
  it("is smaller than 60 kB and has the version of the service", () => {
    const [packed] = JSON.parse(execFileSync("npm", ["pack", "--dry-run", "--json"], { cwd: installed }).toString())
    assert.isBelow(packed.size, 60_000)
    const { version } = JSON.parse(fs.readFileSync(path.join(root, "package.json"), "utf8"))
    assert.strictEqual(packed.version, version)
  })

  it("depends on nothing, in code and in types", () => {
    assert.isAtLeast(sources.length, 20)
    assert.notProperty(manifest, "dependencies")
    for (const source of sources) {
      const text = fs.readFileSync(path.join(installed, source), "utf8")
      const specifiers = [...text.matchAll(/(?:from|import) *\(?"([^"]+)"/g)].map(([, specifier = ""]) => specifier)
      assert.deepStrictEqual(specifiers.filter((specifier) => !specifier.startsWith(".")), [], source)
    }
  })

  it("compiles with the types of Node alone, and with those of a browser alone", () => {
    fs.writeFileSync(path.join(folder, "package.json"), "{\"type\": \"module\"}")
    const names = "{ TaskServiceClient, NotFoundError, isTerminal }"
    const code = `export ${names} from "${manifest.name}"\nexport { verifyWebhook } from "${manifest.name}/webhooks"\n`
      + `export { createCore, serveCore } from "${manifest.name}/core"\n`
    fs.writeFileSync(path.join(folder, "exports.ts"), code)
    const typeRoots = [path.join(root, "node_modules/@types")]
    assert.strictEqual(compile("node", ["exports.ts"], { lib: ["ES2023"], types: ["node"], typeRoots }), "")
    assert.strictEqual(compile("browser", ["exports.ts"], { lib: ["ES2023", "DOM"], types: [] }), "")
    assert.strictEqual(problemsOf([path.join(folder, "exports.ts")], folder), "")
  })

  it("has a page whose links lead to the repository that package.json names, or has none", () => {
    const linksOf = (directory: string) =>
      [...fs.readFileSync(path.join(directory, "README.md"), "utf8").matchAll(/\]\(([^)]+)\)/g)].map(([, link = ""]) =>
        link
      )
    assert.deepStrictEqual(linksOf(installed), [])
    const checkout = path.join(folder, "checkout")
    fs.mkdirSync(path.join(checkout, "packed"), { recursive: true })
    for (const name of ["src", "test"]) fs.symlinkSync(path.join(root, name), path.join(checkout, name))
    const homepage = "https://github.com/owner/name"
    const service = JSON.parse(fs.readFileSync(path.join(root, "package.json"), "utf8"))
    fs.writeFileSync(path.join(checkout, "package.json"), JSON.stringify({ ...service, homepage }))
    assert.strictEqual(problemsOf([path.join(root, ".client-package.js"), "packed"], checkout), "")
    const links = linksOf(path.join(checkout, "packed"))
    assert.isNotEmpty(links)
    for (const link of links) {
      const [file = ""] = link.split(`${homepage}/blob/v${service.version}/`)[1]?.split("#") ?? []
      assert.isTrue(file !== "" && fs.existsSync(path.join(root, file)), link)
    }
  })

  it("has an expectation for every program of its README", () => assert.lengthOf(blocks, expected.length))

  it("compiles all programs of its README in strict mode", () => {
    const files = blocks.map((code, index) => {
      const name = `program${index}.ts`
      const tail = code.includes("verifyWebhook") ? receiveOne : ""
      fs.writeFileSync(path.join(folder, name), `${isComplete(code) ? "" : client}${code}${tail}`)
      return name
    })
    const typeRoots = [path.join(root, "node_modules/@types")]
    assert.strictEqual(
      compile("programs", files, { lib: ["ES2023", "DOM"], types: ["node"], typeRoots, skipLibCheck: true }),
      ""
    )
  })

  for (const [index, lines] of expected.entries()) {
    it(`runs program ${index} of its README`, async () => {
      const { stdout } = await promisify(execFile)(process.execPath, [path.join(folder, `program${index}.ts`)], {
        cwd: folder,
        timeout: 30_000,
        env: {
          PATH: process.env["PATH"],
          TASK_SERVICE_URL: service.url,
          TASK_SERVICE_TOKEN: await mint(`reader-${index === 9 ? 0 : index}`),
          WEBHOOK_SECRET: "a secret of the reader"
        }
      })
      assert.match(stdout.trimEnd(), lines)
    })
  }
})

describe("the bundle of the service", () => {
  it("has the licences of all libraries in it", () => {
    const directory = process.env["TEST_SERVICE"] ?? ""
    const notices = fs.readFileSync(path.join(directory, "THIRD-PARTY-NOTICES.txt"), "utf8")
    const { dependencies } = JSON.parse(fs.readFileSync(path.join(root, "package.json"), "utf8"))
    for (const name of [...Object.keys(dependencies), "preact", "marked", "pako"]) {
      assert.match(notices, new RegExp(`^${name} \\d[^\\n]* \\(.+\\)\\n\\n`, "m"))
    }
    assert.match(notices, /Permission is hereby granted, free of charge/)
  })
})
