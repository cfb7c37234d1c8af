/**
 * This service as an adapter of the harness (`adapter.ts`): a job is a task that is created over REST, works in an external core that
 * this process is, and ends when the core has reported `completed`. `WORKER_COUNT` is `CORE_RUNS`. The service is a process of its own:
 * the packaged one, or with `CHECKOUT=1` its sources.
 */
import { spawn } from "node:child_process"
import { once } from "node:events"
import * as http from "node:http"
import type { AddressInfo } from "node:net"
import * as path from "node:path"
import postgres from "postgres"
import packageFile from "../../../package.json" with { type: "json" }
import { processEnvironment } from "../../kit/processEnvironment.ts"
import { eventually, freePort, internalToken, jwtSecret, mint } from "../../kit/Service.ts"
import manifest from "./adapter.json" with { type: "json" }
import { end, run, settings, work } from "./adapter.ts"

const users = 100
const agent = new http.Agent({ keepAlive: true, maxSockets: 64 })
const command = process.env["CHECKOUT"] === "1"
  ? ["--import", "./.check-node.js", "src/runtime/Main.ts"]
  : ["dist/bin/Cli.js", "serve"]

const post = (url: string, token: string, body: object) =>
  new Promise<void>((resolve, reject) => {
    const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" }
    http.request(url, { agent, method: "POST", headers }, (response) => {
      const { statusCode = 500 } = response.resume()
      response.on("end", () => statusCode < 300 ? resolve() : reject(new Error(`${statusCode} of ${url}`)))
    }).on("error", reject).end(JSON.stringify(body))
  })

const turn = { output: [{ type: "text", text: "done" }], messages: [], metadata: {} }

interface Run {
  readonly task_id: string
  readonly run_id: string
  readonly events_url: string
  readonly input: readonly [{ readonly text: string }]
}

const begun = new Set<string>()

/** Idempotent by `run_id`, as a core has to be: a job that is dispatched again counts once. */
const carryOut = async ({ events_url, input, run_id, task_id }: Run) => {
  if (begun.has(run_id)) return
  begun.add(run_id)
  const enqueuedAt = Number.parseInt(input[0].text, 10)
  await work(enqueuedAt)
  const event = { task_id, run_id, event_id: run_id, type: "completed", turn }
  for (let attempt = 0; attempt < 100; attempt++) {
    try {
      await post(events_url, internalToken, event)
      end(enqueuedAt)
      break
    } catch (error) {
      if (String(error).includes("409")) break
      await new Promise((resolve) => setTimeout(resolve, 250))
    }
  }
  begun.delete(run_id)
}

await run(async () => {
  const core = http.createServer(async (request, response) => {
    let text = ""
    for await (const chunk of request) text += chunk
    response.writeHead(202).end()
    if (request.url === "/runs") void carryOut(JSON.parse(text) as Run)
  }).listen(0, "127.0.0.1")
  await once(core, "listening")
  const port = String(await freePort())
  const url = `http://127.0.0.1:${port}`
  // In the process group of the adapter, with which it is killed. Its log goes to stderr.
  const service = spawn(process.execPath, command, {
    cwd: path.resolve(import.meta.dirname, "../../.."),
    stdio: ["ignore", 2, 2],
    env: {
      PATH: process.env["PATH"],
      ...processEnvironment,
      PORT: port,
      JWT_SECRET: jwtSecret,
      INTERNAL_TOKENS: internalToken,
      ENCRYPTION_KEY: Buffer.alloc(32, 7).toString("base64"),
      DATABASE_URL: settings.databaseUrl,
      CORE_URL: `http://127.0.0.1:${(core.address() as AddressInfo).port}`,
      CORE_RUNS: String(settings.workers),
      MAX_ACTIVE_TASKS: "1000000",
      LOG_LEVEL: "Warn"
    }
  })
  process.once("exit", () => service.kill("SIGKILL"))
  const isReady = () => fetch(`${url}/readyz`).then(({ ok }) => ok, () => false)
  await eventually(isReady, (ready) => ready || service.exitCode !== null, 50_000)
  const tokens = await Promise.all(Array.from({ length: users }, (_, user) => mint(`user-${user}`)))
  const sql = postgres(settings.databaseUrl, { max: 1, onnotice: () => {} })
  let next = 0
  const create = () =>
    post(`${url}/api/tasks`, tokens[next++ % users]!, {
      assistant_id: 1,
      input: [{ type: "text", text: `${Date.now()} ${settings.payload}` }]
    })
  return {
    manifest,
    version: packageFile.version,
    enqueue: async (count) => void await Promise.all(Array.from({ length: count }, create)),
    depths: async () => {
      const [row] = await sql<[{ queued: number; all: number }]>`
        SELECT (SELECT count(*)::int FROM waiting_runs) AS queued,
               (SELECT count(*)::int FROM tasks WHERE completed_at IS NULL) AS all`
      return row
    },
    stop: async () => {
      core.close()
      service.kill("SIGTERM")
      if (service.exitCode === null) await once(service, "exit")
      await sql.end()
    }
  }
})
