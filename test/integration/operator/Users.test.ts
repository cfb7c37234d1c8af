/** One user as a whole: the view, the limit, the export and the erasure, and that no table of users is forgotten. */
import { assert, describe, it, onTestFinished } from "vitest"
import { callRpc } from "../../kit/callRpc.ts"
import { startCluster } from "../../kit/ClusterSystem.ts"
import { complete, interrupt, report, turnOf } from "../../kit/ScriptedCore.ts"
import { eventually, mint, type Service } from "../../kit/Service.ts"
import { use } from "../../kit/suite.ts"
import { startSystem, type System } from "../../kit/System.ts"
import { TokenIssuer } from "../../kit/TokenIssuer.ts"
import { operatorCalls } from "./operatorCalls.ts"

const issuer = await use(new TokenIssuer().listen())
const settings = {
  TOKEN_URL: issuer.url,
  OPERATOR_CONTENT: "on",
  INTERNAL_TOKEN_NAMES: "ana",
  OPERATOR_READ_TOKENS: "operator-read-token-of-the-tests"
}
const system = await use(startSystem(settings))
const { database, service } = system
const { get, post } = operatorCalls(service)

const userPath = (sub: string, path = "") => `/users/${encodeURIComponent(sub)}${path}`
const put = (path: string, body: unknown, token?: string) =>
  service.call("PUT", `/internal/operator${path}`, token ?? "internal-token-of-the-tests", body)

const create = async (of: System, sub: string, more: object = {}, from: Service = of.service) => {
  const { body, status } = await from.create(await mint(sub), "x", more)
  assert.strictEqual(status, 201, JSON.stringify(body))
  return { uuid: String(body.uuid), run: await of.runOf(body.uuid) }
}

const ended = (id: string, calls = operatorCalls(service)) =>
  eventually(async () => (await calls.get(`/bulk/${id}`)).body, ({ state }) => state !== "running", 30_000)

describe("the view of a user", () => {
  it("counts what is kept, and has no content", async () => {
    const sub = "a/b c?d"
    const { run } = await create(system, sub)
    await interrupt(run, { turn: turnOf("canary") })
    const { body, status } = await get(userPath(sub))
    assert.strictEqual(status, 200)
    assert.deepStrictEqual([body.sub, body.slots, body.interrupted, body.running, body.waiting], [
      sub,
      { used: 1, maximum: 5 },
      1,
      0,
      0
    ])
    assert.isAbove(body.stored_bytes.bytes, 100)
    assert.deepStrictEqual(body.schedules, { active: 0, paused: 0, ended: 0 })
    assert.strictEqual(body.usage.tasks, 0)
    assert.notInclude(JSON.stringify(body), "canary")
    assert.strictEqual((await get(userPath("nobody"))).body.slots.used, 0)
    assert.strictEqual((await get(userPath("x".repeat(300)))).status, 404)
  })
})

describe("the limit of a user", () => {
  it("holds for the next create, is audited, and null is the default again", async () => {
    const sub = "a service"
    assert.strictEqual((await put(userPath(sub, "/limits"), { max_active_tasks: 7 })).status, 200)
    const { slots } = (await get(userPath(sub))).body
    assert.strictEqual(slots.maximum, 7)
    for (let index = 0; index < 7; index++) await create(system, sub)
    const refused = await service.create(await mint(sub), "x")
    assert.strictEqual(refused.status, 429)
    assert.include(refused.body.message, "7")
    assert.deepStrictEqual((await put(userPath(sub, "/limits"), { max_active_tasks: null })).body, {
      sub,
      max_active_tasks: null
    })
    assert.include((await service.create(await mint(sub), "x")).body.message, "5")
    for (const wrong of [0, -1, 1.5, "7", 10_001, undefined]) {
      const { body, status } = await put(userPath(sub, "/limits"), { max_active_tasks: wrong })
      assert.deepStrictEqual([status, Object.keys(body.errors)], [422, ["max_active_tasks"]], String(wrong))
    }
    assert.strictEqual(
      (await put(userPath(sub, "/limits"), { max_active_tasks: 1 }, settings.OPERATOR_READ_TOKENS)).status,
      403
    )
    const { data } = (await get(`/audit?sub=${encodeURIComponent(sub)}`)).body
    assert.deepStrictEqual(
      data.map((line: Record<string, unknown>) => [line["action"], line["reason"], line["operator"]]),
      [
        ["limits", "max_active_tasks: null", "ana"],
        ["limits", "max_active_tasks: 7", "ana"]
      ]
    )
    // Lower ones hold too.
    await put(userPath("a small one", "/limits"), { max_active_tasks: 1 })
    await create(system, "a small one")
    assert.strictEqual((await service.create(await mint("a small one"), "x")).status, 429)
  })
})

describe("the export of a user", () => {
  it("has everything but secrets, one object a line", async () => {
    const sub = "exported"
    const secret = "canary-of-the-secret"
    const { run, uuid } = await create(system, sub, {
      callback_url: "http://127.0.0.1:9/",
      callback_secret: secret,
      metadata: { tenant: "acme" }
    })
    await complete(run, "the result")
    for (let index = 0; index < 3; index++) await create(system, sub)
    const schedule = await service.call("POST", "/api/schedules", await mint(sub), {
      name: "Daily",
      type: "cron",
      cron: "0 8 * * *",
      timezone: "UTC",
      task: { assistant_id: 1, input: [{ type: "text", text: "scheduled" }] }
    })
    assert.strictEqual(schedule.status, 201, JSON.stringify(schedule.body))
    const response = await fetch(`${service.url}/internal/operator${userPath(sub, "/export")}`, {
      headers: { authorization: "Bearer internal-token-of-the-tests" }
    })
    assert.deepStrictEqual([response.status, response.headers.get("content-type")], [200, "application/x-ndjson"])
    const text = await response.text()
    const lines = text.trim().split("\n").map((line) => JSON.parse(line))
    assert.deepStrictEqual([lines[0].type, lines[0].sub, lines.at(-1).type], ["export", sub, "end"])
    assert.strictEqual(lines.at(-1).lines, lines.length - 2)
    const tasks = lines.filter(({ type }) => type === "task")
    assert.lengthOf(tasks, 4)
    const task = tasks.find((task) => task.uuid === uuid)
    assert.deepStrictEqual(task.turn, turnOf("the result"))
    assert.deepStrictEqual(task.metadata, { tenant: "acme" })
    assert.deepStrictEqual(task.request.input, [{ type: "text", text: "x" }])
    assert.deepStrictEqual(task.events.map(({ type }: { type: string }) => type), ["Completed"])
    assert.strictEqual(task.deliveries[0].status, "completed")
    assert.strictEqual(lines.find(({ type }) => type === "schedule").task.input[0].text, "scheduled")
    assert.notInclude(text, secret)
    assert.notMatch(text, /user_token|v2\.[0-9a-f]{8}\./)
    const path = `/internal/operator${userPath(sub, "/export")}`
    const closed = await service.call("GET", path, settings.OPERATOR_READ_TOKENS)
    assert.strictEqual(closed.status, 403)
    const [line] = (await get("/audit?action=export")).body.data
    assert.deepStrictEqual([line.sub, line.outcome], [sub, "done"])
  })
})

/** Columns that name users although they are no `sub`, and tables whose rows of a user stay: with the reason. */
const kept: Readonly<Record<string, string>> = {
  token_revocations: "keeps tokens out that have not expired",
  operator_actions: "has a pseudonym",
  operator_bulk: "has a pseudonym"
}

describe("the erasure of a user", () => {
  it("leaves nothing of the user in any table, and can be repeated", async () => {
    const sub = "erased \"user\" 7f3a9"
    const other = await create(system, "another user")
    const { run } = await create(system, sub, { callback_url: "http://127.0.0.1:9/", metadata: { a: "b" } })
    await report(run, { type: "processing" })
    const files = await create(system, sub, {
      input: [{ type: "file", file: { id: "file-7", name: "a.txt", mime_type: "text/plain" } }]
    })
    await complete(files.run)
    await service.call("POST", "/api/schedules", await mint(sub), {
      name: "Daily",
      type: "cron",
      cron: "0 8 * * *",
      timezone: "UTC",
      task: { assistant_id: 1, input: [{ type: "text", text: "scheduled" }] }
    })
    await put(userPath(sub, "/limits"), { max_active_tasks: 9 })
    await service.create(await mint(sub), "x", {})
    const { uuid } = await create(system, sub)
    await callRpc(service, "Tasks.withdraw", { sub, uuid, body: { reason: "the words of 7f3a9" } })
    // A row in every table that names users, also in those that are added later.
    const columns = await database.query(`SELECT c.relname AS table, a.attname AS column FROM pg_attribute a
      JOIN pg_class c ON c.oid = attrelid JOIN pg_namespace n ON n.oid = relnamespace
      WHERE relkind = 'r' AND nspname = 'public' AND attname IN ('sub', 'user_id', 'owner_sub') AND NOT attisdropped ORDER BY 1`) as unknown as ReadonlyArray<
      { readonly table: string; readonly column: string }
    >
    const tables = columns.map(({ table }) => table)
    assert.includeMembers(tables, [
      "tasks",
      "schedules",
      "usage_hours",
      "usage_outbox",
      "a2a_tasks",
      "stored_bytes",
      "user_limits"
    ])
    for (const { column, table } of columns.filter(({ table }) => !(table in kept))) {
      await insertRow(table, column, sub, files.uuid)
      const [{ count }] = await database.query(
        `SELECT count(*)::int AS count FROM ${table} WHERE ${column} = '${sub}'`
      ) as [{ count: number }]
      assert.isAbove(count, 0, `a row of ${table} could not be made: add its columns to insertRow`)
    }
    for (const filter of [{ sub }, { q: sub }]) {
      await ended((await post("/bulk", { action: "delete", filter: { ...filter, assistant: 99 } })).body.id)
    }
    const token = await mint(sub)
    assert.strictEqual((await post(userPath(sub, "/erase"), { confirm: "somebody" })).status, 422)
    assert.strictEqual((await post(userPath(sub, "/erase"), {})).status, 422)
    const { body: { id, matched }, status } = await post(userPath(sub, "/erase"), { confirm: sub, reason: "asked for" })
    assert.strictEqual(status, 202)
    assert.isAtLeast(matched, 3)
    assert.strictEqual((await service.call("GET", "/api/tasks", token)).status, 401)
    const found = await ended(id)
    assert.deepStrictEqual([found.state, found.action, found.failed], ["done", "erase", 0])
    assert.deepStrictEqual(found.files, ["file-7"])
    await system.core.stopped(run)
    const all = await database.query(
      `SELECT relname AS table FROM pg_class JOIN pg_namespace n ON n.oid = relnamespace WHERE relkind = 'r' AND nspname = 'public'`
    ) as unknown as ReadonlyArray<{ readonly table: string }>
    for (const { table } of all) {
      const rows = await database.query(`SELECT * FROM ${table} AS row WHERE strpos(row::text, '7f3a9') > 0`)
      if (table === "token_revocations") assert.lengthOf(rows, 1)
      else {assert.deepStrictEqual(
          rows,
          [],
          `${table} still has rows of the user: add it to the userData of its extension`
        )}
    }
    const uuids = await database.query(`SELECT c.relname AS table, a.attname AS column FROM pg_attribute a
      JOIN pg_class c ON c.oid = attrelid JOIN pg_namespace n ON n.oid = relnamespace
      WHERE relkind = 'r' AND nspname = 'public' AND attname IN ('task_uuid', 'uuid') AND NOT attisdropped ORDER BY 1`) as unknown as ReadonlyArray<
      { readonly table: string; readonly column: string }
    >
    for (const { column, table } of uuids) {
      const rows = await database.query(`SELECT FROM ${table} WHERE ${column} = '${files.uuid}'`)
      assert.lengthOf(rows, 0, `${table} still has rows of a task of the user`)
    }
    assert.match(found.filter.sub, /^hmac:/)
    const lines = (await get(`/audit?sub=${encodeURIComponent(sub)}`)).body.data
    assert.includeMembers(lines.map(({ action }: { action: string }) => action), ["erase", "cancel", "limits"])
    assert.isTrue(lines.every((line: { sub: string }) => line.sub === found.filter.sub))
    assert.strictEqual((await get(`/tasks/${other.uuid}`)).body.sub, "another user")
    const again = await post(userPath(sub, "/erase"), { confirm: sub })
    assert.strictEqual(again.body.matched, 0)
    assert.strictEqual((await ended(again.body.id)).state, "done")
    assert.strictEqual((await post(`/bulk/${again.body.id}/stop`)).status, 409)
  }, 60_000)

  it("ends with two nodes and live tasks of both", async () => {
    const cluster = await use(startCluster(settings), onTestFinished)
    const second = await use(cluster.startNode(), onTestFinished)
    const sub = "of two nodes"
    const tasks = []
    for (let index = 0; index < 4; index++) {
      tasks.push(await create(cluster, sub, {}, index % 2 === 0 ? cluster.service : second))
    }
    await report(tasks[0]!.run, { type: "processing" })
    await interrupt(tasks[1]!.run)
    const calls = operatorCalls(cluster.service)
    const { body: { id } } = await calls.post(userPath(sub, "/erase"), { confirm: sub })
    const found = await ended(id, operatorCalls(second))
    assert.deepStrictEqual([found.state, found.done], ["done", 4])
    assert.deepStrictEqual(await cluster.database.query("SELECT FROM tasks"), [])
    for (const { run } of [tasks[0]!, tasks[2]!, tasks[3]!]) await cluster.core.stopped(run)
  }, 120_000)
})

/** A row of a table with the user, and of the task; other columns have any value of their type. */
const insertRow = async (table: string, column: string, sub: string, task: string) => {
  const found = await database.query(
    `SELECT attname AS name, format_type(atttypid, atttypmod) AS type, attnotnull AS needed,
      atthasdef AS defaulted FROM pg_attribute WHERE attrelid = '${table}'::regclass AND attnum > 0 AND NOT attisdropped`
  ) as unknown as ReadonlyArray<
    { readonly name: string; readonly type: string; readonly needed: boolean; readonly defaulted: boolean }
  >
  const values: Record<string, string> = {
    uuid: "gen_random_uuid()",
    text: "'x'",
    integer: "1",
    bigint: "1",
    boolean: "false",
    "timestamp with time zone": "now() + interval '1 day'"
  }
  const special: Record<string, string> = {
    task_uuid: `'${task}'`,
    state: "'ended'",
    ended_at: "now()",
    status: "'completed'",
    completed_at: "now()"
  }
  const given = found.filter(({ defaulted, name, needed }) =>
    name === column || (needed && !defaulted) || name in special
  )
  const valueOf = ({ name, type }: typeof given[number]) =>
    name === column ? `'${sub}'` : special[name] ?? values[type] ?? "NULL"
  await database.query(`INSERT INTO ${table} (${given.map(({ name }) => name).join(", ")})
    VALUES (${given.map(valueOf).join(", ")}) ON CONFLICT DO NOTHING`)
}

describe("the audit", () => {
  it("has what was changed by calls of other services", async () => {
    const { run, uuid } = await create(system, "of a call")
    await interrupt(run)
    const answer = await callRpc(service, "Tasks.cancel", { sub: "of a call", uuid, body: { reason: "its own" } })
    assert.strictEqual(answer.status, "canceled", JSON.stringify(answer))
    const running = await create(system, "of a call")
    const other = await create(system, "of a call")
    await callRpc(service, "Tasks.withdraw", { sub: "of a call", uuid: running.uuid.toUpperCase() })
    await callRpc(service, "Tasks.withdraw", { sub: "of a call", uuid: other.uuid, body: { reason: "fraud" } })
    await callRpc(service, "Tokens.revoke", { revocation: { sub: "of a call" } })
    assert.strictEqual(
      (await service.call("POST", "/internal/tokens/revoke", "internal-token-of-the-tests", { jti: "one" })).status,
      204
    )
    const { data } = (await get(`/audit?sub=${encodeURIComponent("of a call")}`)).body
    assert.deepStrictEqual(
      data.map((
        line: Record<string, unknown>
      ) => [line["action"], line["via"], line["operator"], line["target"], line["reason"]]),
      [["revoke", "rpc", "ana", null, null], ["withdraw", "rpc", "ana", other.uuid, "fraud"], [
        "withdraw",
        "rpc",
        "ana",
        running.uuid,
        null
      ], [
        "cancel",
        "rpc",
        "ana",
        uuid,
        null
      ]]
    )
    for (const task of [uuid, uuid.toUpperCase()]) {
      const { data: ofTask } = (await get(`/audit?task=${task}`)).body
      assert.deepStrictEqual(ofTask.map(({ target }: { readonly target: string }) => target), [uuid])
    }
    await system.database.query(
      "INSERT INTO operator_actions (operator, via, action, target, outcome) VALUES ('ana', 'api', 'drain', 'x', 'refused')"
    )
    assert.deepStrictEqual((await get("/audit?task=x")).body.data, [])
    const [revoked] = (await get("/audit?action=revoke&limit=1")).body.data
    assert.deepStrictEqual([revoked.via, revoked.target], ["internal", "jti:one"])
    const pages = await get("/audit?limit=2")
    const next = await get(`/audit?limit=2&cursor=${pages.body.next}`)
    assert.notStrictEqual(next.body.data[0].id, pages.body.data[1].id)
    assert.strictEqual((await get("/audit?action=X!")).status, 422)
    assert.strictEqual((await get("/audit?user=x")).status, 422)
    assert.strictEqual((await get("/audit?operator=nobody")).body.data.length, 0)
  })
})
