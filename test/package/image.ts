/**
 * Builds the image with docker or buildah, if there is one, and carries out the Containerfile without an engine: each stage is a folder. Then runs the image's own command as core, backend
 * and service, as its user and with no environment but its own, and has a task done; at last the same with the demo's image alone. `node test/package/image.ts`; `NODE_IMAGE` names another
 * base image.
 */
import { type ChildProcess, execFileSync, spawn, spawnSync } from "node:child_process"
import { once } from "node:events"
import * as fs from "node:fs"
import * as os from "node:os"
import * as path from "node:path"
import { instructionsOf, isInContext } from "../kit/Containerfile.ts"
import { eventually, freePort, jwtSecret, mint } from "../kit/Service.ts"
import { startPostgres } from "../kit/standalone.ts"

const root = path.resolve(import.meta.dirname, "../..")
const folder = fs.mkdtempSync(path.join(os.tmpdir(), "async-task-service-image-"))
fs.chmodSync(folder, 0o755)

const say = (what: string, result: string) => console.log(`${what.padEnd(28)} ${result}`)

class Stage {
  readonly directory = fs.mkdtempSync(path.join(folder, "stage-"))
  env: Record<string, string> = { PATH: `${this.directory}/usr/local/bin:/usr/bin:/bin` }
  workdir = "/"
  user: number | undefined
  healthcheck: ReadonlyArray<string> = []
  entrypoint: ReadonlyArray<string> = []
  command: ReadonlyArray<string> = []

  /** The base image, as far as this one uses it: a Node that anyone may run, and the files of npm. */
  constructor() {
    fs.chmodSync(this.directory, 0o755)
    fs.mkdirSync(`${this.directory}/usr/local/bin`, { recursive: true })
    fs.copyFileSync(process.execPath, `${this.directory}/usr/local/bin/node`)
    fs.mkdirSync(`${this.directory}/usr/local/lib/node_modules/npm`, { recursive: true })
  }

  /** This stage as the begin of another one. */
  continued() {
    const next = Object.assign(new Stage(), this, { directory: fs.mkdtempSync(path.join(folder, "stage-")) })
    fs.cpSync(this.directory, next.directory, { recursive: true, verbatimSymlinks: true })
    fs.chmodSync(next.directory, 0o755)
    next.env = { ...this.env, PATH: `${next.directory}/usr/local/bin:/usr/bin:/bin` }
    return next
  }

  inside(address: string) {
    return path.join(this.directory, path.resolve(this.workdir, address))
  }

  copy(from: (source: string) => string, args: ReadonlyArray<string>) {
    const target = this.inside(args.at(-1) ?? "")
    for (const source of args.slice(0, -1)) {
      const isFile = fs.statSync(from(source)).isFile()
      fs.cpSync(
        from(source),
        isFile && args.at(-1)?.endsWith("/") ? path.join(target, path.basename(source)) : target,
        {
          recursive: true,
          verbatimSymlinks: true,
          filter: (entry) => !entry.startsWith(`${root}/`) || isInContext(path.relative(root, entry))
        }
      )
    }
  }

  /** Absolute paths are those of the stage, never of this machine. */
  run(command: string) {
    execFileSync("sh", ["-c", command.replaceAll(/(?<=^|\s)\/(?=\S)/g, `${this.directory}/`)], {
      cwd: this.inside("."),
      env: {
        ...this.env,
        PATH: `${this.env["PATH"]}:${process.env["PATH"]}`,
        HOME: os.homedir(),
        npm_config_prefer_offline: "true"
      },
      stdio: ["ignore", "ignore", "inherit"]
    })
  }

  start(settings: Readonly<Record<string, string>>, command: ReadonlyArray<string> = this.command) {
    const [program = "", ...args] = [...this.entrypoint, ...command]
    const isRoot = process.getuid?.() === 0
    return spawn(program, args, {
      cwd: this.inside("."),
      env: { ...this.env, ...settings },
      stdio: ["ignore", "ignore", "inherit"],
      ...(isRoot && this.user !== undefined ? { uid: this.user, gid: this.user } : {})
    })
  }
}

const stages = new Map<string, Stage>()

const build = () => {
  const args: Record<string, string> = {}
  let stage!: Stage
  for (const { keyword, text } of instructionsOf()) {
    const words = text.split(/\s+/)
    switch (keyword) {
      case "ARG": {
        const [name = "", value = ""] = text.split("=")
        args[name] = value
        break
      }
      case "FROM": {
        stage = stages.get(text.split(" ")[0]!)?.continued() ?? new Stage()
        stages.set(/ AS (\w+)$/.exec(text)?.[1] ?? "", stage)
        break
      }
      case "ENV": {
        for (const word of words) Object.assign(stage.env, Object.fromEntries([word.split(/=(.*)/s)]))
        break
      }
      case "WORKDIR": {
        stage.workdir = text
        fs.mkdirSync(stage.inside("."), { recursive: true })
        break
      }
      case "COPY": {
        const source = stages.get(/^--from=(\w+) /.exec(text)?.[1] ?? "none")
        if (source === undefined) stage.copy((name) => path.join(root, name), words)
        else stage.copy((name) => path.join(source.directory, name), words.slice(1))
        break
      }
      case "RUN": {
        const startedAt = performance.now()
        stage.run(text)
        say(text, `${((performance.now() - startedAt) / 1000).toFixed(1)} s`)
        break
      }
      case "USER": {
        stage.user = Number(text.split(":")[0])
        break
      }
      case "HEALTHCHECK": {
        stage.healthcheck = JSON.parse(text.slice(text.indexOf("CMD ") + 4))
        break
      }
      case "ENTRYPOINT": {
        stage.entrypoint = JSON.parse(text)
        break
      }
      case "CMD": {
        stage.command = JSON.parse(text)
        break
      }
      case "LABEL":
      case "EXPOSE":
      case "STOPSIGNAL": {
        break
      }
      default: {
        throw new Error(`${keyword} is not known here`)
      }
    }
  }
  return stage
}

/** An engine builds the same image, where there is one that works. In OCI format it would lose its health check. */
const engine = ["docker", "buildah"].find((name) => spawnSync(name, ["info"]).status === 0)
if (engine !== undefined) {
  const format = engine === "buildah" ? ["--format", "docker"] : []
  const base = process.env["NODE_IMAGE"]
  const from = base === undefined ? [] : ["--build-arg", `NODE=${base}`]
  const file = ["-f", "src/runtime/deployment/Containerfile", "-t", "async-task-service:test"]
  execFileSync(engine, ["build", ...format, ...from, ...file, "."], { cwd: root, stdio: "inherit" })
}
say("built by", engine ?? "no engine: there is none here")

const image = build()
const size = execFileSync("du", ["-sm", image.inside(".")], { encoding: "utf8" }).split("\t")[0]
say("the image, beside its base", `${size} MB`)
if (fs.existsSync(image.inside("node_modules"))) throw new Error("the bundle needs no node_modules")
if (fs.existsSync(image.inside("/usr/local/lib/node_modules"))) throw new Error("the image contains npm")

if (fs.existsSync(image.inside("dist/node_modules"))) {
  throw new Error("the service's image contains the demo's Postgres")
}

const database = await startPostgres()
const data = path.join(folder, "data")
fs.mkdirSync(data)
fs.chmodSync(data, 0o777)
const [port, internalPort, corePort, backendPort, clusterPort] = await Promise.all([
  freePort(),
  freePort(),
  freePort(),
  freePort(),
  freePort()
])
const url = (at: number) => `http://127.0.0.1:${at}`
const shared = {
  HOST: "127.0.0.1",
  INTERNAL_TOKENS: "an-internal-token-of-32-characters-or-more",
  CORE_EVENT_TOKENS: "a-token-for-events-of-32-characters-or-more",
  CORE_TOKEN: "a-token-of-the-core",
  JWT_SECRET: jwtSecret,
  PUBLIC_URL: url(internalPort)
}
const containers: Array<ChildProcess> = [
  image.start({ ...shared, PORT: String(backendPort), DATA_DIR: data }, ["serve", "--only", "backend"]),
  image.start({ ...shared, PORT: String(corePort), ASSISTANT_BACKEND_URL: url(backendPort) }, [
    "serve",
    "--only",
    "core"
  ]),
  image.start({
    ...shared,
    PORT: String(port),
    INTERNAL_PORT: String(internalPort),
    DATABASE_URL: database.url,
    CORE_URL: url(corePort),
    ASSISTANT_BACKEND_URL: url(backendPort),
    ENCRYPTION_KEY: "1ufm9JqSlCnW7a7VYjGQDPBlEOWLJ5wA8gZ0vqvSjeE=",
    CLUSTER: "on",
    CLUSTER_HOST: "127.0.0.1",
    CLUSTER_PORT: String(clusterPort),
    LOG_LEVEL: "Warn"
  })
]
const service = containers.at(-1)!
const isOk = (address: string) => fetch(address).then(({ ok }) => ok, () => false)

/** Creates a task and waits for its result. */
const complete = async (at: number) => {
  const authorization = `Bearer ${await mint("image")}`
  const created = await fetch(`${url(at)}/api/tasks`, {
    method: "POST",
    headers: { authorization, "content-type": "application/json" },
    body: JSON.stringify({ assistant_id: 1, input: [{ type: "text", text: "What is 6 * 7?" }] })
  })
  const { uuid } = await created.json() as { readonly uuid: string }
  const task = await eventually(
    () => fetch(`${url(at)}/api/tasks/${uuid}`, { headers: { authorization } }).then((answer) => answer.text()),
    (text) => text.includes(`"status":"completed"`)
  )
  if (!task.includes("42")) throw new Error(`a wrong answer: ${task}`)
}

try {
  const startedAt = performance.now()
  await eventually(() => isOk(`${url(port)}/readyz`), (ready) => ready, 30_000)
  say("ready after", `${((performance.now() - startedAt) / 1000).toFixed(1)} s`)
  for (const other of [corePort, backendPort]) {
    await eventually(() => isOk(`${url(other)}/healthz`), (healthy) => healthy, 30_000)
  }

  await complete(port)
  say("a task", "completed")

  const [program = "", ...args] = image.healthcheck
  execFileSync(program, args, { env: { ...image.env, PORT: String(port) } })
  say("the health check", "passes")
  const about = fs.readFileSync(`/proc/${service.pid}/status`, "utf8")
  say("user", /Uid:\s+(\d+)/.exec(about)?.[1] ?? "")
  say("memory", `${Math.round(Number(/VmRSS:\s+(\d+)/.exec(about)?.[1]) / 1024)} MB`)

  const [drained] = await once(image.start(shared, ["--url", url(internalPort), "nodes", "drain"]), "exit")
  const { status: readiness } = await fetch(`${url(port)}/readyz`)
  if (drained !== 0 || readiness !== 503) throw new Error(`drained with ${drained}, and then ready with ${readiness}`)
  say("the command nodes drain", "takes it out of /readyz")

  // Postgres wants a user with a name, which 10001 has in the image and not here.
  const demo = stages.get("demo")!
  demo.user = 65_534
  const demoPort = await freePort()
  const home = path.join(folder, "demo")
  fs.mkdirSync(home)
  if (process.getuid?.() === 0) fs.chownSync(home, demo.user, demo.user)
  const begun = performance.now()
  const alone = demo.start({ HOST: "127.0.0.1", PORT: String(demoPort), DATA_DIR: home, JWT_SECRET: jwtSecret })
  containers.push(alone)
  await eventually(() => isOk(`${url(demoPort)}/readyz`), (ready) => ready, 60_000)
  await complete(demoPort)
  const demoSize = execFileSync("du", ["-sm", demo.inside(".")], { encoding: "utf8" }).split("\t")[0]
  say("the demo alone", `${demoSize} MB, a task after ${((performance.now() - begun) / 1000).toFixed(1)} s`)
} finally {
  const stoppedAt = performance.now()
  for (const container of containers) container.kill("SIGTERM")
  for (const container of containers) if (container.exitCode === null) await once(container, "exit")
  say("SIGTERM", `exit ${service.exitCode} after ${Math.round(performance.now() - stoppedAt)} ms`)
  await database.stop()
  fs.rmSync(folder, { recursive: true, force: true })
}
if (service.exitCode !== 0) throw new Error("a stop is no failure")
