import { execFileSync, spawn } from "node:child_process"
import { once } from "node:events"
import * as fs from "node:fs"
import { assert, describe, it, onTestFinished } from "vitest"
import { callRpc } from "../kit/callRpc.ts"
import { openDatabase } from "../kit/databases.ts"
import { complete, ScriptedCore } from "../kit/ScriptedCore.ts"
import { eventually, freePort, mint, Service } from "../kit/Service.ts"
import { use, useDirectory } from "../kit/suite.ts"

const database = await use(openDatabase())
const core = await use(new ScriptedCore().listen())

/** Milliseconds. A connection that a stop waits for in vain holds it for 15 s. */
const drain = 10_000

describe("kill -9 of the whole process group", () => {
  it("loses no pending or processing task, and leaves an embedded database that the next start takes over", async () => {
    const directory = useDirectory(onTestFinished)
    const port = await freePort()
    const first = await Service.start({ DATA_DIR: directory }, port)
    const tokens = await Promise.all(["u1", "u2", "u3", "u4"].map((sub) => mint(sub)))
    // Half of the tasks complete immediately, half take three seconds.
    const texts = ["take 3", "1 + 1", "take 3", "1 + 1", "take 3"]
    const created = await Promise.all(tokens.flatMap((token) =>
      texts.map(async (text) => {
        const { body } = await first.create(token, text, { assistant_id: text === "1 + 1" ? 1 : 3 })
        return { token, uuid: String(body.uuid) }
      })
    ))
    await first.stop("SIGKILL")
    const second = await use(Service.start({ DATA_DIR: directory }, port), onTestFinished)
    for (const { token, uuid } of created) {
      const { body } = await second.until(token, uuid, "completed", 20_000)
      assert.isNotNull(body.turn)
      const events = await second.call("GET", `/api/tasks/${uuid}/events`, token)
      assert.lengthOf(events.body.match(/^event: completed$/gm), 1)
    }
  })
})

describe("kill -9 after a withdrawal", () => {
  it("delivers the stop after the restart", async () => {
    const settings = { DATABASE_URL: database.url, CORE_URL: core.url }
    const first = await Service.start(settings)
    const { uuid } = (await first.create(await mint("unlucky"), "x")).body
    const { run_id } = await core.run(uuid)
    core.onStop = () => 503
    assert.strictEqual((await callRpc(first, "Tasks.withdraw", { sub: "unlucky", uuid })).status, "canceled")
    await first.stop("SIGKILL")
    core.onStop = () => 202
    const before = core.stops.length
    await use(Service.start(settings), onTestFinished)
    await eventually(
      async () => core.stops.slice(before),
      (stops) => stops.some(({ runId }) => runId === run_id),
      60_000
    )
  })
})

describe("the embedded database", () => {
  it("is taken over with its data when it still runs after its service died", async () => {
    const directory = useDirectory(onTestFinished)
    const token = await mint("orphan")
    const first = await Service.start({ DATA_DIR: directory })
    const { uuid } = (await first.create(token, "2 + 2")).body
    await first.until(token, uuid, "completed")
    // Kills first the watcher that would stop Postgres.
    execFileSync("pkill", ["-9", "-x", "sh", "-P", String(first.process.pid)])
    await first.stop("SIGKILL")
    const second = await use(Service.start({ DATA_DIR: directory }), onTestFinished)
    assert.strictEqual((await second.get(token, uuid)).body.status, "completed")
  })

  it("belongs to one service: a second service on the directory reports this and exits", async () => {
    const directory = useDirectory(onTestFinished)
    const first = await use(Service.start({ DATA_DIR: directory }), onTestFinished)
    const second = await Service.start({ DATA_DIR: directory }).then(() => "started", String)
    assert.include(second, "exited with 1")
    assert.include(second, `Another service is running on ${directory}`)
    assert.notInclude(second, "    at ")
    assert.strictEqual((await fetch(`${first.url}/readyz`)).status, 200)
  })

  it("works in a directory that only its owner can read", async () => {
    const parent = useDirectory(onTestFinished)
    fs.chmodSync(parent, 0o700)
    const directory = `${parent}/data`
    const token = await mint("private")
    const first = await Service.start({ DATA_DIR: directory })
    const { uuid } = (await first.create(token, "2 + 2")).body
    await first.until(token, uuid, "completed")
    await first.stop()
    const second = await use(Service.start({ DATA_DIR: directory }), onTestFinished)
    assert.strictEqual((await second.get(token, uuid)).body.status, "completed")
  })
})

describe("SIGTERM", () => {
  it("finishes requests in flight, exits with 0 and loses nothing", async () => {
    const settings = { DATABASE_URL: database.url, CORE_URL: core.url }
    const port = await freePort()
    const first = await Service.start(settings, port)
    const tokens = await Promise.all(["drained", "drained-2", "drained-3"].map((sub) => mint(sub)))
    // The creates wait for this lock while the service is told to stop.
    const release = await database.hold("LOCK TABLE tasks IN SHARE MODE")
    const creates = tokens.map((token) => first.create(token, "x"))
    const waiting = "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    await eventually(async () => database.query(waiting), ({ length }) => length > 0)
    const stopping = first.stop()
    const isListening = () => fetch(`${first.url}/healthz`).then(() => true, () => false)
    await eventually(isListening, (listening) => !listening)
    const started = performance.now()
    await release()
    const answers = await Promise.all(creates)
    assert.deepStrictEqual(answers.map(({ status }) => status), [201, 201, 201], first.output)
    await stopping
    assert.isBelow(performance.now() - started, drain)
    assert.strictEqual(first.process.exitCode, 0, first.output)
    const [{ body: { uuid } } = assert.fail()] = answers
    const [token = ""] = tokens
    const run = await core.run(uuid)
    core.runs.length = 0
    const second = await use(Service.start(settings, port), onTestFinished)
    assert.strictEqual((await core.run(uuid)).run_id, run.run_id)
    await complete(run, "late but welcome")
    assert.strictEqual((await second.get(token, uuid)).body.status, "completed")
  })
})

describe("SIGTERM under load", () => {
  it("is not delayed by clients that never pause, and answers every request that it carries out", async () => {
    const own = await use(openDatabase(), onTestFinished)
    const service = await Service.start({ DATABASE_URL: own.url, CORE_URL: core.url, MAX_ACTIVE_TASKS: "1000000" })
    const token = await mint("insistent")
    const acknowledged: Array<string> = []
    const unanswered: Array<unknown> = []
    const insist = async (): Promise<void> => {
      for (;;) {
        const answer = await service.create(token, "x").catch((error: unknown) => void unanswered.push(error))
        if (answer === undefined) return
        assert.strictEqual(answer.status, 201, JSON.stringify(answer.body))
        acknowledged.push(answer.body.uuid)
      }
    }
    const clients = Promise.all(Array.from({ length: 8 }, insist))
    await eventually(async () => acknowledged.length, (count) => count > 100)
    const started = performance.now()
    await service.stop()
    assert.isBelow(performance.now() - started, drain)
    await clients
    assert.strictEqual(service.process.exitCode, 0, service.output)
    // A request without a response, of each client the last, has had no effect: it did not begin.
    assert.lengthOf(unanswered, 8)
    const stored = await own.query<{ uuid: string }>("SELECT uuid FROM tasks")
    assert.sameMembers(acknowledged, stored.map(({ uuid }) => uuid))
  })
})

describe("retention", () => {
  it("deletes tasks that ended before the retention period, and no live task", async () => {
    const own = await use(openDatabase(), onTestFinished)
    const service = await use(
      Service.start({ DATABASE_URL: own.url, CORE_URL: core.url, RETENTION: "3 seconds" }),
      onTestFinished
    )
    const token = await mint("kept")
    const [ended, living] = [(await service.create(token, "x")).body.uuid, (await service.create(token, "y")).body.uuid]
    const run = await core.run(ended)
    await complete(run)
    assert.strictEqual((await service.get(token, ended)).body.status, "completed")
    await eventually(() => service.get(token, ended), ({ status }) => status === 404)
    assert.strictEqual((await service.call("GET", `/api/tasks/${ended}/events`, token)).status, 404)
    const { body } = await service.call("GET", "/api/tasks", token)
    assert.deepStrictEqual([body.meta.total, body.data[0].uuid], [1, living])
    for (const table of ["task_turns", "task_events", "task_requests", "task_metadata", "task_labels"]) {
      const left = await own.query(`SELECT FROM ${table} WHERE task_uuid = '${ended}'`)
      assert.isEmpty(left, table)
    }
  })
})

describe("key rotation", () => {
  it("decrypts with all keys and encrypts with the first", async () => {
    const port = await freePort()
    const keyOf = (byte: number) => Buffer.alloc(32, byte).toString("base64")
    const start = (...bytes: ReadonlyArray<number>) =>
      Service.start(
        { DATABASE_URL: database.url, CORE_URL: core.url, ENCRYPTION_KEY: bytes.map(keyOf).join(",") },
        port
      )
    const sealed = () => database.query<{ user_token: string }>("SELECT user_token FROM task_requests")
    const keyIds = async () => new Set((await sealed()).map(({ user_token }) => user_token.split(".")[1]))
    await database.query("DELETE FROM task_requests")

    const first = await start(1)
    const token = await mint("rotated")
    const { uuid } = (await first.create(token, "x")).body
    await core.run(uuid)
    const [before] = await keyIds()
    assert.notInclude(JSON.stringify(await sealed()), token)
    await first.stop("SIGKILL")
    core.runs.length = 0

    const second = await use(start(2, 1), onTestFinished)
    const run = await core.run(uuid)
    assert.strictEqual(run.user_token, token)
    await second.create(token, "y")
    const after = await keyIds()
    assert.strictEqual(after.size, 2)
    assert.isTrue(after.has(before))
    // Secrets that are no longer needed are deleted.
    await complete(run)
    assert.isFalse((await keyIds()).has(before))
  })
})

describe("npm start", () => {
  it("forwards SIGTERM to the service, and prints how to use it", async () => {
    const directory = useDirectory(onTestFinished)
    const port = await freePort()
    const { HOME, PATH } = process.env
    const npm = spawn("npm", ["start"], {
      env: { HOME, PATH, PORT: String(port), DATA_DIR: directory },
      detached: true
    })
    let output = ""
    npm.stdout.on("data", (chunk) => output += chunk)
    const isReady = () => fetch(`http://127.0.0.1:${port}/readyz`).then(({ ok }) => ok, () => false)
    await eventually(isReady, (ready) => ready, 30_000)
    await eventually(async () => output, (text) => text.includes("sleep 1; curl"))
    // Runs the printed commands as a new user would.
    const pasted = execFileSync("bash", ["-c", output.slice(output.indexOf("  TOKEN="))], { encoding: "utf8" })
    assert.include(pasted, `"status":"completed"`)
    const exited = once(npm, "exit")
    npm.kill("SIGTERM")
    await exited
    assert.isFalse(await isReady())
  })
})

describe("a task that the database cannot update", () => {
  it("delays neither the start of a node nor other overdue tasks", async () => {
    const own = await use(openDatabase(), onTestFinished)
    const token = await mint("mallory")
    const overdue = { max_execution_time: 1 }
    const first = await Service.start({ DATABASE_URL: own.url })
    const { uuid: stuck } = (await first.create(token, "take 60", { assistant_id: 3, ...overdue })).body
    const { uuid: other } = (await first.create(token, "take 60", { assistant_id: 3, ...overdue })).body
    await first.stop("SIGKILL")
    await own.query(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN RAISE EXCEPTION 'no'; END $$`)
    await own.query(`CREATE TRIGGER refuse BEFORE UPDATE ON tasks FOR EACH ROW
      WHEN (OLD.uuid = '${stuck}') EXECUTE FUNCTION refuse()`)
    await own.query("SELECT pg_sleep(1.2)")
    const second = await use(Service.start({ DATABASE_URL: own.url }), onTestFinished)
    await second.until(token, other, "failed")
    assert.notStrictEqual((await second.get(token, stuck)).body.status, "failed")
    await own.query("DROP TRIGGER refuse ON tasks")
    await second.until(token, stuck, "failed")
  })
})
