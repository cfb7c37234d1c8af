/** Nodes with wrong wall clocks, and a database whose clock is set: limits, retries and deadlines stay correct. */
import * as fs from "node:fs"
import { assert, describe, it } from "vitest"
import { Proxy } from "../chaos/Proxy.ts"
import { type OpenDatabase, openEmptyDatabase } from "../kit/databases.ts"
import { runHere } from "../kit/runToEnd.ts"
import { complete, report, ScriptedCore } from "../kit/ScriptedCore.ts"
import { WebhookTarget } from "../kit/ScriptedService.ts"
import { eventually, freePort, internalToken, jwtSecret, mint, Service } from "../kit/Service.ts"
import { use, useDirectory } from "../kit/suite.ts"

const directory = useDirectory()
const target = await use(new WebhookTarget().listen())
target.script = (_, response) => response.writeHead(500).end()
const core = await use(new ScriptedCore().listen())
// Valid from an hour ago until an hour from now.
const second = Math.floor(Date.now() / 1000)
const token = await mint("ann", { iat: second - 7200, exp: second + 7200 })

/** Starts a node whose wall clock is wrong by `error` milliseconds; `set` changes the error. */
const startWrong = async (database: OpenDatabase, error: number, more: Readonly<Record<string, string>> = {}) => {
  const file = `${directory}/${await freePort()}`
  const write = (to: number) => fs.writeFileSync(file, String(to))
  write(error)
  const service = await Service.start(
    {
      DATABASE_URL: database.url,
      CORE_URL: core.url,
      ACCEPTANCE_TIMEOUT: "5 seconds",
      MAX_ACTIVE_TASKS: "100",
      WEBHOOK_ALLOW_PRIVATE: "true",
      WALL_CLOCK_ERROR: file,
      ...more
    },
    undefined,
    ["--import", "./test/kit/wrongClock.ts", "src/runtime/Main.ts"]
  )
  return {
    service,
    set: (to: number) => {
      write(to)
      service.process.kill("SIGUSR2")
    }
  }
}

/** Replaces the database's clock functions; `set` shifts its clock by milliseconds from the right time. */
const shiftClock = async ({ query, url }: OpenDatabase) => {
  const set = (error: number) => query(`UPDATE shifted.clock SET error = interval '${error} milliseconds'`)
  for (
    const statement of [
      "CREATE SCHEMA shifted",
      "CREATE TABLE shifted.clock AS SELECT interval '0' AS error",
      `CREATE FUNCTION shifted.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS
        'SELECT pg_catalog.clock_timestamp() + error FROM shifted.clock'`,
      `ALTER DATABASE "${new URL(url).pathname.slice(1)}" SET search_path = shifted, pg_catalog`
    ]
  ) await query(statement)
  return set
}

const gauge = async (service: Service, name: string) => {
  const { body } = await service.call("GET", "/internal/metrics", internalToken)
  return Number(new RegExp(`^${name} (\\S+)$`, "m").exec(body)?.[1])
}

/** The output of `doctor` on a machine with a correct wall clock. */
const doctor = async (database: OpenDatabase, { url }: Service) => {
  const settings = { DATABASE_URL: database.url, INTERNAL_TOKENS: internalToken, JWT_SECRET: jwtSecret }
  return (await runHere(["doctor"], { ...settings, TASK_SERVICE_URL: url, DATA_DIR: directory })).out
}

/** Seconds until the task failed, with its error; fails the test after `timeout` seconds. */
const failure = async (service: Service, uuid: string, timeout: number, begun: number) => {
  const { body } = await service.until(token, uuid, "failed", timeout * 1000)
  return { error: body.error as string, seconds: (performance.now() - begun) / 1000 }
}

/** Seconds by which a busy machine may be late; the wall clocks are wrong by 3 s or more. */
const tolerance = 2

/** A task that reaches its time limit of 3 s after its creation. */
const limit = async (service: Service) => {
  const begun = performance.now()
  const { body } = await service.create(token, "x", { max_execution_time: 3 })
  return async () => {
    const { error, seconds } = await failure(service, body.uuid, 6, begun)
    assert.strictEqual(error, "Task exceeded maximum execution time (3s)")
    assert.closeTo(seconds, 3, tolerance)
  }
}

/** A task that the core never accepts: it fails 5 s after its dispatch. */
const acceptance = async (service: Service) => {
  const begun = performance.now()
  const { body } = await service.create(token, "x")
  return async () => {
    const { error, seconds } = await failure(service, body.uuid, 8, begun)
    assert.match(error, /^Task was not accepted/)
    assert.closeTo(seconds, 5, tolerance)
  }
}

/** A webhook whose first attempt fails: the second one follows after 10 s, plus at most a twentieth. */
const retry = async (service: Service) => {
  const { body } = await service.create(token, "x", { callback_url: target.url })
  await complete(await core.run(body.uuid))
  const posts = (count: number, timeout?: number) =>
    eventually(async () => target.postsOf(body.uuid), (found) => found.length >= count, timeout)
  await posts(1)
  return async () => {
    const [first, second] = await posts(2, 15_000)
    const seconds = (second!.at - first!.at) / 1000
    assert.isAtLeast(seconds, 10)
    assert.isAtMost(seconds, 10.5 + tolerance)
  }
}

const begin = (services: ReadonlyArray<Service>) =>
  Promise.all(services.flatMap((service) => [limit(service), acceptance(service), retry(service)]))
const all = async (checks: ReadonlyArray<() => Promise<void>>) => {
  const ends = await Promise.allSettled(checks.map((check) => check()))
  const reasons = ends.flatMap((end) => end.status === "rejected" ? [String(end.reason)] : [])
  assert.deepStrictEqual(reasons, [])
}

const createdAt = async (service: Service) => {
  const { body } = await service.create(token, "x")
  return Date.parse((await service.get(token, body.uuid)).body.created_at)
}

/** The moment in the id of a new run, which nodes compare when they take over tasks of others. */
const runMoment = async (service: Service) => {
  const { body } = await service.create(token, "x")
  const { run_id } = await core.run(body.uuid)
  return Number.parseInt(run_id.replace("-", "").slice(0, 12), 16)
}

describe("limits, acceptance deadlines and retries of webhooks are on time", () => {
  for (const CLUSTER of ["off", "on"]) {
    it.concurrent(`on two nodes whose wall clocks are 3 s apart, CLUSTER=${CLUSTER}`, async () => {
      const database = await openEmptyDatabase()
      const start = async (error: number) =>
        startWrong(database, error, { CLUSTER, CLUSTER_PORT: String(await freePort()) })
      const nodes = [await start(3000), await start(0)]
      const services = nodes.map(({ service }) => service)
      await all(await begin(services))
      for (const service of services) assert.closeTo(await runMoment(service), Date.now(), 1000 * tolerance)
      const findings = await doctor(database, services[0]!)
      assert.match(
        findings,
        /^warn +clock +this machine's clock is 0\.\d+ s .*; the node's clock is [23]\.\d+ s ahead of .*ago\)$/m
      )
      assert.closeTo(await gauge(services[0]!, "clock_offset_seconds"), 3, 0.1)
      assert.closeTo(await gauge(services[1]!, "clock_offset_seconds"), 0, 0.1)
      await Promise.all(services.map((service) => service.stop()))
      await database.close()
    })
  }

  it.concurrent("on a node whose wall clock steps back one hour while it runs", async () => {
    const database = await openEmptyDatabase()
    const { service, set } = await startWrong(database, 0)
    const before = await begin([service])
    set(-3_600_000)
    await eventually(() => gauge(service, "clock_offset_seconds"), (offset) => offset < -3599)
    assert.closeTo(await createdAt(service), Date.now(), 1000 * tolerance)
    await all([...before, ...await begin([service])])
    assert.strictEqual((await fetch(`${service.url}/readyz`)).status, 200)
    await service.stop()
    await database.close()
  })
})

describe("limits, deadlines and retries follow the database's clock", () => {
  it.concurrent("a second after a machine was suspended for an hour", async () => {
    const database = await openEmptyDatabase()
    const setDatabase = await shiftClock(database)
    const { service, set } = await startWrong(database, 0)
    const created = await service.create(token, "x", { max_execution_time: 3600 })
    await report(await core.run(created.body.uuid), { type: "processing" })
    // The machine's monotonic clock did not advance during the hour.
    await setDatabase(3_600_000)
    set(3_600_000)
    const { body } = await service.until(token, created.body.uuid, "failed", 4000)
    assert.strictEqual(body.error, "Task exceeded maximum execution time (3600s)")
    assert.closeTo(await createdAt(service) - Date.now(), 3_600_000, 1000 * tolerance)
    await all(await begin([service]))
    await service.stop()
    await database.close()
  })

  it.concurrent("soon after a failover to another server, and by the last offset during an outage", async () => {
    const database = await openEmptyDatabase()
    const setDatabase = await shiftClock(database)
    const proxy = await Proxy.before(database.url)
    const { service } = await startWrong({ ...database, url: proxy.urlOf(database.url) }, 3000)
    proxy.weather = "losing replies"
    proxy.cut()
    await eventually(() => gauge(service, "clock_sample_age_seconds"), (age) => age > 11, 30_000)
    assert.closeTo(await gauge(service, "clock_offset_seconds"), 3, 0.1)
    const { body } = await service.call("GET", "/readyz", token)
    assert.deepInclude(body.checks, { clock: "ok", database: "does not answer" })
    await setDatabase(60_000)
    proxy.weather = "fair"
    await eventually(() => gauge(service, "clock_offset_seconds"), (offset) => offset < -56, 5000)
    assert.closeTo(await createdAt(service) - Date.now(), 60_000, 1000 * tolerance)
    await service.stop()
    await proxy.close()
    await database.close()
  })

  it.concurrent("from the next sample after it is set back one hour", async () => {
    const database = await openEmptyDatabase()
    const setDatabase = await shiftClock(database)
    const first = await startWrong(database, 0)
    await setDatabase(-3_600_000)
    const second = await startWrong(database, 0)
    await eventually(() => gauge(first.service, "clock_offset_seconds"), (offset) => offset > 3599, 12_000)
    assert.match(first.service.output, /time was stepped by -3(599|600)\.\d+ s/)
    assert.closeTo(await createdAt(first.service) - Date.now(), -3_600_000, 1000 * tolerance)
    await all(await begin([first.service, second.service]))
    await Promise.all([first.service.stop(), second.service.stop()])
    await database.close()
  })
})
