import { assert, describe, it } from "vitest"
import { openDatabase } from "../kit/databases.ts"
import { hasPgBouncer, startPgBouncer } from "../kit/PgBouncer.ts"
import { diagnose, runHere, runToEnd } from "../kit/runToEnd.ts"
import { complete, ScriptedCore } from "../kit/ScriptedCore.ts"
import { eventually, freePort, internalToken, jwtSecret, mint, Service } from "../kit/Service.ts"
import { use, useDirectory } from "../kit/suite.ts"

const directory = useDirectory()

/** A new database; `url` leads through a pooler. */
const openPooled = async (mode: "session" | "transaction") => {
  const database = await openDatabase()
  const pooler = await startPgBouncer(database.directUrl, mode)
  return {
    url: pooler.url + new URL(database.url).pathname,
    directUrl: database.directUrl,
    query: database.query,
    close: async () => {
      await pooler.close()
      await database.close()
    }
  }
}

/** Creates a task and completes it on another node, if there is one, while a request waits for it. */
const completeTask = async (core: ScriptedCore, service: Service, waiting = service) => {
  const token = await mint("someone")
  const { body: { uuid } } = await service.create(token, "x")
  const run = await core.run(uuid)
  const waited = eventually(
    () => waiting.call("GET", `/api/tasks/${uuid}?wait=10`, token),
    ({ body }) => body.status === "completed"
  )
  await complete(run)
  await waited
}

const doctor = (env: Readonly<Record<string, string>>) =>
  diagnose({ JWT_SECRET: jwtSecret, INTERNAL_TOKENS: internalToken, ...env, CORE_URL: "" }, "database")

describe.skipIf(!hasPgBouncer)("a transaction pooler", async () => {
  if (!hasPgBouncer) return
  const pooled = await use(openPooled("transaction"))
  const core = await use(new ScriptedCore().listen())
  const settings = { DATABASE_URL: pooled.url, CORE_URL: core.url, DATA_DIR: directory }
  const clustered = async () => ({ ...settings, CLUSTER: "on", CLUSTER_PORT: String(await freePort()) })

  it("serves one node, which warns about statements without a timeout", async () => {
    assert.strictEqual((await runHere(["migrate"], settings)).code, 0)
    const service = await Service.start(settings)
    await completeTask(core, service)
    await service.stop()
    const warning = /statements have no timeout behind the pooler: ALTER ROLE "postgres" SET statement_timeout = '10s'/
    assert.match(service.output, warning)
    assert.match(await doctor(settings), /^warn .*behind a transaction pooler, schema is current; /)
    assert.match(await doctor(settings), warning)
    const leftover = await pooled.query(
      "SELECT FROM pg_locks JOIN pg_database ON pg_database.oid = database WHERE locktype = 'advisory' AND datname = current_database()"
    )
    assert.lengthOf(leftover, 0)
  })

  it("is refused for a cluster", async () => {
    const env = await clustered()
    const reason = /CLUSTER is on and DATABASE_URL leads to a transaction pooler.*: set DATABASE_DIRECT_URL$/
    for (const command of ["serve", "migrate"]) {
      const { code, err } = await runToEnd([command], env)
      assert.deepStrictEqual([code, err.split("\n").length], [1, 1])
      assert.match(err, reason)
    }
    assert.match(await doctor(env), reason)
    assert.match(
      await doctor({ ...env, DATABASE_DIRECT_URL: pooled.url }),
      /DATABASE_DIRECT_URL leads to a transaction pooler/
    )
  })

  it("serves a cluster with DATABASE_DIRECT_URL, of which a node takes over the tasks of a killed one", async () => {
    const start = async () => use(Service.start({ ...await clustered(), DATABASE_DIRECT_URL: pooled.directUrl }))
    const [one, other] = [await start(), await start()]
    await completeTask(core, one, other)
    const token = await mint("victim")
    const created = await Promise.all(Array.from({ length: 5 }, () => one.create(token, "x")))
    const uuids: ReadonlyArray<string> = created.map(({ body }) => body.uuid)
    for (const uuid of uuids) await core.run(uuid)
    await one.stop("SIGKILL")
    for (const uuid of uuids) {
      const again = async () => core.runs.filter(({ task_id }) => task_id === uuid)
      const [, run] = await eventually(again, ({ length }) => length > 1, 15_000)
      assert.strictEqual((await complete(run!)).status, 200)
      assert.strictEqual((await other.get(token, uuid)).body.status, "completed")
    }
    await completeTask(core, other)
    assert.strictEqual((await fetch(`${other.url}/readyz`)).status, 200)
  })
})

describe.skipIf(!hasPgBouncer)("a session pooler", async () => {
  if (!hasPgBouncer) return
  const pooled = await use(openPooled("session"))
  const core = await use(new ScriptedCore().listen())

  it("serves a node", async () => {
    const service = await Service.start({ DATABASE_URL: pooled.url, CORE_URL: core.url, DATA_DIR: directory })
    await completeTask(core, service)
    await service.stop()
    assert.notMatch(service.output, /ERROR/)
    assert.match(await doctor({ DATABASE_URL: pooled.url, DATA_DIR: directory }), /behind a session pooler/)
  })
})
