/**
 * Rehearses a release: `nice npm run test:release`, or `npm run test:release -- COMMIT` to upgrade from that commit. In a clone that names a
 * licence and has the tag, it executes the commands of the workflow `release` as they stand there, without its checks and without
 * publishing. Then it installs what came out: in empty folders and environments, in an empty Debian, and over the package of the earlier
 * commit while a task waits. Prints times and sizes, and leaves nothing behind.
 */
import { spawnSync } from "node:child_process"
import * as fs from "node:fs"
import * as os from "node:os"
import * as path from "node:path"
import { parse } from "yaml"
import { fetchTools, helm } from "../kit/kubernetesTools.ts"
import { mint, Service } from "../kit/Service.ts"
import { startPostgres } from "../kit/standalone.ts"

const root = path.resolve(import.meta.dirname, "../..")
const folder = fs.mkdtempSync(path.join(os.tmpdir(), "async-task-service-release-"))
const clone = path.join(folder, "clone")
const venv = path.join(folder, "venv")
const earlier = process.argv[2] ?? "HEAD~1"

const environment: Record<string, string> = {
  ...process.env,
  PATH: `${venv}/bin:${path.dirname(helm)}:${process.env["PATH"]}`,
  GITHUB_REPOSITORY: "Example/async-task-service",
  GITHUB_STEP_SUMMARY: path.join(folder, "summary")
}

/** Returns what the command prints; one that fails prints the end of it. */
const run = (command: string, args: ReadonlyArray<string>, cwd: string) => {
  const { error, status, stderr, stdout } = spawnSync(command, args, {
    cwd,
    env: environment,
    encoding: "utf8",
    maxBuffer: 1e8
  })
  if (status !== 0) {
    throw new Error(`${command} ${args.join(" ")}: ${error ?? status}\n${`${stdout}\n${stderr}`.slice(-2000)}`)
  }
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
  spawnSync("python3", ["-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder, "twine"]).status === 0

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

/** The Node of the machine, which is older than that of the scripts and as a user may have it. */
const systemNode = (process.env["PATH"] ?? "").split(":").map((directory) => path.join(directory, "node"))
  .find((file) => !file.includes("node_modules") && fs.existsSync(file))

/** Why no empty Debian can be made here. */
const noDebian = () => {
  if (process.getuid?.() !== 0) return "only root can make one"
  if (spawnSync("debootstrap", ["--version"]).status !== 0) return "there is no debootstrap"
  return systemNode === undefined ? "there is no Node but that of the scripts" : undefined
}

/** A Debian with its smallest set of packages, the library that README.md names, and the machine's Node and npm. */
const makeDebian = (directory: string) => {
  const [mirror = ""] = run("apt-get", ["indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"], folder)
    .split("\n")
  const [, release = ""] = /^VERSION_CODENAME=(\w+)/m.exec(fs.readFileSync("/etc/os-release", "utf8")) ?? []
  run("debootstrap", ["--variant=minbase", "--include=libatomic1", release, directory, mirror], folder)
  const within = (file: string) => path.join(directory, file)
  fs.copyFileSync(fs.realpathSync(systemNode!), within("usr/bin/node"))
  const npm = path.dirname(path.dirname(fs.realpathSync(path.join(path.dirname(systemNode!), "npm"))))
  fs.cpSync(npm, within("usr/lib/node_modules/npm"), { recursive: true })
  for (const name of ["npm", "npx"]) {
    fs.symlinkSync(`../lib/node_modules/npm/bin/${name}-cli.js`, within(`usr/bin/${name}`))
  }
  // How npm reaches its registry.
  fs.cpSync("/etc/ssl/certs", within("etc/ssl/certs"), { recursive: true, dereference: true })
  for (const file of ["/etc/resolv.conf", "/etc/hosts"]) fs.copyFileSync(file, within(file))
  fs.copyFileSync(run("npm", ["config", "get", "userconfig"], folder), within("etc/npmrc"))
  fs.chmodSync(within("etc/npmrc"), 0o644)
}

/** Runs a script in the Debian, with a name space of its own for processes: none outlives it. */
const runWithin = (directory: string, user: string, script: string) => {
  const home = path.join(directory, "home", user)
  fs.mkdirSync(home, { recursive: true })
  const uid = run("chroot", [directory, "id", "-u", user], folder)
  fs.chownSync(home, Number(uid), Number(uid))
  const variables = [
    `HOME=/home/${user}`,
    "PATH=/usr/bin:/bin",
    "NODE_EXTRA_CA_CERTS=/etc/ssl/certs/ca-certificates.crt"
  ]
  const inner = [
    "chroot",
    `--userspec=${user}`,
    directory,
    "env",
    "-i",
    ...variables,
    "NPM_CONFIG_USERCONFIG=/etc/npmrc"
  ]
  return run("unshare", [
    "--mount",
    "--pid",
    "--fork",
    "--kill-child",
    "sh",
    "-c",
    `mount -t proc proc ${directory}/proc && mount --rbind /dev ${directory}/dev && exec "$@"`,
    "sh",
    ...inner,
    "bash",
    "-ec",
    `cd "$HOME"; ${script}`
  ], folder)
}

const look = { type: "function", name: "look", description: "Looks.", parameters: { type: "object", properties: {} } }

const kilobytes = (file: string) => `${(fs.statSync(file).size / 1000).toFixed(1)} kB`

fetchTools()
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
  for (const file of fs.globSync(["*.*", "{chart,python}/*"], { cwd: artifacts })) {
    say(file, kilobytes(path.join(artifacts, file)))
  }
  run("sha256sum", ["--check", "--quiet", "SHA256SUMS"], artifacts)

  const notes = commandsOf("notes").at(-1)?.run.split("\n")[0] ?? ""
  run("bash", ["-ec", notes], clone)
  say("notes.md", `${fs.readFileSync(path.join(clone, "notes.md"), "utf8").trim().split("\n").length} lines`)
  const tarballs = fs.globSync("*.tgz", { cwd: artifacts }).map((file) => path.join(artifacts, file))
  const newest = tarballs.filter((file) => path.basename(file).startsWith("async-task-service-0"))
  const client = tarballs.filter((file) => !newest.includes(file))
  for (const tarball of tarballs) {
    await timed(
      "npm publish --dry-run",
      () => run("npm", ["publish", tarball, "--access", "public", "--dry-run"], folder)
    )
  }

  const [wheel = ""] = fs.globSync("python/*.whl", { cwd: artifacts })
  const [sdist = ""] = fs.globSync("python/*.tar.gz", { cwd: artifacts })
  const pythonSources = path.join(clone, "src/http/client/python")
  for (const source of [[path.join(artifacts, wheel)], [path.join(artifacts, sdist)], ["--editable", pythonSources]]) {
    await timed(`pip install ${source.map((part) => path.basename(part)).join(" ")}`, () => {
      const empty = fs.mkdtempSync(path.join(folder, "python-"))
      run("python3", ["-m", "venv", empty], folder)
      run(`${empty}/bin/pip`, ["install", "--quiet", "--no-index", ...source], folder)
      const program = "from async_task_service_client import TaskServiceClient, core; print('imported')"
      return run(`${empty}/bin/python3`, ["-c", program], folder)
    })
  }
  await timed("the client in an empty folder", () => {
    const user = path.join(folder, "client")
    install(user, client)
    const program =
      "await import('async-task-service-client'); await import('async-task-service-client/core'); console.log(process.version)"
    return `imported by Node ${run(systemNode ?? process.execPath, ["--input-type=module", "-e", program], user)}`
  })

  const reason = noDebian()
  if (reason !== undefined) say("an empty Debian", `not rehearsed: ${reason}`)
  else {
    const debian = path.join(folder, "debian")
    await timed("an empty Debian", () => {
      makeDebian(debian)
      fs.copyFileSync(newest[0]!, path.join(debian, "service.tgz"))
      run("chroot", [debian, "useradd", "--uid", "1234", "newcomer"], folder)
      return `${run("du", ["-sm", debian], folder).split("\t")[0]} MB`
    })
    for (const user of ["root", "newcomer"]) {
      await timed(`npm install and the demo in it, as ${user}`, () => {
        const printed = runWithin(debian, user, "npm install --silent /service.tgz; npx async-task-service demo")
        return printed.split("\n").at(-1) ?? ""
      })
    }
  }

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
