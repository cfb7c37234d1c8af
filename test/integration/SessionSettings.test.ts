/** Databases and roles whose settings are not Postgres's own. */
import { assert, describe, it, onTestFinished } from "vitest"
import { type OpenDatabase, openDatabase } from "../kit/databases.ts"
import { hasPgBouncer, startPgBouncer } from "../kit/PgBouncer.ts"
import { runHere } from "../kit/runToEnd.ts"
import { complete, interrupt, ScriptedCore, turnOf } from "../kit/ScriptedCore.ts"
import { eventually, mint, Service } from "../kit/Service.ts"
import { use } from "../kit/suite.ts"

const nameOf = ({ directUrl }: OpenDatabase) => new URL(directUrl).pathname.slice(1)

/** What operators and providers set for a database, each as far from the default as it goes. */
const unusual = [
  "default_transaction_deferrable = on",
  "DateStyle = 'SQL, DMY'",
  "IntervalStyle = sql_standard",
  "TimeZone = 'Asia/Kathmandu'",
  "bytea_output = escape",
  "standard_conforming_strings = off",
  "extra_float_digits = -15",
  "lock_timeout = '1ms'",
  "statement_timeout = '5s'",
  "idle_in_transaction_session_timeout = '1ms'",
  "idle_session_timeout = '500ms'",
  "row_security = off",
  "synchronous_commit = off",
  "array_nulls = off",
  "quote_all_identifiers = on",
  "transform_null_equals = on",
  "client_min_messages = debug1",
  "plan_cache_mode = force_custom_plan",
  "enable_nestloop = off",
  "enable_indexscan = off",
  "jit_above_cost = 0"
]

const more = { MAX_ACTIVE_TASKS: "100", WEBHOOK_ALLOW_PRIVATE: "true" }

const openUnusual = async (settings: ReadonlyArray<string>) => {
  const database = await use(openDatabase(), onTestFinished)
  for (const setting of settings) await database.query(`ALTER DATABASE ${nameOf(database)} SET ${setting}`)
  return database
}

/** Creates and ends tasks concurrently, in each way that a user and a core can, on any of the nodes. */
const useService = async (service: Service, core: ScriptedCore, rounds: number) => {
  const statuses = new Set<number>()
  const call = async (...given: Parameters<Service["call"]>) => {
    const answer = await service.call(...given)
    statuses.add(answer.status)
    assert.isBelow(answer.status, 400, `${given.slice(0, 2).join(" ")}: ${JSON.stringify(answer.body)}`)
    return answer.body
  }
  await Promise.all(Array.from({ length: 12 }, async (_, user) => {
    const token = await mint(`user-${user % 4}`)
    for (let round = 0; round < rounds; round++) {
      const body = {
        assistant_id: 1,
        input: [{ type: "text", text: "Why?" }],
        metadata: { round: String(round) },
        callback_url: `${core.url}/webhooks`,
        callback_secret: "s"
      }
      const { uuid } = await call("POST", "/api/tasks", token, body, { "idempotency-key": `${user}-${round}` })
      const path = `/api/tasks/${uuid}`
      const run = await core.run(uuid)
      const turn = { ...turnOf("asks"), metadata: { model: "m", usage: { input_tokens: 1, output_tokens: 2 } } }
      assert.strictEqual((await interrupt(run, { turn })).status, 200)
      if (round % 3 === 0) {
        await call("POST", `${path}/cancel`, token)
        await call("DELETE", path, token)
        continue
      }
      await call("POST", `${path}/tool-results`, token, { results: [{ tool_call_id: "c1", output: 1 }] })
      await complete(await core.run(uuid, run))
      await eventually(() => call("GET", `${path}?include=usage`, token), ({ status }) => status === "completed")
      await call("GET", "/api/tasks?metadata[round]=1", token)
      await call("GET", `${path}/deliveries`, token)
    }
  }))
  return [...statuses].toSorted()
}

const startCore = async () => {
  const core = await use(new ScriptedCore().listen(), onTestFinished)
  const { respond } = core
  core.respond = (request, response) =>
    request.url === "/webhooks" ? void request.resume().on("end", () => response.end()) : respond(request, response)
  return core
}

describe("a database with unusual settings", () => {
  for (const isolation of ["serializable", "repeatable read"]) {
    it(`serves tasks: ${isolation}`, async () => {
      const database = await openUnusual([...unusual, `default_transaction_isolation = '${isolation}'`])
      const core = await startCore()
      const settings = { DATABASE_URL: database.directUrl, CORE_URL: core.url, ...more }
      const service = await use(Service.start(settings), onTestFinished)
      const statuses = await useService(service, core, 9)
      assert.isEmpty(statuses.filter((status) => status >= 400), statuses.join())
      await eventually(() => database.query("SELECT FROM usage_outbox"), ({ length }) => length === 0)
      const pending = "SELECT FROM webhook_deliveries WHERE due_at IS NOT NULL"
      await eventually(() => database.query(pending), ({ length }) => length === 0)
      const token = await mint("user-1")
      const { body: { data: [task] } } = await service.call("GET", "/api/tasks?limit=1", token)
      const { body: { data: [delivery] } } = await service.call("GET", `/api/tasks/${task.uuid}/deliveries`, token)
      assert.deepStrictEqual(await database.query("SELECT DISTINCT origin FROM webhook_deliveries"), [{
        origin: core.url
      }])
      const [stored] = await database.query<{ at: string }>(
        `SELECT (extract(epoch FROM started_at) * 1000)::bigint::text AS at
        FROM webhook_attempts WHERE task_uuid = '${task.uuid}' ORDER BY revision, number`
      )
      assert.closeTo(Date.parse(delivery.attempts[0].started_at), Number(stored?.at), 1)
      await service.stop()
      assert.notMatch(service.output, /a request failed|ERROR|database is (unavailable|back)/)
      assert.match(service.output, /synchronous_commit is off: acknowledged tasks are lost/)
    }, 60_000)
  }

  it("keeps idle connections", async () => {
    const database = await openUnusual(["idle_session_timeout = '200ms'"])
    const service = await use(Service.start({ DATABASE_URL: database.directUrl, CORE_URL: "" }), onTestFinished)
    const sessions = () =>
      database.query<{ pid: number }>(
        "SELECT pid FROM pg_stat_activity WHERE application_name = 'async-task-service' AND datname = current_database() ORDER BY pid"
      )
    const before = await sessions()
    // An idle session would have ended five times meanwhile.
    await database.query("SELECT pg_sleep(1)")
    const after = await sessions()
    assert.isNotEmpty(before)
    assert.includeDeepMembers([...after], [...before])
    await service.stop()
  })

  it("without foreign keys is refused with what to write", async () => {
    const database = await openUnusual(["session_replication_role = replica"])
    const { code, err } = await runHere(["migrate"], { DATABASE_URL: database.directUrl })
    assert.strictEqual(code, 1)
    const [, statement = ""] = /session_replication_role is replica.*: as a superuser write (.*)$/.exec(err) ?? []
    await database.query(statement)
    assert.strictEqual((await runHere(["migrate"], { DATABASE_URL: database.directUrl })).code, 0)
  })
})

describe.skipIf(!hasPgBouncer)("a pooler, whose clients cannot choose an isolation", () => {
  for (const mode of ["session", "transaction"] as const) {
    it(`is refused with what to write, after which it serves tasks: ${mode}`, async () => {
      const database = await openUnusual([
        "default_transaction_isolation = serializable",
        "standard_conforming_strings = off"
      ])
      const pooler = await use(startPgBouncer(database.directUrl, mode), onTestFinished)
      const core = await startCore()
      const url = `${pooler.url}/${nameOf(database)}`
      const { code, err } = await runHere(["migrate"], { DATABASE_URL: url })
      assert.strictEqual(code, 1)
      const [, statement = ""] = /default_transaction_isolation is serializable.*: write (.*), and let/.exec(err) ?? []
      await database.query(statement)
      const fresh = await use(startPgBouncer(database.directUrl, mode), onTestFinished)
      const settings = { DATABASE_URL: `${fresh.url}/${nameOf(database)}`, CORE_URL: core.url, ...more }
      const service = await use(Service.start(settings), onTestFinished)
      const statuses = await useService(service, core, 3)
      assert.isEmpty(statuses.filter((status) => status >= 400), statuses.join())
      await service.stop()
      assert.notMatch(service.output, /a request failed|ERROR/)
    })
  }
})
