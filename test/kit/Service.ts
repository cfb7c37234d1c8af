/** The service as a separate process, used over HTTP. */
import * as jose from "jose"
import { type ChildProcess, spawn } from "node:child_process"
import { once } from "node:events"
import { createServer } from "node:net"
import * as path from "node:path"
import { pause } from "./pause.ts"
import { processEnvironment } from "./processEnvironment.ts"

export const jwtSecret = "a secret of the tests, long enough for HS256"
export const internalToken = "internal-token-of-the-tests"
const root = path.resolve(import.meta.dirname, "../..")
/** The bundle that `globalSetup` makes; benchmarks have none and start the sources. */
const bundle = process.env["TEST_SERVICE"]
// A larger young generation saves 60 ms of collections at the start.
const start = bundle === undefined ? ["src/runtime/Main.ts"] : ["--min-semi-space-size=16", `${bundle}/Main.js`]
export const commandLine = bundle === undefined ? "src/runtime/cli/Cli.ts" : `${bundle}/Cli.js`

export const mint = (sub: string, claims: jose.JWTPayload = {}) =>
  new jose.SignJWT({ ...claims })
    .setProtectedHeader({ alg: "HS256" })
    .setSubject(sub)
    .setIssuedAt(claims.iat)
    .setExpirationTime(claims.exp ?? "1 hour")
    .sign(new TextEncoder().encode(jwtSecret))

/**
 * Ports below those that Linux gives to outgoing connections, which could take one before the service listens. Each run of the tests on
 * a machine and each of its workers has its own: two services that got the same port would be one to their tests.
 */
const ports = { from: 20_000, ofWorker: 250, workers: 12 }
const worker = Number(process.env["TEST_RUN"] ?? 0) * ports.workers +
  Number(process.env["VITEST_POOL_ID"] ?? 0) % ports.workers
const firstPort = ports.from + worker * ports.ofWorker
let nextPort = Math.floor(Math.random() * ports.ofWorker)

export const freePort = async (): Promise<number> => {
  const port = firstPort + nextPort++ % ports.ofWorker
  const server = createServer().listen(port, "127.0.0.1")
  // `once` rejects when the server emits an error.
  const isFree = await once(server, "listening").then(() => true, () => false)
  if (!isFree) return freePort()
  server.close()
  await once(server, "close")
  return port
}

/**
 * Polls until the result satisfies `until`; fails after `timeout` milliseconds, which only a fault needs. The pauses grow, so that a long
 * wait does not load the machine.
 */
export const eventually = async <A>(
  poll: () => Promise<A>,
  until: (answer: A) => boolean,
  timeout = 30_000,
  longestPause = 100
): Promise<A> => {
  const end = performance.now() + timeout
  for (let length = 5;; length = Math.min(1.3 * length, longestPause)) {
    const answer = await poll()
    if (until(answer)) return answer
    if (performance.now() > end) {
      throw new Error(`not within ${timeout} ms; last: ${JSON.stringify(answer)?.slice(0, 2000)}`)
    }
    await pause(length)
  }
}

/** Milliseconds before which no service is ready, and between requests for its readiness: each costs as much as 1 % of a start. */
const leastStart = 250
const startPoll = 40

export interface Answer {
  readonly status: number
  readonly headers: Headers
  readonly text: string
  // oxlint-disable-next-line typescript/no-explicit-any -- tests look into answers of every shape
  readonly body: any
}

const running = new Set<Service>()
/** Those that ran at some moment since the last call of `takeLogs`. */
let watched = new Set<Service>()

/** Lines of a log that a failed test shows of each service. */
const shownLines = 40

/** The end of the log of each service of this worker that ran since the last call. */
export const takeLogs = (): ReadonlyArray<string> => {
  const logs = Array.from(watched, ({ output, url }) => {
    const lines = output.trimEnd().split("\n")
    return [`The end of the log of ${url}:`, ...lines.slice(-shownLines)].join("\n")
  })
  watched = new Set(running)
  return logs
}
/** Kills the services that a suite has left, and returns their logs. */
export const killLeft = async (): Promise<ReadonlyArray<string>> => {
  const left = [...running].filter(({ isShared }) => !isShared)
  for (const service of left) await service.stop("SIGKILL")
  return left.map(({ output, url }) => `${url}:\n${output.slice(0, 2000)}`)
}

// A process group of its own would survive a test run that ends without closing it.
process.on("exit", () => running.forEach((service) => service.signal("SIGKILL")))

export class Service {
  readonly process: ChildProcess
  readonly url: string
  output = ""
  /** Whether it serves the other suites of its worker too. */
  isShared = false

  private constructor(process: ChildProcess, url: string) {
    this.process = process
    this.url = url
    process.stdout?.on("data", (chunk) => this.output += chunk)
    process.stderr?.on("data", (chunk) => this.output += chunk)
    running.add(this)
    watched.add(this)
    process.once("exit", () => running.delete(this))
  }

  /** Starts a process in its own process group and waits until it is ready. */
  static async start(
    settings: Readonly<Record<string, string>>,
    port?: number,
    main: string | ReadonlyArray<string> = start,
    readiness = "/readyz",
    timeout = 50_000
  ): Promise<Service> {
    const chosen = port ?? await freePort()
    const child = spawn(process.execPath, [main].flat(), {
      cwd: root,
      detached: true,
      // The fourth file descriptor carries reports of the process to a test.
      stdio: ["ignore", "pipe", "pipe", "pipe"],
      env: {
        PATH: process.env["PATH"],
        NODE_COMPILE_CACHE: process.env["NODE_COMPILE_CACHE"],
        ...processEnvironment,
        PORT: String(chosen),
        JWT_SECRET: jwtSecret,
        INTERNAL_TOKENS: internalToken,
        ENCRYPTION_KEY: Buffer.alloc(32, 7).toString("base64"),
        ...settings
      }
    })
    const service = new Service(child, `http://127.0.0.1:${chosen}`)
    const isReady = () => fetch(service.url + readiness).then(({ status }) => status === 200, () => false)
    await Promise.race([pause(leastStart), once(child, "exit")])
    await eventually(isReady, (ready) => ready || child.exitCode !== null, timeout, startPoll).catch(async (error) => {
      await service.stop("SIGKILL")
      throw new Error(`${error.message}:\n${service.output}`)
    })
    if (child.exitCode === null) return service
    // Somebody else has taken the port since it was found free.
    const isTaken = port === undefined &&
      service.output.includes(`EADDRINUSE: address already in use 127.0.0.1:${chosen}`)
    if (isTaken) return Service.start(settings, undefined, main, readiness, timeout)
    throw new Error(`exited with ${child.exitCode}:\n${service.output}`)
  }

  /** Waits until a line is in the output: a response can arrive sooner than what was logged before it. */
  logged(line: RegExp): Promise<string> {
    return eventually(async () => this.output, (output) => line.test(output))
  }

  async call(
    method: string,
    address: string,
    token: string,
    body?: unknown,
    headers?: Record<string, string>
  ): Promise<Answer> {
    const response = await fetch(this.url + address, {
      method,
      headers: {
        authorization: `Bearer ${token}`,
        ...(body === undefined ? {} : { "content-type": "application/json" }),
        ...headers
      },
      ...(body === undefined ? {} : { body: typeof body === "string" ? body : JSON.stringify(body) })
    })
    const text = await response.text()
    return {
      status: response.status,
      headers: response.headers,
      text,
      body: text.startsWith("{") || text.startsWith("[") ? JSON.parse(text) : text
    }
  }

  create(token: string, text: string, more: object = {}) {
    return this.call("POST", "/api/tasks", token, { assistant_id: 1, input: [{ type: "text", text }], ...more })
  }

  async upload(token: string, name: string, content: string | Uint8Array, type = "text/plain") {
    const form = new FormData()
    form.set("file", new File([typeof content === "string" ? content : new Uint8Array(content)], name, { type }))
    const response = await fetch(`${this.url}/api/files`, {
      method: "POST",
      headers: { authorization: `Bearer ${token}` },
      body: form
    })
    // oxlint-disable-next-line typescript/no-explicit-any -- tests look into answers of every shape
    return { status: response.status, body: await response.json() as any }
  }

  /** Uploads a file that must be accepted; returns the input item. */
  async store(...given: Parameters<Service["upload"]>) {
    const { body, status } = await this.upload(...given)
    if (status !== 201) throw new Error(`${status} ${JSON.stringify(body)}`)
    return body
  }

  get(token: string, uuid: string) {
    return this.call("GET", `/api/tasks/${uuid}`, token)
  }

  until(token: string, uuid: string, status: string, timeout?: number) {
    return eventually(() => this.get(token, uuid), ({ body }) => body.status === status, timeout)
  }

  signal(signal: NodeJS.Signals) {
    if (this.process.pid !== undefined) process.kill(-this.process.pid, signal)
  }

  async stop(signal: NodeJS.Signals = "SIGTERM") {
    const { exitCode, pid, signalCode } = this.process
    if (exitCode !== null || signalCode !== null || pid === undefined) return
    // After "exit" output may still arrive.
    const closed = once(this.process, "close")
    process.kill(-pid, signal)
    await closed
  }

  close() {
    return this.stop()
  }
}
