/**
 * Rehearses a release: `npm run test:release`, or `npm run test:release -- COMMIT` to upgrade from that commit. In a clone that names a licence
 * and has the tag, it executes the commands of the workflow `release` as they stand there, without its checks and without publishing. Then it
 * installs the package of the earlier commit in an empty folder, works with it, and replaces it by the new one. Prints times and sizes.
 */
import { spawnSync } from "node:child_process"
import * as fs from "node:fs"
import * as os from "node:os"
import * as path from "node:path"
import { parse } from "yaml"
import { mint, Service } from "../kit/Service.ts"
import { startPostgres } from "../kit/standalone.ts"

const root = path.resolve(import.meta.dirname, "../..")
const folder = fs.mkdtempSync(path.join(os.tmpdir(), "async-task-service-release-"))
const clone = path.join(folder, "clone")
const venv = path.join(folder, "venv")
const earlier = process.argv[2] ?? "HEAD~1"

const environment: Record<string, string> = {
  ...process.env,
  PATH: `${venv}/bin:${process.env["PATH"]}`,
  GITHUB_REPOSITORY: "example/async-task-service",
  GITHUB_STEP_SUMMARY: path.join(folder, "summary")
}

/** Returns what the command prints; one that fails prints the end of it. */
const run = (command: string, args: ReadonlyArray<string>, cwd: string) => {
  const { status, stderr, stdout } = spawnSync(command, args, {
    cwd,
    env: environment,
    encoding: "utf8",
    maxBuffer: 1e8
  })
  if (status !== 0) throw new Error(`${command} ${args.join(" ")}: ${status}\n${`${stdout}\n${stderr}`.slice(-2000)}`)
  return stdout.trim()
}

const say = (what: string, result: string) => console.log(`${what.padEnd(52)} ${result}`)

/** Says how long the work took, and what it returns. */
const timed = async (what: string, work: () => string | Promise<string>) => {
  const startedAt = performance.now()
  const result = await work()
  say(what, `${((performance.now() - startedAt) / 1000).toFixed(1)} s${result === "" ? "" : `, ${result}`}`)
}

/** A package index may lack it; then its step is not rehearsed. */
const hasTwine = () =>
  spawnSync("python3", ["-m", "pip", "download", "--quiet", "--no-deps", "twine"], { cwd: folder }).status === 0

interface Step {
  readonly name?: string
  readonly run?: string
}

/** The commands of a job that this machine can run. */
const commandsOf = (job: string): ReadonlyArray<Step & { readonly run: string }> =>
  parse(fs.readFileSync(path.join(clone, ".github/workflows/release.yml"), "utf8")).jobs[job].steps
    .filter((step: Step) => step.run !== undefined)

/** Packs a commit as its own `npm pack` does, and returns the tarball of the service. */
const packed = (commit: string) => {
  const checkout = path.join(folder, "earlier")
  run("git", ["clone", "--quiet", root, checkout], folder)
  run("git", ["checkout", "--quiet", commit], checkout)
  run("npm", ["ci", "--silent"], checkout)
  run("npm", ["pack", "--silent"], checkout)
  return fs.globSync("async-task-service-0*.tgz", { cwd: checkout }).map((name) => path.join(checkout, name))
}

const install = (directory: string, tarballs: ReadonlyArray<string>) => {
  fs.mkdirSync(directory, { recursive: true })
  run("npm", ["install", "--silent", "--no-audit", "--no-fund", "--omit=optional", ...tarballs], directory)
  return path.join(directory, "node_modules/async-task-service/dist/bin/Cli.js")
}

const look = { type: "function", name: "look", description: "Looks.", parameters: { type: "object", properties: {} } }

const kilobytes = (file: string) => `${(fs.statSync(file).size / 1000).toFixed(1)} kB`

const database = await startPostgres()
try {
  run("git", ["clone", "--quiet", root, clone], folder)
  const version: string = JSON.parse(fs.readFileSync(path.join(clone, "package.json"), "utf8")).version
  const tag = `v${version}`
  environment["GITHUB_REF_NAME"] = tag
  fs.writeFileSync(path.join(clone, "LICENSE"), "The text of the licence.\n")
  run("npm", ["pkg", "set", "license=Apache-2.0"], clone)
  run("npm", ["pkg", "delete", "private"], clone)
  run(
    "git",
    ["-c", "user.name=release", "-c", "user.email=release@example.com", "commit", "--quiet", "-am", tag],
    clone
  )
  run("git", ["tag", tag], clone)
  await timed("npm ci", () => run("npm", ["ci", "--silent"], clone))
  run("python3", ["-m", "venv", venv], folder)

  for (const { name, run: script } of commandsOf("build")) {
    if (script.trim() === ".ci/run") continue
    if (script.includes("twine") && !hasTwine()) {
      say(name ?? script, "not rehearsed: the package index has no twine")
      continue
    }
    await timed(name ?? script, () => {
      run("bash", ["-eo", "pipefail", "-c", script], clone)
      return ""
    })
  }
  const artifacts = path.join(clone, "artifacts")
  for (const file of fs.globSync(["*.*", "python/*"], { cwd: artifacts })) {
    say(file, kilobytes(path.join(artifacts, file)))
  }
  run("sha256sum", ["--check", "--quiet", "SHA256SUMS"], artifacts)

  const notes = commandsOf("notes").at(-1)?.run.split("\n")[0] ?? ""
  run("bash", ["-ec", notes], clone)
  say("notes.md", `${fs.readFileSync(path.join(clone, "notes.md"), "utf8").trim().split("\n").length} lines`)
  const tarballs = fs.globSync("*.tgz", { cwd: artifacts }).map((file) => path.join(artifacts, file))
  for (const tarball of tarballs) {
    await timed(
      "npm publish --dry-run",
      () => run("npm", ["publish", tarball, "--access", "public", "--dry-run"], folder)
    )
  }
  await timed("wheel and client in an empty environment", () => {
    const [wheel = ""] = fs.globSync("python/*.whl", { cwd: artifacts })
    run("pip", ["install", "--quiet", path.join(artifacts, wheel)], folder)
    return run("python3", ["-c", "import async_task_service_client; print(async_task_service_client.__name__)"], folder)
  })

  const user = path.join(folder, "user")
  const settings = { DATABASE_URL: database.url, DATA_DIR: path.join(folder, "data") }
  const token = await mint("release")
  let uuid = ""
  await timed(`the package of ${earlier}`, async () => {
    const service = await Service.start(settings, undefined, [install(user, packed(earlier)), "serve"])
    const { body, status } = await service.create(token, "look", { assistant_id: 2, client_tools: [look] })
    if (status !== 201) throw new Error(JSON.stringify(body))
    uuid = body.uuid
    await service.until(token, uuid, "interrupted")
    await service.stop("SIGKILL")
    return "ended by SIGKILL while a task waited for an answer"
  })
  const newest = tarballs.filter((file) => path.basename(file).startsWith("async-task-service-0"))
  await timed(`upgraded to ${tag}`, async () => {
    const service = await Service.start(settings, undefined, [install(user, newest), "serve"])
    const { body } = await service.until(token, uuid, "interrupted")
    const results = body.pending_tool_calls.map(({ id }: { readonly id: string }) => ({ tool_call_id: id, output: 1 }))
    await service.call("POST", `/api/tasks/${uuid}/tool-results`, token, { results })
    await service.until(token, uuid, "completed")
    await service.stop()
    return "which completed the task that waited for an answer"
  })
} finally {
  await database.stop()
  fs.rmSync(folder, { recursive: true, force: true })
}
