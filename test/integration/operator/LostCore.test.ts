/** A core that is gone, or says nothing: operators see it, whether or not it declares silence. */
import { assert, describe, it, onTestFinished } from "vitest"
import { runHere } from "../../kit/runToEnd.ts"
import { complete, report } from "../../kit/ScriptedCore.ts"
import { eventually, internalToken, jwtSecret, mint, type Service } from "../../kit/Service.ts"
import { use } from "../../kit/suite.ts"
import { startSystem } from "../../kit/System.ts"
import { operatorCalls } from "./operatorCalls.ts"

const gauge = async (service: Service, name: string) => {
  const { body } = await service.call("GET", "/internal/metrics", internalToken)
  return Number(new RegExp(`^${name} (\\S+)$`, "m").exec(String(body))?.[1])
}

const start = async (settings: Readonly<Record<string, string>> = {}) => {
  const system = await use(startSystem(settings), onTestFinished)
  const { body: { uuid } } = await system.service.create(await mint("ann"), "Why?")
  const run = await system.runOf(uuid)
  assert.strictEqual((await report(run, { type: "processing" })).status, 200)
  const { get } = operatorCalls(system.service)
  const coreUrl = system.core.url
  const command = (...args: ReadonlyArray<string>) =>
    runHere(args, {
      DATABASE_URL: system.database.url,
      JWT_SECRET: jwtSecret,
      INTERNAL_TOKENS: internalToken,
      CORE_URL: coreUrl,
      TASK_SERVICE_URL: system.service.url
    })
  const alerts = async (): Promise<ReadonlyArray<{ readonly id: string; readonly message: string }>> =>
    (await get("/overview")).body.alerts
  return { system, uuid, run, get, alerts, command }
}

describe("a core that refuses connections", () => {
  it("is seen at once by whoever looks, with the runs that it has, until it is back", async () => {
    const { alerts, command, get, run, system, uuid } = await start()
    assert.deepInclude((await get("/stuck")).body, { data: [], total: 0, core_unreachable: null })
    const port = Number(new URL(system.core.url).port)
    await system.core.close()
    const { body } = await eventually(() => get("/stuck"), ({ body }) => body.total === 1)
    assert.deepStrictEqual(body.data.map((row: { uuid: string }) => row.uuid), [uuid])
    assert.include(body.core_unreachable.reason, "ECONNREFUSED")
    assert.strictEqual(body.before, body.core_unreachable.since)
    assert.deepInclude((await get("/stuck?minutes=60")).body, { data: [], total: 0 })
    const [alert] = await alerts()
    assert.strictEqual(alert?.id, "core_unreachable")
    assert.match(alert?.message ?? "", /^The core cannot be reached since .*ECONNREFUSED.*Tasks that wait for it: 1\.$/)
    const { out } = await command("stuck")
    assert.match(out, new RegExp(`^The core cannot be reached since .*ECONNREFUSED[^]*${uuid}`))
    const doctor = await command("doctor")
    assert.match(doctor.out, /silent runs.*the service cannot reach the core/)

    await system.core.listen(port)
    const back = await eventually(() => get("/stuck"), ({ body }) => body.core_unreachable === null, 15_000)
    assert.strictEqual(back.body.total, 0)
    // The overview is at most 2 s old.
    await eventually(alerts, (found) => found.length === 0)
    assert.match((await command("stuck")).out, /^Nothing is stuck: the core has reported of every run since \d{4}-/)
    assert.strictEqual((await complete(run)).status, 200)
  }, 60_000)

  it("is named by the queue, where runs wait, instead of a core without room", async () => {
    const { alerts, command, get, run, system } = await start()
    system.core.onStart = () => 429
    const { status } = await system.service.create(await mint("ann"), "waits")
    assert.strictEqual(status, 201)
    const ids = async () => (await alerts()).map(({ id }) => id)
    await eventually(ids, (found) => found.includes("core_busy"))
    assert.deepInclude((await get("/queue")).body, { waiting: 1, core_unreachable: null })
    const port = Number(new URL(system.core.url).port)
    await system.core.close()
    const { body } = await eventually(() => get("/queue"), ({ body }) => body.core_unreachable !== null, 5000)
    assert.include(body.core_unreachable.reason, "ECONNREFUSED")
    assert.match((await command("queue", "list")).out, /^The core cannot be reached since .*ECONNREFUSED[^]*running/)
    const found = await eventually(ids, (found) => found.includes("core_unreachable"))
    assert.notInclude(found, "core_busy")
    system.core.onStart = () => 202
    await system.core.listen(port)
    await complete(run)
  }, 60_000)

  it("is in the metrics and in the log, although nobody looks and nothing is sent", async () => {
    const { system } = await start()
    assert.strictEqual(await gauge(system.service, "core_unreachable"), 0)
    const port = Number(new URL(system.core.url).port)
    await system.core.close()
    await eventually(() => gauge(system.service, "core_unreachable"), (value) => value === 1, 25_000)
    await system.service.logged(/The core cannot be reached: .*ECONNREFUSED/)
    await system.core.listen(port)
    await eventually(() => gauge(system.service, "core_unreachable"), (value) => value === 0, 15_000)
    await system.service.logged(/the core can be reached again/)
  }, 60_000)
})

describe("a core that says nothing of its run", () => {
  it("has a stuck run after STUCK_AFTER, which a sign of life ends", async () => {
    const { alerts, command, get, run, system, uuid } = await start({ STUCK_AFTER: "4 seconds" })
    assert.strictEqual((await get("/stuck")).body.total, 0)
    await eventually(() => gauge(system.service, "core_runs_stuck"), (value) => value === 1, 15_000)
    assert.deepStrictEqual((await get("/stuck")).body.data.map((row: { uuid: string }) => row.uuid), [uuid])
    assert.strictEqual((await get("/stuck?minutes=1")).body.total, 0)
    const { message } = (await eventually(alerts, (found) => found.length > 0, 20_000))[0] ?? {}
    assert.match(message ?? "", /^A run has made no progress for 4 seconds, the oldest for \d+ seconds\.$/)
    assert.include((await command("stuck")).out, uuid)
    assert.match((await command("stuck", "--minutes", "5")).out, /^Nothing is stuck/)
    assert.strictEqual((await report(run, { type: "progress" })).status, 200)
    await eventually(() => gauge(system.service, "core_runs_stuck"), (value) => value === 0)
    assert.strictEqual((await complete(run)).status, 200)
  }, 60_000)

  for (const [value, problem] of [["0 seconds", "between 1 second and 1 day"], ["15", ""], ["soon", ""]] as const) {
    it(`does not start with STUCK_AFTER=${value}`, async () => {
      const { code, err } = await runHere(["serve"], { STUCK_AFTER: value, JWT_SECRET: jwtSecret })
      assert.strictEqual(code, 1)
      assert.match(err, new RegExp(`STUCK_AFTER.*${problem}`))
    })
  }
})
