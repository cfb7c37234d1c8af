/** `WORKERS`: several processes behind one port, as clients, operators and the core see them. */
import { execFile } from "node:child_process"
import * as fs from "node:fs"
import { request } from "node:http"
import { createServer } from "node:net"
import * as path from "node:path"
import { assert, describe, it, onTestFinished } from "vitest"
import type { WorkerAssignment } from "../../src/runtime/config/WorkerAssignment.ts"
import { complete, ScriptedCore, type StartedRun } from "../kit/ScriptedCore.ts"
import { eventually, internalToken, mint, Service } from "../kit/Service.ts"
import { use, useDirectory } from "../kit/suite.ts"
import { startSystem } from "../kit/System.ts"

const system = await use(startSystem({ WORKERS: "2", MAX_ACTIVE_TASKS: "10000" }))
const { core, service, settings } = system
const token = await mint("ann")

/** A request on a connection of its own: the system gives each connection to one of the processes. */
const call = (method: string, address: string, body?: object, bearer = token) =>
  new Promise<{ readonly status: number; readonly text: string }>((resolve, reject) => {
    const headers = { authorization: `Bearer ${bearer}`, "content-type": "application/json" }
    request(service.url + address, { method, headers, agent: false }, (response) => {
      let text = ""
      response.setEncoding("utf8").on("data", (chunk) => text += chunk)
      response.on("end", () => resolve({ status: response.statusCode!, text })).on("error", reject)
    }).on("error", reject).end(body && JSON.stringify(body))
  })

const create = async () => {
  const { status, text } = await call("POST", "/api/tasks", {
    assistant_id: 1,
    input: [{ type: "text", text: "Why?" }]
  })
  assert.strictEqual(status, 201, text)
  return JSON.parse(text).uuid as string
}

const statusOf = async (uuid: string) => JSON.parse((await call("GET", `/api/tasks/${uuid}`)).text).status as string

/** A report may meet a process that dies; a core sends it again. */
const completeSurely = (run: StartedRun) =>
  eventually(() => complete(run).then(({ status }) => status, () => 0), (status) => status === 200 || status === 409)

const metrics = async () => (await call("GET", "/internal/metrics", undefined, internalToken)).text

/** The creates that each worker has counted. */
const createsOf = (page: string) =>
  [1, 2].map((worker) =>
    Number(
      new RegExp(`^task_transitions_total\\{worker="${worker}",event="Created".*\\} (\\d+)$`, "m").exec(page)?.[1] ?? 0
    )
  )

const sumOf = ([one = 0, other = 0]: ReadonlyArray<number>) => one + other

const childrenOf = (pid: number) =>
  fs.readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").split(" ").filter(Boolean).map(Number)

const workers = () => childrenOf(service.process.pid!)

const run = (args: ReadonlyArray<string>, env: Readonly<Record<string, string>> = {}) =>
  new Promise<{ readonly code: unknown; readonly out: string; readonly err: string }>((resolve) => {
    const cwd = path.resolve(import.meta.dirname, "../..")
    execFile(
      process.execPath,
      ["src/runtime/Main.ts", ...args],
      { cwd, env },
      (error, out, err) => resolve({ code: error?.code ?? 0, out, err })
    )
  })

describe("several processes behind one port", () => {
  it("share the requests, and show the metrics of all whichever is asked", async () => {
    // The first worker that listens answers `/readyz`.
    const both = await eventually(metrics, (page) => /\{worker="1"/.test(page) && /\{worker="2"/.test(page))
    const before = sumOf(createsOf(both))
    const uuids = await Promise.all(Array.from({ length: 40 }, create))
    for (const uuid of uuids) await completeSurely(await core.run(uuid))
    for (const uuid of uuids) assert.strictEqual(await statusOf(uuid), "completed")
    for (const page of await Promise.all(Array.from({ length: 8 }, metrics))) {
      const creates = createsOf(page)
      assert.strictEqual(sumOf(creates), before + 40, page)
      assert.isAbove(Math.min(...creates), 0)
      assert.strictEqual(page.match(/^# TYPE task_transitions_total /gm)?.length, 1)
    }
    assert.match(service.output, /worker/)
  })

  it("lose no acknowledged task when one is killed, which is started again", async () => {
    const before = workers()
    const [victim] = before
    const acknowledged: Array<string> = []
    const ends: Array<Promise<unknown>> = []
    for (let round = 0; round < 30; round++) {
      if (round === 10) process.kill(victim!, "SIGKILL")
      const created = await Promise.allSettled(Array.from({ length: 4 }, create))
      for (const one of created) {
        if (one.status === "rejected") continue
        acknowledged.push(one.value)
        ends.push(
          eventually(async () => core.runOf(one.value), (found) => found !== undefined, 30_000)
            .then((found) => completeSurely(found!))
        )
      }
    }
    await Promise.all(ends)
    assert.isAbove(acknowledged.length, 60)
    for (const uuid of acknowledged) assert.strictEqual(await statusOf(uuid), "completed")
    await eventually(async () => workers(), (now) => now.length === 2 && !now.includes(victim!))
    await service.logged(/a worker has ended, and is started again/)
    await eventually(metrics, (page) => /\{worker="1"/.test(page) && /\{worker="2"/.test(page), 20_000)
  })

  it("take other ports when theirs are not free any more, and are still found by the others", async () => {
    const assignmentOf = (pid: number) => {
      const variables = fs.readFileSync(`/proc/${pid}/environ`, "utf8").split("\0")
      const text = variables.find((variable) => variable.startsWith("TASK_SERVICE_WORKER="))!
      return JSON.parse(text.slice("TASK_SERVICE_WORKER=".length)) as WorkerAssignment
    }
    const [victim] = workers()
    const { cluster, number, ownPort } = assignmentOf(victim!)
    process.kill(victim!, "SIGKILL")
    for (const port of [cluster.port, ownPort]) {
      const taker = createServer()
      onTestFinished(() => void taker.close())
      await eventually(
        () =>
          new Promise<boolean>((resolve) =>
            taker.once("error", () => resolve(false)).listen(port, cluster.host, () => resolve(true))
          ),
        (isTaken) => isTaken
      )
    }
    const isNew = (pid: number) => pid !== victim && assignmentOf(pid).number === number
    await eventually(async () => workers(), (now) => now.length === 2 && now.some(isNew), 60_000)
    for (let count = 0; count < 4; count++) {
      await eventually(metrics, (page) => /\{worker="1"/.test(page) && /\{worker="2"/.test(page), 60_000)
    }
    const next = assignmentOf(workers().find(isNew)!)
    assert.notInclude([cluster.port, ownPort], next.cluster.port)
    assert.notInclude([cluster.port, ownPort], next.ownPort)
  }, 120_000)

  it("do not share the port with another service", async () => {
    const port = new URL(service.url).port
    const second = Service.start({ ...settings, WORKERS: "2" }, Number(port), undefined, "/none", 5000)
    const error = await second.then(() => "", (failure) => String(failure))
    assert.match(error, /EADDRINUSE/)
  })

  it("have one embedded database, and the built-in core each", async () => {
    const embedded = await use(Service.start({ DATA_DIR: useDirectory(onTestFinished), WORKERS: "2" }), onTestFinished)
    const created = await Promise.all(Array.from({ length: 5 }, () => embedded.create(token, "What is 6 * 7?")))
    for (const { body } of created) await embedded.until(token, body.uuid, "completed")
    assert.lengthOf(embedded.output.match(/Embedded Postgres on/g) ?? [], 1)
  })

  it("go on when a process cannot be made, which is tried again", async () => {
    const started = await use(
      Service.start({ ...settings, WORKERS: "2" }, undefined, "test/kit/FailingForks.ts"),
      onTestFinished
    )
    // Once one of them is ready the port answers; this is written when all are.
    await started.logged(/Base URL/)
    const pid = started.process.pid!
    const [victim, other] = childrenOf(pid)
    process.kill(pid, "SIGUSR2")
    process.kill(victim!, "SIGKILL")
    await started.logged(/ENOENT/)
    assert.deepStrictEqual(childrenOf(pid), [other])
    process.kill(pid, "SIGUSR2")
    await eventually(async () => childrenOf(pid), (now) => now.length === 2, 60_000)
  }, 120_000)

  it("of which one is blocked end together: it is killed once the time to drain is over", async () => {
    const other = await use(new ScriptedCore().listen(), onTestFinished)
    const started = await Service.start({ ...settings, CORE_URL: other.url, WORKERS: "2" })
    await started.logged(/Base URL/)
    const pid = started.process.pid!
    const [blocked] = childrenOf(pid)
    process.kill(blocked!, "SIGSTOP")
    process.kill(pid, "SIGTERM")
    await eventually(async () => started.process.exitCode, (code) => code !== null, 90_000)
    assert.strictEqual(started.process.exitCode, 0)
    assert.isFalse(fs.existsSync(`/proc/${blocked}`))
  }, 150_000)

  it("end together", async () => {
    const other = await use(new ScriptedCore().listen(), onTestFinished)
    const started = await Service.start({ ...settings, CORE_URL: other.url, WORKERS: "2" })
    await started.logged(/Base URL/)
    const pid = started.process.pid!
    const children = childrenOf(pid)
    assert.lengthOf(children, 2)
    process.kill(pid, "SIGTERM")
    await eventually(async () => started.process.exitCode, (code) => code !== null, 30_000)
    assert.strictEqual(started.process.exitCode, 0)
    for (const child of children) assert.isFalse(fs.existsSync(`/proc/${child}`))
  })
})

describe("the command line of npm start", () => {
  it("describes itself, and refuses what it does not know", async () => {
    const help = await run(["--help"])
    assert.strictEqual(help.code, 0)
    assert.match(help.out, /--workers N/)
    const unknown = await run(["--threads", "2"])
    assert.strictEqual(unknown.code, 2)
    assert.match(unknown.err, /--threads/)
    const none = await run(["--workers", "0"], settings)
    assert.strictEqual(none.code, 1)
    assert.match(none.err, /WORKERS: must be between 1 and 32/)
  })
})
