/** The operator interface over HTTP: what it shows, what it never shows, and what it changes. */
import { assert, describe, it, onTestFinished } from "vitest"
import { complete, interrupt, report } from "../../kit/ScriptedCore.ts"
import { WebhookTarget } from "../../kit/ScriptedService.ts"
import { eventually, internalToken, mint, Service } from "../../kit/Service.ts"
import { use } from "../../kit/suite.ts"
import { startSystem } from "../../kit/System.ts"
import { operatorCalls } from "./operatorCalls.ts"
import { operatorPaths } from "./operatorPaths.ts"

const readToken = "operator-read-token-of-the-tests"
const target = await use(new WebhookTarget().listen())
const system = await use(
  startSystem({
    OPERATOR_READ_TOKENS: readToken,
    WEBHOOK_ALLOW_PRIVATE: "true",
    MAX_ACTIVE_TASKS: "50"
  })
)
const { service } = system
const user = await mint("ann")

const start = (settings: Readonly<Record<string, string>>) =>
  use(Service.start({ ...system.settings, ...settings }), onTestFinished)

const { get, post } = operatorCalls(service)

const create = async (more: object = {}) => {
  const { body } = await service.create(user, "x", more)
  return { uuid: String(body.uuid), run: await system.runOf(body.uuid) }
}

describe("what operators see", () => {
  it("has no secret, no content and no path of a callback", async () => {
    const canary = "canary-3f9c"
    const { run, uuid } = await create({
      callback_url: `${target.url}/${canary}?key=${canary}`,
      callback_secret: canary,
      metadata: { note: canary },
      input: [{ type: "text", text: canary }]
    })
    // Postgres cannot decode the texts of these arguments.
    const calls = [{ id: "c1", name: "look", arguments: { key: canary, "\0": "\ud800" } }]
    await interrupt(run, {
      state: { at: canary },
      tool_calls: calls,
      turn: { output: [], messages: [canary], metadata: {} }
    })
    for (const path of [...operatorPaths, `/tasks/${uuid}`]) {
      const { body, status } = await get(path)
      assert.strictEqual(status, 200, path)
      const text = JSON.stringify(body)
      assert.notInclude(text, canary, path)
      assert.notInclude(text, user, path)
    }
    const { body: task } = await get(`/tasks/${uuid}`)
    assert.deepStrictEqual([task.sub, task.status, task.callback_origin], ["ann", "interrupted", target.url])
    assert.deepStrictEqual(task.pending_tools, ["look"])
    assert.deepStrictEqual(task.events.map(({ type }: { type: string }) => type), ["Created", "Interrupted"])
    assert.deepStrictEqual(task.waiting_on.party, "client")
    assert.isAbove(task.bytes.turn, 10)
    assert.strictEqual((await get(`/tasks/${uuid}/content`)).status, 403)
    const open = await start({ OPERATOR_CONTENT: "on" })
    const content = await open.call("GET", `/internal/operator/tasks/${uuid}/content`, internalToken)
    assert.deepStrictEqual(content.body, {
      turn: { output: [], messages: [canary], metadata: {} },
      pending_tool_calls: calls
    })
    await open.logged(/an operator read the content of a task/)
    assert.strictEqual((await open.call("GET", `/internal/operator/tasks/${uuid}/content`, readToken)).status, 403)
  })

  it("is found page by page, and invalid queries are 422", async () => {
    await create()
    await create()
    const { body } = await get("/tasks?limit=1&sub=ann")
    assert.isTrue(body.complete)
    const next = await get(`/tasks?limit=1&sub=ann&cursor=${body.next}`)
    assert.notStrictEqual(next.body.data[0].uuid, body.data[0].uuid)
    for (
      const query of [
        "tasks?status=nonsense",
        "tasks?limit=0",
        "tasks?limit=201",
        "tasks?nonsense=1",
        "tasks?sub=a&sub=b",
        "tasks?sub=",
        "tasks?error=x&status=completed",
        "tasks?from=yesterday",
        "tasks?from=2026-01-01T00:00:00Z&to=2026-03-01T00:00:00Z",
        "tasks?from=2026-03-01T00:00:00Z&to=2026-01-01T00:00:00Z",
        "tasks?cursor=nonsense",
        `tasks?status=failed&cursor=${body.next}`,
        `deliveries?cursor=${body.next}`,
        "deliveries?state=nonsense",
        "deliveries?error=nonsense",
        "errors?from=1",
        "clocks?limit=x",
        "history?step=61",
        "history?step=60&from=2026-01-01T00:00:00Z&to=2026-01-20T00:00:00Z",
        "revocations?limit=1000"
      ]
    ) {
      const { body, status } = await get(`/${query}`)
      assert.strictEqual(status, 422, query)
      assert.isNotEmpty(Object.keys(body.errors), query)
    }
    for (const list of ["tasks", "deliveries", "errors", "history", "origins"]) {
      assert.strictEqual((await get(`/${list}?to=9999-12-31T23:59:59Z`)).status, 200, list)
    }
    for (const path of ["/tasks/nothing", "/tasks/019ac5d2-7f3e-7c41-9b1a-2f60c8a7d913"]) {
      assert.strictEqual((await get(path)).status, 404)
    }
  })

  it("is selected as bulk actions select: by assistant, by label and by schedule", async () => {
    const mine = await create({ assistant_id: 7, metadata: { tenant: "acme", n: "1" } })
    const other = await create({ assistant_id: 7, metadata: { tenant: "b" } })
    const schedule = await service.call("POST", "/api/schedules", user, {
      name: "Once",
      type: "once",
      delay: 1,
      task: { assistant_id: 8, input: [{ type: "text", text: "scheduled" }] }
    })
    assert.strictEqual(schedule.status, 201, JSON.stringify(schedule.body))
    const find = async (query: string) =>
      (await get(`/tasks?${query}`)).body.data.map(({ uuid }: { readonly uuid: string }) => uuid)
    assert.deepStrictEqual(await find("assistant=7"), [other.uuid, mine.uuid])
    assert.deepStrictEqual(await find("assistant=7&label=tenant=acme"), [mine.uuid])
    assert.deepStrictEqual(await find("label=tenant%3Dacme&status=pending"), [mine.uuid])
    assert.deepStrictEqual(await find("label=tenant=c"), [])
    const scheduled = await eventually(() => find(`schedule=${schedule.body.id}`), (uuids) => uuids.length > 0, 20_000)
    assert.deepStrictEqual(scheduled, await find("assistant=8"))
    assert.deepStrictEqual(await find(`schedule=${schedule.body.id}&sub=bob`), [])
    for (
      const [name, value] of [["assistant", "x"], ["assistant", "1.5"], ["label", "x"], ["label", "=x"], [
        "schedule",
        "x"
      ]]
    ) {
      const { body, status } = await get(`/tasks?${name}=${value}`)
      assert.deepStrictEqual([status, Object.keys(body.errors)], [422, [name]], `${name}=${value}`)
    }
  })

  it("names the users who store more than STORED_BYTES", async () => {
    const hoarder = await mint("hoarder")
    for (let count = 0; count < 2; count++) {
      const { body } = await service.create(hoarder, "x".repeat(12_000))
      await complete(await system.runOf(body.uuid))
    }
    const { get } = operatorCalls(await start({ STORED_BYTES: "20000" }))
    const isAlert = ({ id }: { readonly id: string }) => id === "user_stores_much"
    const { body } = await eventually(() => get("/overview"), ({ body }) => body.alerts.some(isAlert), 20_000)
    const [largest] = body.largest_users
    assert.strictEqual(largest.sub, "hoarder")
    assert.isAbove(largest.bytes, 24_000)
    assert.isAtLeast(largest.tasks, 2)
    assert.strictEqual(body.alerts.find(isAlert).message, "Users with more than 20000 stored bytes: hoarder.")
  })

  it("ends a search that takes too long, and delays no client", async () => {
    const release = await system.database.hold("LOCK TABLE history IN ACCESS EXCLUSIVE MODE")
    const searches = Promise.all(["", "?step=60", "?step=3600"].map((step) => get(`/history${step}`)))
    const list = service.call("GET", "/api/tasks", user)
    const first = await Promise.race([searches.then(() => "a search"), list.then(({ status }) => status)])
    const answers = await searches
    await release()
    assert.deepStrictEqual([first, answers.map(({ status }) => status)], [200, [503, 503, 503]])
  })

  it("measures how long the tasks of each assistant waited and ran", async () => {
    const { run } = await create({ assistant_id: 7 })
    await complete(run)
    const { body } = await eventually(
      () => get("/durations"),
      ({ body }) => body.data.some(({ assistant_id: id }: { assistant_id: number }) => id === 7)
    )
    assert.isTrue(body.complete)
    const seventh = body.data.find(({ assistant_id: id }: { assistant_id: number }) => id === 7)
    assert.strictEqual(seventh.tasks, 1)
    for (const { p50, p95 } of [seventh.waiting_ms, seventh.running_ms]) {
      assert.isAtLeast(p50, 0)
      assert.isBelow(p95, 60_000)
      assert.strictEqual(p50, p95)
    }
    assert.strictEqual((await get("/durations?from=1")).status, 422)
  })

  it("groups failures by their error, and shows deadlines and the history", async () => {
    for (const message of ["first", "second", "second"]) {
      const { run } = await create()
      assert.strictEqual((await report(run, { type: "failed", code: "internal", message })).status, 200)
    }
    const { body: { groups, window } } = await get("/errors")
    assert.isTrue(window.complete)
    const found = groups.map(({ count, error }: { count: number; error: string }) => [error, count])
    assert.deepInclude(found, ["second", 2])
    assert.deepInclude(found, ["first", 1])
    const second = groups.find(({ error }: { error: string }) => error === "second")
    assert.deepStrictEqual(second.counts, [...Array.from({ length: 23 }, () => 0), 2])
    const failed = await get("/tasks?error=second")
    assert.lengthOf(failed.body.data, 2)
    const { uuid } = await create()
    const { body: { tasks } } = await get("/clocks?limit=200")
    const clocks = tasks.filter((clock: { uuid: string }) => clock.uuid === uuid)
    assert.deepStrictEqual(clocks.map(({ clock }: { clock: string }) => clock), ["acceptance", "time_limit"])
    const overview = await eventually(() => get("/overview"), ({ body }) => body.last_hour.failed >= 3, 20_000)
    assert.isAbove(overview.body.last_hour.created, 3)
    assert.strictEqual(overview.body.nodes, 1)
    const { body: history } = await get("/history?step=3600")
    const sum = history.series.failed.reduce((one: number, other: number) => one + other, 0)
    assert.isAtLeast(sum, 3)
    assert.isAbove(history.series.created.length, 23)
  })
})

describe("what operators change", () => {
  it("cancels a task in any status that is not final", async () => {
    const { run, uuid } = await create()
    await report(run, { type: "processing" })
    assert.deepStrictEqual((await post(`/tasks/${uuid}/cancel`, { reason: "stuck" })).body, {
      uuid,
      status: "canceled"
    })
    assert.strictEqual((await service.get(user, uuid)).body.error, "stuck")
    await system.core.stopped(run)
    assert.strictEqual((await post(`/tasks/${uuid}/cancel`)).status, 409)
    assert.strictEqual((await post("/tasks/nothing/cancel")).status, 404)
    await service.logged(/an operator canceled a task/)
  })

  it("redelivers webhooks by id and by filter, after counting them", async () => {
    const accept = target.script
    onTestFinished(() => {
      target.script = accept
    })
    const made = [await create({ callback_url: target.url }), await create({ callback_url: target.url })]
    for (const { run } of made) await complete(run)
    const ids = made.map(({ uuid }) => `${uuid}-1`)
    const areDelivered = async (attempts: number) => {
      for (const { uuid } of made) {
        await eventually(
          () => service.call("GET", `/api/tasks/${uuid}/deliveries`, user),
          ({ body }) => body.data[0]?.state === "delivered" && body.data[0].attempts.length === attempts
        )
      }
    }
    await areDelivered(1)
    const again = await post("/deliveries/redeliver", { ids: [...ids, "nonsense", `${made[0]!.uuid}-9`] })
    assert.deepStrictEqual(again.body, { matched: 2, owed: 2, needs_secret: 0, left: 0 })
    await areDelivered(2)
    // As after five attempts.
    await system.database.query(
      `UPDATE webhook_deliveries SET due_at = NULL, sending = false, delivered_at = NULL WHERE task_uuid IN ('${
        made[0]!.uuid
      }', '${made[1]!.uuid}')`
    )
    const filter = { origin: target.url }
    const dry = await post("/deliveries/redeliver", { filter, dry_run: true })
    assert.deepStrictEqual(dry.body, { matched: 2, owed: 0, needs_secret: 0, left: 2 })
    const one = await post("/deliveries/redeliver", { filter, limit: 1 })
    assert.deepStrictEqual(one.body, { matched: 2, owed: 1, needs_secret: 0, left: 1 })
    for (
      const body of [
        {},
        { ids: [], filter },
        { ids: Array.from({ length: 501 }, () => "x") },
        { filter, limit: 1001 },
        { filter: { from: "x" } },
        { ids: "x" }
      ]
    ) {
      assert.strictEqual((await post("/deliveries/redeliver", body)).status, 422, JSON.stringify(body).slice(0, 80))
    }
  })

  it("is logged also when a change does not end within its time limit", async () => {
    const { run, uuid } = await create({ callback_url: target.url })
    await complete(run)
    // Else its outcome waits for the lock as well, and what follows on its connection.
    await eventually(
      () => system.database.query(`SELECT FROM webhook_deliveries WHERE task_uuid = '${uuid}' AND due_at IS NULL`),
      ({ length }) => length === 1
    )
    const release = await system.database.hold(
      `SELECT FROM webhook_deliveries WHERE task_uuid = '${uuid}' FOR UPDATE`
    )
    assert.strictEqual((await post("/deliveries/redeliver", { ids: [`${uuid}-1`] })).status, 503)
    await service.logged(/did not end as it should/)
    await release()
  })

  it("revokes tokens and lists them", async () => {
    const token = await mint("revoked by an operator")
    assert.strictEqual((await service.call("GET", "/api/tasks", token)).status, 200)
    const sub = "revoked by an operator"
    assert.strictEqual((await post("/revocations", { sub, issued_before: Date.now() / 1000 + 60 })).status, 204)
    assert.strictEqual((await service.call("GET", "/api/tasks", token)).status, 401)
    assert.strictEqual((await post("/revocations", { jti: "one" })).status, 204)
    const { body: { data } } = await get("/revocations")
    assert.deepStrictEqual([data[0].jti, data[1].sub], ["one", sub])
    assert.strictEqual((await post("/revocations", {})).status, 422)
  })
})
