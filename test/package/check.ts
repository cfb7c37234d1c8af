/**
 * Packs both packages, installs them into an empty folder and uses them from there, as a stranger would: types, a TypeScript
 * and a JavaScript file, an older Node, bundles and a real browser, against a running service. Prints what it measured.
 */
import { execFileSync, spawnSync } from "node:child_process"
import * as fs from "node:fs"
import { createServer, request as forward } from "node:http"
import type { AddressInfo } from "node:net"
import * as os from "node:os"
import * as path from "node:path"
import { gzipSync } from "node:zlib"
import { chromium } from "playwright-core"
import { rolldown } from "rolldown"
import { nodeProblem } from "../../src/runtime/Version.ts"
import { internalToken, mint } from "../kit/Service.ts"
import { startPostgres } from "../kit/standalone.ts"
import {
  callModel,
  createLarge,
  installProduction,
  readDocuments,
  secondsOf,
  sizeOf,
  startOften,
  useOlderEffect
} from "./installed.ts"

const root = path.resolve(import.meta.dirname, "../..")
const modules = path.join(root, "node_modules")
const folder = fs.mkdtempSync(path.join(os.tmpdir(), "async-task-service-package-"))
const userFiles = path.join(import.meta.dirname, "user")

const run = (command: string, args: ReadonlyArray<string>, cwd: string, env: Record<string, string> = {}) =>
  execFileSync(command, args, { cwd, encoding: "utf8", env: { ...process.env, ...env } }).trim()

const say = (what: string, result: string) => console.log(`${what.padEnd(34)} ${result}`)

const kilobytes = (bytes: number) => `${(bytes / 1000).toFixed(1)} kB`

const bundle = async (name: string, source: string, target = name) => {
  const input = path.join(folder, `${name}.entry.js`)
  fs.writeFileSync(input, source)
  const built = await rolldown({ input, platform: "browser", logLevel: "silent" })
  const { output } = await built.generate({ format: "esm", minify: true, file: `${target}.js` })
  const { code, moduleIds } = output[0]
  const foreign = moduleIds.filter((id) => /\/dist\/(services|runtime|http\/handlers)\//.test(id))
  if (foreign.length > 0) throw new Error(`server code in ${name}: ${foreign.join(", ")}`)
  say(
    `bundle of ${name}`,
    `${kilobytes(code.length)} minified, ${kilobytes(gzipSync(code).length)} gzip, ${moduleIds.length} modules`
  )
  return code
}

/** A page with the client's bundle, and the service behind the same origin. */
const servePage = async (serviceUrl: string, code: string) => {
  const { host, hostname, port } = new URL(serviceUrl)
  const server = createServer((incoming, response) => {
    if (incoming.url === "/") return response.writeHead(200, { "content-type": "text/html" }).end("<!doctype html>")
    if (incoming.url === "/client.js") return response.writeHead(200, { "content-type": "text/javascript" }).end(code)
    const options = {
      hostname,
      port,
      path: incoming.url,
      method: incoming.method,
      headers: { ...incoming.headers, host }
    }
    incoming.pipe(forward(options, (answer) => {
      answer.pipe(response.writeHead(answer.statusCode ?? 502, answer.headers))
    }))
  })
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
  return { server, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` }
}

const inBrowser = async (serviceUrl: string, token: string, code: string) => {
  const executablePath = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find(
    fs.existsSync
  )
  if (executablePath === undefined) return "skipped: no browser on this machine"
  const { server, url } = await servePage(serviceUrl, code)
  const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] })
  try {
    const page = await browser.newPage()
    await page.goto(url)
    const result = await page.evaluate(async ({ token, url }) => {
      const { TaskServiceClient } = await import(/* @vite-ignore */ `${url}/client.js`)
      const client = new TaskServiceClient({ baseUrl: url, token })
      const progress: Array<number> = []
      const file = new File(["a".repeat(2_000_000)], "notes.txt", { type: "text/plain" })
      const uploaded = await client.files.upload(file, {
        onProgress: ({ loaded }: { loaded: number }) => progress.push(loaded)
      })
      const stream = await client.files.upload(new Blob(["streamed"]).stream(), { name: "stream.txt" })
      const task = await client.tasks.run(
        { assistant_id: 2, input: [{ type: "text", text: "call look" }, uploaded, stream] },
        { tools: { look: async () => ({ at: "the page" }) } }
      )
      const events: Array<string> = []
      for await (const { event } of client.tasks.events(task.uuid)) events.push(event)
      return `${task.status}, ${task.turn.output[0].text}, ${progress.length} progress notes, events ${
        events.join(" ")
      }`
    }, { token, url })
    return `${browser.version()}: ${result}`
  } finally {
    await browser.close()
    server.close()
  }
}

/** Declarations that the examples of the READMEs assume. */
const given = `declare const token: string, user_token: string, internalToken: string
declare const input: [{ readonly type: "text", readonly text: string }]
`

/** Declares the parts of Node that the examples use. The user has not installed its types. */
const nodeTypes = `declare module "node:assert" {
  export const strict: { equal(actual: unknown, expected: unknown): void }
}
declare module "node:test" {
  export const test: (name: string, body: () => Promise<void>) => void
  export const after: (body: () => unknown) => void
}
`

/** The READMEs whose TypeScript a user of the package may copy. `ClientPackage.test.ts` runs that of the small package. */
const readmes = ["src/http/README.md", "src/http/client/README.md", "src/runtime/testing/README.md"]

/** Writes each TypeScript block of the READMEs as a file. */
const writeExamples = (directory: string) => {
  const text = readmes.map((page) => fs.readFileSync(path.join(root, page), "utf8")).join("\n")
  const blocks = [...text.matchAll(/^```ts\n(.*?)^```/gms)]
  for (const [index, [, code = ""]] of blocks.entries()) {
    fs.writeFileSync(path.join(directory, `example${index}.ts`), `${given}${code}`)
  }
  fs.writeFileSync(path.join(directory, "exampleTypes.d.ts"), nodeTypes)
  return blocks.length
}

const database = await startPostgres()
const userPackage = path.join(folder, "user/node_modules/async-task-service")
const stops: Array<() => Promise<unknown>> = [database.stop]
try {
  run("npm", ["pack", "--silent", "--pack-destination", folder], root)
  const tarballs = fs.globSync("*.tgz", { cwd: folder }).map((name) => path.join(folder, name))
  if (tarballs.length !== 2) throw new Error(`packed ${tarballs.join(", ")}`)
  for (const tarball of tarballs) {
    say("packed", `${path.basename(tarball)}, ${kilobytes(fs.statSync(tarball).size)}`)
    say("publint", run(path.join(modules, ".bin/publint"), ["--strict", tarball], root).split("\n").at(-1) ?? "")
    run(path.join(modules, ".bin/attw"), [tarball, "--profile", "esm-only"], root)
    say("are the types wrong", "no")
  }

  const user = path.join(folder, "user")
  fs.cpSync(userFiles, user, { recursive: true })
  run("npm", ["install", "--silent", "--no-audit", "--no-fund", "--omit=optional", ...tarballs], user)
  const examples = writeExamples(user)
  const tsc = spawnSync(process.execPath, [path.join(modules, "typescript/bin/tsc"), "-p", "."], {
    cwd: user,
    encoding: "utf8"
  })
  if (tsc.status !== 0) throw new Error(tsc.stdout)
  say("types in an empty folder", `no errors, in strict mode, ${examples} examples of the READMEs among them`)

  say(
    "installed package",
    `${sizeOf(path.join(user, "node_modules"))} MB with its libraries, ${sizeOf(userPackage)} MB alone`
  )
  const settings = { DATABASE_URL: database.url, DATA_DIR: path.join(folder, "data") }
  say("production install of the sources", await installProduction(root, settings))

  const cli = path.join(userPackage, "dist/bin/Cli.js")
  // The bundle needs no libraries: only package.json and dist are moved.
  const alone = path.join(folder, "alone")
  fs.cpSync(userPackage, alone, { recursive: true })
  say("command line, --help alone", secondsOf(process.execPath, [path.join(alone, "dist/bin/Cli.js"), "--help"]))
  await callModel(cli, settings)
  say("a model", "called")
  const { figures, service } = await startOften(cli, settings)
  stops.push(() => service.stop())
  say("installed service", figures)
  await createLarge(service)
  say("a large body", "decoded by its thread")

  const env = { SERVICE_URL: service.url, TOKEN: await mint("stranger"), INTERNAL_TOKEN: internalToken }
  const nodes = [process.execPath, process.env["OLDER_NODE"] ?? "/usr/bin/node", "/usr/local/bin/node"].filter(
    fs.existsSync
  )
  const byVersion = new Map(nodes.map((node) => [run(node, ["--version"], user), node]))
  for (const [version, node] of byVersion) {
    const problem = nodeProblem(version.slice(1))
    if (problem !== undefined) {
      const { status, stderr } = spawnSync(node, [cli, "serve"], { encoding: "utf8" })
      if (status !== 1 || stderr.trim() !== problem) throw new Error(`serve on ${version}: ${status} ${stderr}`)
      say(`service on ${version}`, problem)
    }
    say(`JavaScript on ${version}`, run(node, ["promise.js"], user, env))
    say(`TypeScript on ${version}`, run(node, ["out/promise.js"], user, env))
  }
  say("Effect and RPC client", run(process.execPath, ["out/effect.js"], user, env))
  const [oldest = ""] =
    /[\d.]+/.exec(JSON.parse(fs.readFileSync(path.join(root, "package.json"), "utf8")).peerDependencies.effect) ?? []
  say(`the same with effect ${oldest}`, useOlderEffect(path.join(folder, "older"), oldest, tarballs, env))

  const command = path.join(user, "node_modules/.bin/async-task-service")
  say(
    "command line",
    run(command, ["create", "--watch", "What is 6 * 7?"], user, {
      TASK_SERVICE_URL: service.url,
      TASK_SERVICE_TOKEN: await mint("command")
    }).split("\n").at(-1) ?? ""
  )
  say("documents", await readDocuments(service))
  say("webhook verification", run(process.execPath, ["out/webhooks.js"], user))
  say("a day in the test kit", run(process.execPath, ["out/testing.js"], user))

  const inUser = (specifier: string) => JSON.stringify(path.join(userPackage, "dist/http/client", specifier))
  const clientPackage = path.join(user, "node_modules/async-task-service-client/http/client")
  const code = await bundle("client", `export * from ${JSON.stringify(path.join(clientPackage, "Client.js"))}`)
  await bundle("webhooks", `export * from ${JSON.stringify(path.join(clientPackage, "Webhooks.js"))}`)
  await bundle("client-effect", `export { TaskService } from ${inUser("EffectClient.js")}`)
  await bundle("rpc", `export { make, layerHttp, follow } from ${inUser("Rpc.js")}`)
  say("browser", await inBrowser(service.url, await mint("browser"), code))
} finally {
  for (const stop of stops.toReversed()) await stop()
  fs.rmSync(folder, { recursive: true, force: true })
}
