/** `/readyz` fails with the reason when the database or the cluster cannot do its work. */
import { assert, describe, it, layer } from "@effect/vitest"
import { Context, Effect, Layer } from "effect"
import { TestClock } from "effect/testing"
import { randomUUID } from "node:crypto"
import { onTestFinished } from "vitest"
import { StoreUnavailable } from "../../src/domain/StoreUnavailable.ts"
import * as TaskShard from "../../src/domain/TaskShard.ts"
import { TaskSweeper } from "../../src/services/actors/TaskSweeper.ts"
import { TaskOwnership } from "../../src/services/cluster/TaskOwnership.ts"
import { ClusterNodes, type Member } from "../../src/services/operations/ClusterNodes.ts"
import { Readiness } from "../../src/services/operations/Readiness.ts"
import * as ReadinessSql from "../../src/services/operations/ReadinessSql.ts"
import { Changes } from "../../src/services/signals/Changes.ts"
import { NodeClock } from "../../src/services/timing/NodeClock.ts"
import * as Database from "../kit/Database.ts"
import { openDatabase } from "../kit/databases.ts"
import { eventually, internalToken, mint, Service } from "../kit/Service.ts"
import { use } from "../kit/suite.ts"
import { startSystem } from "../kit/System.ts"

const readinessOf = async ({ url }: Service) => {
  const response = await fetch(`${url}/readyz`)
  const { checks } = await response.json() as { readonly checks: Readonly<Record<string, string>> }
  return { status: response.status, database: checks["database"] }
}

/** The gauge that the alert about the database reads. */
const availabilityOf = async (service: Service) => {
  const { body } = await service.call("GET", "/internal/metrics", internalToken)
  return /^db_client_available.* (\d)$/m.exec(body)?.[1]
}

const until = (service: Service, database: string) =>
  eventually(() => readinessOf(service), (found) => found.database === database)

/** Waits until the monitor has noticed the outage, which a statement may do before it. */
const untilLogged = (service: Service) => service.logged(/The database is unavailable/)

describe("a node", () => {
  it("is not ready on a read-only database, and drops its connections", async () => {
    const { database, service } = await use(startSystem(), onTestFinished)
    const [{ name } = { name: "" }] = await database.query<{ name: string }>("SELECT current_database() AS name")
    const [{ pid } = { pid: 0 }] = await database.query<{ pid: number }>("SELECT pg_backend_pid() AS pid")
    await database.query(`ALTER DATABASE ${name} SET default_transaction_read_only = on`)
    // The session of the heartbeat still may write: only a refused statement shows the change.
    await database.query(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity
      WHERE datname = '${name}' AND pid NOT IN (${pid}, pg_backend_pid()) AND query NOT LIKE 'SHOW%'`)
    await until(service, "is read-only")
    assert.deepStrictEqual(await readinessOf(service), { status: 503, database: "is read-only" })
    const refused = await service.create(await mint("someone"), "x")
    assert.deepStrictEqual([refused.status, refused.headers.get("retry-after")], [503, "5"])
    await database.query(`ALTER DATABASE ${name} RESET default_transaction_read_only`)
    await until(service, "ok")
    assert.strictEqual((await service.create(await mint("someone"), "x")).status, 201)
    await service.logged(/The database is unavailable: it is read-only/)
    assert.lengthOf(service.output.match(/a request failed/g) ?? [], 0)
  })

  it("reports once that the database refuses its login, answers 503 meanwhile, and works again afterwards", async () => {
    const { database, settings } = await use(startSystem(), onTestFinished)
    const role = `role_${randomUUID().replaceAll("-", "")}`
    await database.query(`CREATE ROLE ${role} SUPERUSER LOGIN PASSWORD 'p'`)
    onTestFinished(() => database.query(`DROP ROLE ${role}`).then(() => {}))
    const url = Object.assign(new URL(database.directUrl), { username: role, password: "p" }).href
    const service = await use(Service.start({ ...settings, DATABASE_URL: url }), onTestFinished)
    await database.query(`ALTER ROLE ${role} NOLOGIN`)
    await database.query(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '${role}'`)
    await until(service, "refuses the login")
    await untilLogged(service)
    const refused = await service.create(await mint("someone"), "x")
    assert.deepStrictEqual([refused.status, refused.headers.get("retry-after")], [503, "5"])
    assert.strictEqual((await readinessOf(service)).status, 503)
    await database.query(`ALTER ROLE ${role} LOGIN`)
    await until(service, "ok")
    assert.strictEqual((await service.create(await mint("someone"), "x")).status, 201)
    assert.lengthOf(service.output.match(/The database is unavailable: role .* is not permitted to log in/g) ?? [], 1)
    assert.notMatch(service.output, /WARN|a request failed/)
  })

  it("is not ready while its database accepts no connections", async () => {
    const { database, service } = await use(startSystem(), onTestFinished)
    const [{ name } = { name: "" }] = await database.query<{ name: string }>("SELECT current_database() AS name")
    const { query } = await use(openDatabase(), onTestFinished)
    await query(`ALTER DATABASE ${name} ALLOW_CONNECTIONS false`)
    await query(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '${name}'`)
    await until(service, "accepts no connections")
    await untilLogged(service)
    assert.strictEqual((await service.create(await mint("someone"), "x")).status, 503)
    await query(`ALTER DATABASE ${name} ALLOW_CONNECTIONS true`)
    await until(service, "ok")
    await service.logged(/The database is unavailable: database .* is not currently accepting connections/)
    assert.notMatch(service.output, /WARN|a request failed/)
  })

  it("answers 503 while the server refuses new connections and the monitor still has one", async () => {
    const { database, settings } = await use(startSystem(), onTestFinished)
    const [{ name } = { name: "" }] = await database.query<{ name: string }>("SELECT current_database() AS name")
    const role = `role_${randomUUID().replaceAll("-", "")}`
    await database.query(`CREATE ROLE ${role} LOGIN PASSWORD 'p' IN ROLE pg_read_all_data, pg_write_all_data`)
    onTestFinished(() => database.query(`DROP ROLE ${role}`).then(() => {}))
    const url = Object.assign(new URL(database.directUrl), { username: role, password: "p" }).href
    const service = await use(Service.start({ ...settings, DATABASE_URL: url }), onTestFinished)
    await database.query(`REVOKE CONNECT ON DATABASE ${name} FROM PUBLIC`)
    await database.query(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity
      WHERE usename = '${role}' AND query NOT LIKE 'SHOW%'`)
    const refused = await service.create(await mint("someone"), "x")
    assert.deepStrictEqual([refused.status, refused.headers.get("retry-after")], [503, "5"])
    assert.deepStrictEqual(await readinessOf(service), { status: 503, database: "refuses the login" })
    assert.strictEqual(await availabilityOf(service), "0")
    await database.query(`GRANT CONNECT ON DATABASE ${name} TO PUBLIC`)
    assert.strictEqual((await service.create(await mint("someone"), "x")).status, 201)
    assert.deepStrictEqual(await readinessOf(service), { status: 200, database: "ok" })
    assert.strictEqual(await availabilityOf(service), "1")
    assert.notMatch(service.output, /a request failed|The database is unavailable/)
    const line =
      /WARN.*The database answers, but statements fail: permission denied for database .* Their requests get 503/g
    assert.lengthOf(await eventually(async () => service.output.match(line) ?? [], ({ length }) => length > 0), 1)
  })

  it("answers 503 and is not ready while the disk of the database is full, and for 2 s at most afterwards", async () => {
    const { database, service } = await use(startSystem(), onTestFinished)
    await database.query(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
      $$ BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = '53100'; END $$`)
    await database.query("CREATE TRIGGER refuse BEFORE INSERT ON tasks EXECUTE FUNCTION refuse()")
    assert.strictEqual((await service.create(await mint("someone"), "x")).status, 503)
    assert.deepStrictEqual(await readinessOf(service), { status: 503, database: "has a full disk" })
    assert.strictEqual(await availabilityOf(service), "0")
    await service.logged(/statements fail: could not extend file\./)
    assert.deepStrictEqual(await readinessOf(service), { status: 503, database: "has a full disk" })
    // Whether a client tries again or not.
    await database.query("DROP TRIGGER refuse ON tasks")
    await eventually(() => readinessOf(service), ({ status }) => status === 200, 4000)
    assert.strictEqual(await availabilityOf(service), "1")
    assert.deepStrictEqual(await database.query("SELECT FROM tasks"), [])
  })
})

const member = (shards: ReadonlyArray<TaskShard.TaskShard>): Member => ({
  address: "a",
  instance: "i",
  version: "1",
  isSelf: true,
  startedAt: 0 as Member["startedAt"],
  seenAt: 0 as Member["seenAt"],
  isDrained: false,
  shards,
  tasks: 0,
  nextDue: null,
  lateness: 0
})

const all = Array.from({ length: TaskShard.count }, (_, shard) => shard)
let owned = all
let isAway = false
let lastSweep = 0

const layerStubs = Layer.mergeAll(
  Layer.succeed(ClusterNodes, {
    all: Effect.suspend(() =>
      isAway ? Effect.fail(new StoreUnavailable({ cause: "away" })) : Effect.succeed([member(owned)])
    ),
    request: () => Effect.succeed(false)
  }),
  Layer.effect(
    TaskOwnership,
    Effect.map(Layer.build(TaskOwnership.layerAlone), (context) => ({
      ...Context.get(context, TaskOwnership),
      shards: () => []
    }))
  ),
  Changes.layer,
  Layer.mock(TaskSweeper, { lastProgress: Effect.sync(() => lastSweep) }),
  // Without the clock of the machine, which it would provide as well.
  Layer.effect(
    NodeClock,
    Effect.map(Layer.build(NodeClock.layer()), (context) => Context.get(context, NodeClock))
  )
)

layer(Layer.provide(ReadinessSql.layer, [layerStubs, Database.layer]))("a node of a cluster", (it) => {
  const problems = Effect.flatMap(Readiness, ({ checks }) => checks).pipe(
    Effect.map((found) =>
      found.filter(({ name, problem }) => problem !== null && name !== "clock").map(({ name, problem }) =>
        `${name}: ${problem}`
      )
    )
  )

  it.effect("is not ready once shards have had no owner for longer than a takeover takes", () =>
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* problems, [])
      owned = all.slice(3)
      yield* TestClock.adjust("10 seconds")
      assert.deepStrictEqual(yield* problems, [])
      yield* TestClock.adjust("14 seconds")
      assert.includeMembers([...yield* problems], ["shards: 3 have no owner"])
      owned = all
      yield* TestClock.adjust("1 second")
      assert.notInclude((yield* problems).join(), "owner")
    }))

  it.effect("does not count an outage of the database as time without an owner", () =>
    Effect.gen(function*() {
      yield* TestClock.adjust("5 seconds")
      owned = all.slice(3)
      yield* TestClock.adjust("5 seconds")
      isAway = true
      yield* TestClock.adjust("20 seconds")
      isAway = false
      yield* TestClock.adjust("5 seconds")
      assert.notInclude((yield* problems).join(), "owner")
      yield* TestClock.adjust("20 seconds")
      assert.include((yield* problems).join(), "owner")
      owned = all
    }))

  it.effect("is not ready while its sweeps stall", () =>
    Effect.gen(function*() {
      yield* TestClock.adjust("20 seconds")
      assert.match((yield* problems).join(), /progress: no sweep for \d+ s/)
    }))
})
