/** Bulk actions: what they select, that each task is changed once whatever dies, and how they treat users. */
import { assert, describe, it, onTestFinished } from "vitest"
import { insertFailed } from "../../kit/operator/manyTasks.ts"
import { complete, report } from "../../kit/ScriptedCore.ts"
import { WebhookTarget } from "../../kit/ScriptedService.ts"
import { eventually, mint, Service } from "../../kit/Service.ts"
import { use } from "../../kit/suite.ts"
import { startSystem } from "../../kit/System.ts"
import { TokenIssuer } from "../../kit/TokenIssuer.ts"
import { operatorCalls } from "./operatorCalls.ts"

const issuer = await use(new TokenIssuer().listen())
const target = await use(new WebhookTarget().listen())
const readToken = "operator-read-token-of-the-tests"
const system = await use(startSystem({
  TOKEN_URL: issuer.url,
  WEBHOOK_ALLOW_PRIVATE: "true",
  INTERNAL_TOKEN_NAMES: "ana",
  OPERATOR_READ_TOKENS: readToken,
  MAX_ACTIVE_TASKS: "20"
}))
const { database, service } = system
const { get, post } = operatorCalls(service)

const create = async (sub: string, more: object = {}) => {
  const { body } = await service.create(await mint(sub), "x", more)
  return { uuid: String(body.uuid), run: await system.runOf(body.uuid) }
}

const start = async (action: string, filter: object, more: object = {}) => {
  const { body, status } = await post("/bulk", { action, filter, rate: 1000, ...more })
  assert.strictEqual(status, 202, JSON.stringify(body))
  return body as { readonly id: string; readonly matched: number }
}

const ended = (id: string, calls = operatorCalls(service), timeout = 20_000) =>
  eventually(async () => (await calls.get(`/bulk/${id}`)).body, ({ state }) => state !== "running", timeout)

describe("a dry run", () => {
  it("counts and shows what matches, and changes nothing", async () => {
    const tasks = []
    for (let index = 0; index < 3; index++) {
      tasks.push(await create("dry", { metadata: { tenant: "acme", n: String(index) } }))
    }
    const filter = { sub: "dry", label: { tenant: "acme" } }
    const { body, status } = await post("/bulk", { action: "cancel", filter, dry_run: true })
    assert.strictEqual(status, 200)
    assert.strictEqual(body.matched, 3)
    assert.deepStrictEqual(
      body.sample.map(({ uuid }: { uuid: string }) => uuid),
      tasks.map(({ uuid }) => uuid).toReversed()
    )
    assert.notStrictEqual((await get(`/tasks/${tasks[0]!.uuid}`)).body.status, "canceled")
    const one = { action: "cancel", filter: { ...filter, label: "n=1" }, dry_run: true }
    assert.strictEqual((await post("/bulk", one)).body.matched, 1)
    assert.strictEqual(
      (await post("/bulk", { ...one, filter: { ids: tasks.map(({ uuid }) => uuid) } })).body.matched,
      3
    )
    assert.strictEqual((await post("/bulk", { ...one, filter: { sub: "dry", assistant: 2 } })).body.matched, 0)
    assert.strictEqual((await post("/bulk", { ...one, action: "rerun", filter: { sub: "dry" } })).body.matched, 0)
  })

  it("refuses what it does not know, by the field", async () => {
    const refused = async (body: object, field: string) => {
      const answer = await post("/bulk", body)
      assert.strictEqual(answer.status, 422, JSON.stringify(body))
      assert.deepStrictEqual(Object.keys(answer.body.errors), [field], JSON.stringify(answer.body))
    }
    await refused({ filter: {} }, "action")
    await refused({ action: "cancel" }, "filter")
    await refused({ action: "burn", filter: {} }, "action")
    await refused({ action: "cancel", filter: { user: "x" } }, "filter.user")
    await refused({ action: "cancel", filter: { status: "failed" } }, "filter.status")
    await refused({ action: "rerun", filter: { status: "pending" } }, "filter.status")
    await refused({ action: "delete", filter: { status: "gone" } }, "filter.status")
    await refused({ action: "cancel", filter: { error: "x" } }, "filter.error")
    await refused({ action: "delete", filter: { ids: ["x"] } }, "filter.ids")
    await refused({ action: "delete", filter: { ids: [] } }, "filter.ids")
    await refused({ action: "delete", filter: { from: "yesterday" } }, "filter.from")
    await refused({ action: "delete", filter: { label: { a: 1 } } }, "filter.label")
    await refused({ action: "delete", filter: { assistant: "1" } }, "filter.assistant")
    await refused({ action: "delete", filter: { schedule: "x" } }, "filter.schedule")
    await refused({ action: "redeliver", filter: { assistant: 1 } }, "filter.assistant")
    await refused({ action: "cancel", filter: {}, rate: 0 }, "rate")
    await refused({ action: "cancel", filter: {}, rate: 1001 }, "rate")
    await refused({ action: "cancel", filter: {}, reason: "x".repeat(1001) }, "reason")
    assert.strictEqual((await post("/bulk", { action: "cancel", filter: {} }, readToken)).status, 403)
    assert.strictEqual((await get("/bulk", readToken)).status, 200)
    assert.strictEqual((await get("/bulk/x")).status, 404)
    assert.strictEqual((await get("/bulk/019ac5d2-8001-7b10-a5f3-90b1c2d3e4f5")).status, 404)
  })
})

describe("a bulk action", () => {
  it("counts as skipped what has ended before its turn", async () => {
    const tasks = await Promise.all(Array.from({ length: 4 }, () => create("sooner")))
    const { id } = await start("cancel", { sub: "sooner" }, { rate: 1 })
    for (const { run } of tasks) await complete(run)
    const { done, failed, matched, skipped } = await ended(id)
    assert.deepStrictEqual([matched, done + skipped, failed], [4, 4, 0])
    assert.isAbove(skipped, 0)
  })

  it("cancels what has not ended, stops the runs, and says by whom on each task", async () => {
    const tasks = await Promise.all(Array.from({ length: 5 }, () => create("canceled")))
    await report(tasks[0]!.run, { type: "processing" })
    await complete(tasks[4]!.run)
    const { id, matched } = await start("cancel", { sub: "canceled" }, { reason: "A bad deploy." })
    assert.strictEqual(matched, 4)
    const found = await ended(id)
    assert.deepStrictEqual([found.state, found.done, found.skipped, found.failed], ["done", 4, 0, 0])
    assert.deepStrictEqual([found.by, found.reason, found.filter.sub], ["ana", "A bad deploy.", "canceled"])
    const { body } = await get(`/tasks/${tasks[1]!.uuid}`)
    assert.deepStrictEqual([body.status, body.error], ["canceled", "A bad deploy."])
    assert.strictEqual(body.ended_by.by, "operator")
    assert.strictEqual(body.ended_by.name, "ana")
    assert.strictEqual(body.ended_by.bulk_id, id)
    const path = `/api/tasks/${tasks[1]!.uuid}`
    const { body: own } = await service.call("GET", `${path}?include=ended_by`, await mint("canceled"))
    assert.deepStrictEqual(own.ended_by, { by: "operator", at: body.ended_by.at })
    assert.notProperty((await service.call("GET", path, await mint("canceled"))).body, "ended_by")
    for (const { run } of tasks.slice(0, 4)) await system.core.stopped(run)
    const lines = (await get(`/audit?task=${tasks[1]!.uuid}`)).body.data
    assert.deepStrictEqual(
      lines.map((line: Record<string, unknown>) => [line["action"], line["operator"], line["via"], line["bulk_id"]]),
      [
        ["cancel", "ana", "bulk", id]
      ]
    )
    const [began] = (await get("/audit?action=bulk_cancel&sub=canceled")).body.data
    assert.deepStrictEqual([began.target, began.outcome, began.reason], [id, "done", "A bad deploy."])
  })

  it("deletes ended tasks, and redelivers failed webhooks", async () => {
    let status = 500
    target.script = (_, response) => response.writeHead(status).end()
    const { run, uuid } = await create("deleted", { callback_url: target.url })
    await complete(run)
    await create("deleted")
    const attempted = `task_uuid = '${uuid}' AND attempts = 1 AND NOT sending`
    await eventually(
      () => database.query(`UPDATE webhook_deliveries SET due_at = NULL WHERE ${attempted} RETURNING 1`),
      ({ length }) => length === 1
    )
    status = 204
    const again = await start("redeliver", { sub: "deleted", origin: new URL(target.url).origin })
    assert.strictEqual(again.matched, 1)
    assert.strictEqual((await ended(again.id)).done, 1)
    await eventually(
      async () => (await get(`/tasks/${uuid}`)).body.deliveries[0].state,
      (state) => state === "delivered"
    )
    const { id, matched } = await start("delete", { sub: "deleted" })
    assert.strictEqual(matched, 1)
    assert.strictEqual((await ended(id)).done, 1)
    assert.strictEqual((await get(`/tasks/${uuid}`)).status, 404)
  })

  it("stops, and says that it has", async () => {
    await insertFailed(database, 50, 1, "stopped")
    const { id } = await start("delete", { sub: "stopped-0" }, { rate: 1 })
    const { body, status } = await post(`/bulk/${id}/stop`)
    assert.deepStrictEqual([status, body.state], [200, "stopped"])
    assert.strictEqual((await post(`/bulk/${id}/stop`)).body.code, "bulk_not_running")
    const [{ count }] = await database.query("SELECT count(*)::int AS count FROM tasks WHERE sub = 'stopped-0'") as [
      { count: number }
    ]
    assert.isAbove(count, 40)
    assert.strictEqual((await get("/bulk")).body.data[0].id, id)
  })
})

describe("a rerun of many", () => {
  it("takes one slot of a user at a time, never the last free one, and holds nobody up", async () => {
    await insertFailed(database, 6, 2, "rerun")
    for (let index = 0; index < 19; index++) await create("rerun-1")
    const before = system.core.runs.length
    const { id, matched } = await start("rerun", { status: "failed", q: "rerun-" }, { reason: "again" })
    assert.strictEqual(matched, 6)
    const runsOf = (sub: string) =>
      system.core.runs.slice(before).filter(({ user }) => (user as { sub: string }).sub === sub)
    for (let index = 0; index < 3; index++) {
      await eventually(async () => runsOf("rerun-0").length, (count) => count === index + 1)
      await complete(runsOf("rerun-0")[index]!)
    }
    assert.lengthOf(runsOf("rerun-1"), 0)
    assert.strictEqual((await get(`/bulk/${id}`)).body.state, "running")
    const first = system.core.runs.findLast(({ user }) => (user as { sub: string }).sub === "rerun-1")!
    await complete(first)
    await eventually(async () => runsOf("rerun-1").length, (count) => count === 1)
    assert.strictEqual((await post(`/bulk/${id}/stop`)).status, 200)
    // A rerun that is left behind would keep its user out of all later actions.
    assert.deepStrictEqual(await database.query("SELECT FROM operator_reruns"), [])
    const { body } = await get("/tasks?sub=rerun-0&status=completed")
    assert.lengthOf(body.data, 3)
    const [line] = (await get(`/audit?action=rerun&operator=ana`)).body.data
    assert.strictEqual(line.bulk_id, id)
  })

  it("is refused without fresh tokens of users", async () => {
    const { TOKEN_URL: _, ...settings } = system.settings as Record<string, string>
    const other = operatorCalls(await use(Service.start(settings), onTestFinished))
    const { body, status } = await other.post("/bulk", { action: "rerun", filter: {}, dry_run: true })
    assert.deepStrictEqual([status, body.code, Object.keys(body.errors)], [422, "no_fresh_tokens", ["action"]])
  })
})

describe("a step that takes longer than the lease of its action", () => {
  it("is not begun again, by this node or another one", async () => {
    await insertFailed(database, 100, 1, "slow")
    // Four at a time: the page of 100 takes 12.5 s, and the lease 10 s.
    await database.query(
      `CREATE FUNCTION sleep_for_test() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.5); RETURN OLD; END $$`
    )
    await database.query(
      "CREATE TRIGGER slow BEFORE DELETE ON tasks FOR EACH ROW WHEN (OLD.sub = 'slow-0') EXECUTE FUNCTION sleep_for_test()"
    )
    await use(Service.start(system.settings), onTestFinished)
    const { id } = await start("delete", { sub: "slow-0" })
    const found = await ended(id, undefined, 60_000)
    assert.deepStrictEqual([found.state, found.done, found.skipped, found.failed], ["done", 100, 0, 0])
    // A repeated step finds no task, and does not know its user.
    const lines = await database.query(
      `SELECT count(DISTINCT target)::int AS targets, count(*)::int AS lines FROM operator_actions
      WHERE bulk_id = '${id}' AND action = 'delete' AND sub = 'slow-0'`
    )
    assert.deepStrictEqual(lines, [{ targets: 100, lines: 100 }])
  }, 120_000)
})

describe("kill -9 in the middle", () => {
  it.concurrent("changes each task exactly once", async ({ onTestFinished }) => {
    const users = 40
    const own = await use(startSystem({ TOKEN_URL: issuer.url, INTERNAL_TOKEN_NAMES: "ana" }), onTestFinished)
    await insertFailed(own.database, 400, users, "killed")
    const calls = operatorCalls(own.service)
    // Each run ends at once.
    own.core.onStart = (run) => {
      void complete(run).catch(() => {})
      return 202
    }
    const { body: { id, matched } } = await calls.post("/bulk", {
      action: "rerun",
      filter: { status: "failed" },
      rate: 100
    })
    assert.strictEqual(matched, 400)
    await eventually(async () => (await calls.get(`/bulk/${id}`)).body.done, (count) => count > 30)
    own.service.signal("SIGKILL")
    const again = await use(Service.start(own.settings), onTestFinished)
    const found = await ended(id, operatorCalls(again), 60_000)
    assert.deepStrictEqual([found.state, found.done, found.skipped, found.failed], ["done", 400, 0, 0])
    const created = await own.database.query(
      `SELECT left(request, 60) AS request, count(*)::int AS count FROM task_requests
      WHERE request LIKE '{"repeats":%' GROUP BY 1`
    )
    assert.lengthOf(created, 400)
    assert.deepStrictEqual(new Set(created.map((row) => Object.values(row)[1])), new Set([1]))
    assert.deepStrictEqual(await own.database.query("SELECT FROM operator_reruns"), [])
  }, 120_000)

  it.concurrent("cancels each task once", async ({ onTestFinished }) => {
    const own = await use(startSystem({ MAX_ACTIVE_TASKS: "1000" }), onTestFinished)
    const token = await mint("many")
    await Promise.all(Array.from({ length: 200 }, () => own.service.create(token, "x")))
    const calls = operatorCalls(own.service)
    const { body: { id, matched } } = await calls.post("/bulk", { action: "cancel", filter: {}, rate: 100 })
    assert.strictEqual(matched, 200)
    await eventually(
      () => own.database.query("SELECT FROM tasks WHERE status = 'canceled'"),
      ({ length }) => length > 20
    )
    own.service.signal("SIGKILL")
    const again = await use(Service.start(own.settings), onTestFinished)
    const found = await ended(id, operatorCalls(again), 60_000)
    assert.deepStrictEqual([found.state, found.done, found.skipped, found.failed], ["done", 200, 0, 0])
    const lines = await own.database.query(
      `SELECT target FROM operator_actions WHERE action = 'cancel' AND bulk_id = '${id}'`
    )
    assert.strictEqual(new Set(lines.map((row) => Object.values(row)[0])).size, 200)
    assert.lengthOf(lines, 200)
  }, 120_000)
})
