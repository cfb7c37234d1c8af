/** The queue for operators: what runs and waits, limits and pauses by REST and by commands, what the overview and doctor say. */
import { assert, describe, it, onTestFinished } from "vitest"
import { runHere } from "../../kit/runToEnd.ts"
import { complete, report, type StartedRun } from "../../kit/ScriptedCore.ts"
import { eventually, internalToken, jwtSecret, mint, Service } from "../../kit/Service.ts"
import { use, useDirectory } from "../../kit/suite.ts"
import { startSystem } from "../../kit/System.ts"
import { operatorCalls } from "./operatorCalls.ts"

const readToken = "operator-read-token-of-the-tests"
const system = await use(startSystem({ OPERATOR_READ_TOKENS: readToken, MAX_ACTIVE_TASKS: "50" }))
const { core, service } = system
const { get } = operatorCalls(service)

const environment = {
  ...system.settings,
  // `doctor` would call the scripted core, which knows only runs.
  CORE_URL: "",
  JWT_SECRET: jwtSecret,
  INTERNAL_TOKENS: internalToken,
  DATA_DIR: useDirectory(),
  TASK_SERVICE_URL: service.url
}
const run = (...args: ReadonlyArray<string>) => runHere(args, environment)

const put = (id: string | number, body: unknown, token = internalToken) =>
  service.call("PUT", `/internal/operator/queue/assistants/${id}`, token, body)

const user = await mint("ann")
const create = async (assistant: number) => {
  const { body, status } = await service.create(user, "x", { assistant_id: assistant })
  assert.strictEqual(status, 201)
  return String(body.uuid)
}
const rowOf = async (assistant: number) => {
  const { body } = await get("/queue")
  return body.assistants.find(({ assistant_id: id }: { assistant_id: number }) => id === assistant)
}
const started = async (uuid: string): Promise<StartedRun> => {
  const begun = await system.runOf(uuid)
  await report(begun, { type: "processing" })
  return begun
}

describe("the queue of operators", () => {
  it("shows what the core has, and is read with any token of an operator", async () => {
    const begun = await started(await create(3))
    for (const token of [internalToken, readToken]) {
      const { body, status } = await get("/queue", token)
      assert.strictEqual(status, 200)
      assert.containSubset(body, {
        runs: null,
        running: 1,
        waiting: 0,
        oldest_waiting_since: null,
        core_busy_since: null,
        core_unreachable: null
      })
      assert.deepStrictEqual(body.assistants, [{
        assistant_id: 3,
        name: null,
        runs: null,
        running: 1,
        waiting: 0,
        oldest_waiting_since: null,
        paused: false
      }])
    }
    assert.strictEqual((await get("/queue", "nobody")).status, 401)
    assert.strictEqual((await get("/queue", user)).status, 401)
    await complete(begun)
  })

  it("limits an assistant, and gives back its places in order", async () => {
    const unknown = await put(40, { runs: 1 })
    assert.deepStrictEqual([unknown.status, unknown.body], [200, {
      assistant_id: 40,
      name: null,
      runs: 1,
      running: 0,
      waiting: 0,
      oldest_waiting_since: null,
      paused: false
    }])
    const [one, two, three] = [await create(40), await create(40), await create(40)]
    const first = await started(one)
    const other = await started(await create(41))
    const row = await rowOf(40)
    assert.containSubset(row, { runs: 1, running: 1, waiting: 2 })
    assert.match(row.oldest_waiting_since, /^\d{4}-.*Z$/)
    assert.isUndefined(core.runOf(two))
    assert.containSubset((await get(`/tasks/${three}`)).body.waiting_on, { party: "queue", position: 2 })
    await complete(first)
    const second = await started(two)
    assert.isUndefined(core.runOf(three))
    // Without a limit the last one goes at once.
    assert.containSubset((await put(40, { runs: null })).body, { runs: null })
    await complete(await started(three))
    await Promise.all([second, other].map((begun) => complete(begun)))
  })

  it("pauses an assistant: its new runs wait, others go on", async () => {
    assert.containSubset((await put(50, { paused: true })).body, { paused: true, runs: null })
    const held = await create(50)
    await complete(await started(await create(51)))
    assert.isUndefined(core.runOf(held))
    assert.containSubset(await rowOf(50), { paused: true, waiting: 1, running: 0 })
    await system.database.query("UPDATE waiting_runs SET since = now() - interval '10 minutes'")
    const waitsLong = async () =>
      (await get("/overview")).body.alerts.find(({ id }: { id: string }) => id === "queue_waits_long")?.message
    const message = await eventually(waitsLong, (found) => found !== undefined)
    assert.strictEqual(message, "A run waits for an assistant that is paused, the oldest for 10 minutes. Paused: 50.")
    assert.containSubset((await put(50, { runs: 2 })).body, { paused: true, runs: 2 })
    assert.containSubset((await put(50, { paused: null })).body, { paused: true, runs: 2 })
    assert.containSubset((await put(50, { paused: false })).body, { paused: false, runs: 2 })
    await complete(await started(held))
  })

  it("refuses what is wrong with its field, and a read token", async () => {
    const cases: ReadonlyArray<readonly [id: string, body: unknown, field: string]> = [
      ["1", { runs: 0 }, "runs"],
      ["1", { runs: 1.5 }, "runs"],
      ["1", { runs: "4" }, "runs"],
      ["1", { runs: 1_000_001 }, "runs"],
      ["1", { paused: "yes" }, "paused"],
      ["1", [], "body"],
      ["0", { runs: 1 }, "id"],
      ["-1", { runs: 1 }, "id"],
      ["one", { runs: 1 }, "id"],
      ["9007199254740993", { runs: 1 }, "id"]
    ]
    for (const [id, body, field] of cases) {
      const answer = await put(id, body)
      assert.deepStrictEqual([answer.status, Object.keys(answer.body.errors)], [422, [field]], JSON.stringify(body))
    }
    assert.strictEqual((await put(1, { paused: true }, readToken)).status, 403)
    assert.strictEqual((await put(1, { paused: true }, user)).status, 401)
    assert.isUndefined(await rowOf(1))
  })

  it("logs each change with who made it", async () => {
    await put(60, { runs: 7, paused: true })
    const line = await service.logged(/an operator changed the queue of an assistant[^]*assistantId: 60/)
    assert.match(line, /assistantId: 60[^]*runs: 7[^]*isPaused: true/)
    await put(60, { paused: false })
  })
})

describe("the commands of the queue", () => {
  it("list, pause, resume and limit", async () => {
    const limited = await run("queue", "limit", "70", "2")
    assert.deepStrictEqual([limited.code, limited.out], [0, "Assistant 70: limit 2, 0 running, 0 waiting."])
    const paused = await run("queue", "pause", "70", "--json")
    assert.containSubset(JSON.parse(paused.out), { assistant_id: 70, runs: 2, paused: true })
    const begun = await create(70)
    const listed = await run("queue", "list")
    assert.match(listed.out, /^running +\d+ \(no limit\)\nwaiting +1\n/)
    assert.match(listed.out, /\n70 +0 +2 +1 .*paused/)
    assert.containSubset(JSON.parse((await run("queue", "list", "--json")).out), { waiting: 1 })
    assert.match((await run("tasks", "show", begun)).out, /waits for +queue, room\nposition +1/)
    assert.match((await run("queue", "resume", "70")).out, /^Assistant 70: limit 2, /)
    await complete(await started(begun))
    for (const word of ["none", "default"]) {
      assert.match((await run("queue", "limit", "70", word)).out, /^Assistant 70: no limit/)
    }
    for (const word of ["many", "0", "-1", "1.5"]) {
      const wrong = await run("queue", "limit", "70", word)
      assert.deepStrictEqual([wrong.code, wrong.out], [2, ""])
    }
    assert.match((await run("queue", "pause", "0")).err, /id: Expected an integer between 1/)
  })

  it("name the limit of all assistants, which holds for one without its own", async () => {
    const limited = await use(Service.start({ ...system.settings, CORE_RUNS_PER_ASSISTANT: "2" }), onTestFinished)
    const runThere = (...args: ReadonlyArray<string>) =>
      runHere(args, { ...environment, TASK_SERVICE_URL: limited.url })
    const ofAll = "limit 2 of CORE_RUNS_PER_ASSISTANT"
    assert.include((await runThere("queue", "limit", "71", "none")).out, `Assistant 71: ${ofAll}, `)
    assert.include((await runThere("queue", "pause", "71")).out, `Assistant 71: paused, ${ofAll}, `)
    assert.include((await runThere("queue", "limit", "71", "1")).out, "Assistant 71: paused, limit 1, ")
  })
})

describe("the user's commands", () => {
  it("give a priority, and show the place of a task in the queue", async () => {
    await put(75, { paused: true })
    const created = await run("create", "-a", "75", "--priority", "2", "hello", "--json")
    const { uuid } = JSON.parse(created.out)
    assert.match((await run("get", uuid)).out, /^Waits +Queued, next$/m)
    assert.containSubset(JSON.parse((await run("get", uuid, "--json")).out), { waiting_on: { position: 1 } })
    const [row] = await system.database.query(`SELECT priority FROM tasks WHERE uuid = '${uuid}'`)
    assert.deepStrictEqual(row, { priority: 2 })
    assert.match((await run("create", "--priority", "6", "hello")).err, /priority: Expected an integer between 0 and 5/)
    await put(75, { paused: false })
    await complete(await started(uuid))
  })
})

describe("a core without room", () => {
  it("is named by the overview, the queue, doctor and the log, until it has room", async () => {
    const begun = await started(await create(80))
    core.onStart = (_, response) => {
      response.setHeader("retry-after", "1")
      return 429
    }
    const uuid = await create(80)
    const { body } = await eventually(() => get("/overview"), ({ body }) => body.queue.core_busy_since !== null)
    const alert = body.alerts.find(({ id }: { id: string }) => id === "core_busy")
    assert.match(alert.message, /^The core is busy since \d{4}-.*Z, 1 wait\./)
    assert.match((await get("/queue")).body.core_busy_since, /Z$/)
    assert.match((await run("queue", "list")).out, /core busy since/)
    assert.match((await run("overview")).out, /Alert: The core is busy since/)
    // It reads gauges, which are counted every few seconds.
    const isNamed = ({ out }: { readonly out: string }) => /warn +queue +the core is busy since \S+, 1 wait/.test(out)
    await eventually(() => run("doctor"), isNamed)
    const { body: metrics } = await service.call("GET", "/internal/metrics", internalToken)
    assert.match(metrics, /^core_busy_total [1-9]/m)
    assert.match(metrics, /^core_busy_duration_seconds(\{[^}]*\})? [\d.]*[1-9]/m)
    core.onStart = () => 202
    await complete(begun)
    await complete(await started(uuid))
    assert.strictEqual((await service.until(user, uuid, "completed")).body.status, "completed")
    await eventually(() => get("/queue"), ({ body: queue }) => queue.core_busy_since === null, 20_000)
    await service.logged(/The core has no room[^]*The core has room again/)
  })
})
