/** Usage over REST and RPC, with prices. */
import { Effect } from "effect"
import { RpcClient } from "effect/rpc"
import { randomUUID } from "node:crypto"
import { mkdtempSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import * as path from "node:path"
import { assert, describe, it, onTestFinished } from "vitest"
import { TaskServiceClient } from "../../../src/http/client/promise/TaskServiceClient.ts"
import { UsageRpc } from "../../../src/http/usage/UsageRpc.ts"
import { callRpc, runRpc } from "../../kit/callRpc.ts"
import { report, type StartedRun, toolCall } from "../../kit/ScriptedCore.ts"
import { eventually, internalToken, mint, Service } from "../../kit/Service.ts"
import { use } from "../../kit/suite.ts"
import { startSystem } from "../../kit/System.ts"
import { startValidatingProxy } from "../../kit/ValidatingProxy.ts"

const prices = path.join(mkdtempSync(path.join(tmpdir(), "prices-")), "prices.json")
writeFileSync(
  prices,
  JSON.stringify({
    currency: "EUR",
    models: { priced: { input: 2.5, output: 10, cached_input: 1.25 }, plain: { input: 1, output: 1 } }
  })
)
const readToken = "a read token of the operators of the tests"
const system = await use(startSystem({ PRICES_FILE: prices, OPERATOR_READ_TOKENS: readToken }))
const { runOf, service } = system

const turn = (usage: unknown, model: string | null = "priced") => ({
  output: [],
  messages: [],
  metadata: { ...(model === null ? {} : { model }), usage }
})
const tokens = (input: number, output: number, cached = 0, reasoning = 0) => ({
  input_tokens: input,
  output_tokens: output,
  total_tokens: input + output,
  input_tokens_details: { cached_tokens: cached },
  output_tokens_details: { reasoning_tokens: reasoning }
})

const user = async () => {
  const sub = `usage-${randomUUID()}`
  const token = await mint(sub)
  const call = (method: string, address: string, body?: unknown) => service.call(method, address, token, body)
  const begin = async (more: object = {}) => {
    const { body, status } = await service.create(token, "Hello", more)
    assert.strictEqual(status, 201, JSON.stringify(body))
    return { uuid: body.uuid as string, run: await runOf(body.uuid) }
  }
  const end = async (usage: unknown, model: string | null = "priced") => {
    const { run, uuid } = await begin()
    assert.strictEqual((await report(run, { type: "completed", turn: turn(usage, model) })).status, 200)
    return uuid
  }
  return {
    sub,
    token,
    call,
    begin,
    end,
    read: (query = "") => call("GET", `/api/usage${query}`),
    ofTask: async (uuid: string) => (await call("GET", `/api/tasks/${uuid}?include=usage`)).body.usage
  }
}

const emptyOutbox = () =>
  eventually(
    () => system.database.query("SELECT FROM usage_outbox LIMIT 1"),
    (rows) => rows.length === 0
  )

const answer = async ({ call }: Awaited<ReturnType<typeof user>>, uuid: string, run: StartedRun) => {
  const results = [{ tool_call_id: toolCall.id, output: 1 }]
  assert.strictEqual((await call("POST", `/api/tasks/${uuid}/tool-results`, { results })).status, 200)
  return runOf(uuid, run)
}

describe("GET /api/usage", () => {
  it("sums what tasks reported, before and after it is booked", async () => {
    const one = await user()
    const uuid = await one.end(tokens(1000, 100, 400, 30))
    await one.end({ prompt_tokens: 7, completion_tokens: 3 }, "unknown")
    await one.end(undefined)
    const expected = {
      tasks: 3,
      ended: { completed: 3, failed: 0, canceled: 0 },
      input_tokens: 1007,
      output_tokens: 103,
      total_tokens: 1110,
      cached_input_tokens: 400,
      reasoning_tokens: 30,
      active_seconds: 0,
      cost: "0.003",
      unpriced_tokens: 10,
      unmetered_tasks: 1
    }
    const before = await one.read()
    assert.strictEqual(before.status, 200, JSON.stringify(before.body))
    assert.deepStrictEqual(before.body.totals, expected)
    const { from, group, to, ...amounts } = before.body.data[0]
    assert.deepStrictEqual([group, amounts], [{}, expected])
    assert.match(from, /T00:00:00\.000000Z$/)
    assert.strictEqual(Date.parse(to) - Date.parse(from), 86_400_000)
    assert.deepInclude(before.body.meta, { step: "day", currency: "EUR" })
    await emptyOutbox()
    const after = await one.read()
    assert.deepStrictEqual([after.body.data, after.body.totals], [before.body.data, before.body.totals])
    assert.deepStrictEqual(await one.ofTask(uuid), {
      input_tokens: 1000,
      output_tokens: 100,
      total_tokens: 1100,
      cached_input_tokens: 400,
      reasoning_tokens: 30,
      active_seconds: 0,
      cost: "0.003",
      source: "reported",
      is_final: true
    })
    const groups = (await one.read("?group_by=assistant,model&step=total")).body.data
    assert.deepStrictEqual(
      groups.map((bucket: { readonly group: unknown; readonly tasks: number; readonly cost: string | null }) => [
        bucket.group,
        bucket.tasks,
        bucket.cost
      ]),
      [
        [{ assistant: 1, model: "priced" }, 2, "0.003"],
        [{ assistant: 1, model: "unknown" }, 1, null]
      ]
    )
    const hours = (await one.read("?step=hour")).body
    assert.strictEqual(Date.parse(hours.data[0].to) - Date.parse(hours.data[0].from), 3_600_000)
    assert.strictEqual((await one.read("?assistant_id=2")).body.totals.tasks, 0)
    assert.deepStrictEqual((await (await user()).read()).body.data, [])
  })

  it("counts the difference of each leg, also of a task that is canceled", async () => {
    const one = await user()
    const { run, uuid } = await one.begin()
    assert.isNull(await one.ofTask(uuid))
    const interrupt = (of: StartedRun, usage: unknown) =>
      report(of, { type: "interrupted", tool_calls: [toolCall], turn: turn(usage) })
    await interrupt(run, tokens(10, 1))
    const first = await one.ofTask(uuid)
    assert.deepStrictEqual([first.total_tokens, first.is_final], [11, false])
    const second = await answer(one, uuid, run)
    await report(second, { type: "progress", turn: turn(tokens(25, 2)) })
    assert.strictEqual((await one.ofTask(uuid)).total_tokens, 11)
    await interrupt(second, tokens(30, 3))
    assert.strictEqual((await one.call("POST", `/api/tasks/${uuid}/cancel`)).status, 200)
    const usage = await one.ofTask(uuid)
    assert.deepStrictEqual([usage.total_tokens, usage.source, usage.is_final], [33, "reported", true])
    assert.deepInclude((await one.read()).body.totals, {
      total_tokens: 33,
      tasks: 1,
      ended: { completed: 0, failed: 0, canceled: 1 },
      unmetered_tasks: 0
    })
  })

  it("counts partial work of a task that exceeds its time or fails", async () => {
    const one = await user()
    const late = await one.begin({ max_execution_time: 1 })
    await report(late.run, { type: "progress", turn: turn(tokens(40, 4)) })
    const failed = await one.begin()
    await report(failed.run, { type: "failed", code: "internal", turn: turn(tokens(5, 5)) })
    await eventually(() => one.ofTask(late.uuid), (usage) => usage?.is_final)
    assert.deepInclude((await one.read()).body.totals, {
      total_tokens: 54,
      ended: { completed: 0, failed: 2, canceled: 0 }
    })
  })

  it("takes a turn without usual numbers for unmetered", async () => {
    const one = await user()
    const odd = [
      { input_tokens: 1 },
      { input_tokens: -1, output_tokens: 1 },
      { input_tokens: 1.5, output_tokens: 1 },
      [],
      "7"
    ]
    for (const usage of odd) {
      const uuid = await one.end(usage)
      assert.deepInclude(await one.ofTask(uuid), { total_tokens: 0, cost: null, source: "none", is_final: true })
    }
    assert.deepInclude((await one.read()).body.totals, { tasks: 5, unmetered_tasks: 5, total_tokens: 0 })
  })

  it("names the parameter that is wrong", async () => {
    const one = await user()
    const wrong: ReadonlyArray<readonly [string, string]> = [
      ["from=yesterday", "from"],
      ["to=", "to"],
      ["from=2026-02-30T00:00:00Z", "from"],
      ["from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z", "from"],
      ["from=2026-01-01T00:00:00Z&to=2026-02-02T00:00:00Z&step=hour", "from"],
      ["from=2025-01-01T00:00:00Z&to=2026-02-06T00:00:00Z", "from"],
      ["step=week", "step"],
      ["group_by=sub", "group_by"],
      ["group_by=assistant,model,assistant,x", "group_by"],
      ["group_by[]=model", "group_by"],
      ["step=day&step=hour", "step"],
      ["assistant_id=0", "assistant_id"],
      ["assistant_id=x", "assistant_id"]
    ]
    for (const [query, field] of wrong) {
      const { body, status } = await one.read(`?${query}`)
      assert.deepStrictEqual([status, Object.keys(body.errors ?? {})], [422, [field]], query)
    }
    const range = "from=2026-01-01T00:30:00Z&to=2026-02-01T00:00:00.000001Z"
    const { meta } = (await one.read(`?${range}`)).body
    assert.deepStrictEqual(
      [meta.from, meta.to],
      ["2026-01-01T00:00:00.000000Z", "2026-02-01T01:00:00.000000Z"]
    )
    assert.strictEqual((await service.call("GET", "/api/usage", "x")).status, 401)
  })

  it("is offered by RPC and by the client", async () => {
    const one = await user()
    const uuid = await one.end(tokens(3, 4))
    const client = new TaskServiceClient({ baseUrl: service.url, token: one.token })
    const usage = await client.usage.get({ step: "total", group_by: ["model"] })
    assert.strictEqual(usage.totals.total_tokens, 7)
    assert.strictEqual((await client.tasks.get(uuid, { include: ["usage"] })).usage?.total_tokens, 7)
    const called = await callRpc(service, "Tasks.usage", { sub: one.sub, step: "total", group_by: ["model"] })
    assert.deepStrictEqual(called.totals, usage.totals)
    const task = await callRpc(service, "Tasks.get", { sub: one.sub, uuid, include: ["usage"] })
    assert.strictEqual(task.usage?.total_tokens, 7)
    for (const transport of ["POST", "WebSocket"] as const) {
      const read = (given: { readonly from?: string }) =>
        Effect.flatMap(
          RpcClient.make(UsageRpc),
          (client) => client["Tasks.usage"]({ sub: one.sub, step: "total", group_by: ["assistant", "model"], ...given })
        )
      const typed = await runRpc(service, read({}), transport)
      assert.deepStrictEqual(typed.totals, usage.totals)
      assert.deepStrictEqual(typed.data[0]?.group, { assistant: 1, model: "priced" })
      const failure = await runRpc(service, Effect.flip(read({ from: "yesterday" })), transport)
      assert.deepInclude(failure, { _tag: "InvalidRequest" })
      assert.deepStrictEqual(Object.keys("errors" in failure ? failure.errors : {}), ["from"])
    }
    const refused = await callRpc(service, "Tasks.usage", { sub: one.sub, step: "week" })
    assert.deepStrictEqual([refused._tag, Object.keys(refused.errors)], ["InvalidRequest", ["step"]])
  })
})

describe("PRICES_FILE", () => {
  it("has no effect on what was used before a restart, although it was not booked", async () => {
    const file = path.join(mkdtempSync(path.join(tmpdir(), "prices-")), "prices.json")
    const setPrice = (input: number) =>
      writeFileSync(file, JSON.stringify({ currency: "EUR", models: { priced: { input, output: 1 } } }))
    setPrice(1)
    const own = await use(startSystem({ PRICES_FILE: file }), onTestFinished)
    const token = await mint("repriced")
    const complete = async (service: Service) => {
      const { body: { uuid } } = await service.create(token, "Hello")
      const run = await own.runOf(uuid)
      assert.strictEqual((await report(run, { type: "completed", turn: turn(tokens(1_000_000, 0)) })).status, 200)
      return uuid
    }
    const costOf = async (service: Service, uuid: string) =>
      (await service.call("GET", `/api/tasks/${uuid}?include=usage`, token)).body.usage.cost
    // Whoever holds this lock books, so that nobody else does.
    const release = await own.database.hold(
      "SELECT pg_advisory_xact_lock(hashtextextended('async-task-service:usage', 0))"
    )
    const before = await complete(own.service)
    await own.service.stop("SIGKILL")
    setPrice(2)
    const next = await use(Service.start(own.settings), onTestFinished)
    const after = await complete(next)
    assert.lengthOf(await own.database.query("SELECT FROM usage_outbox"), 2)
    const expected = ["1", "2"]
    assert.deepStrictEqual([await costOf(next, before), await costOf(next, after)], expected)
    await release()
    await eventually(() => own.database.query("SELECT FROM usage_outbox"), ({ length }) => length === 0)
    assert.deepStrictEqual([await costOf(next, before), await costOf(next, after)], expected)
  })
})

describe("USAGE_RETENTION", () => {
  it("deletes sums of hours that are older, and RETENTION does not", async () => {
    const settings = { ...system.settings, USAGE_RETENTION: "400 days", RETENTION: "1 second" }
    const one = await user()
    const uuid = await one.end(tokens(8, 2))
    const keeping = await use(Service.start(settings), onTestFinished)
    await eventually(() => keeping.call("GET", `/api/tasks/${uuid}`, one.token), ({ status }) => status === 404)
    assert.strictEqual((await one.read()).body.totals.total_tokens, 10)
    await emptyOutbox()
    await system.database.query(`UPDATE usage_hours SET hour = hour - interval '401 days' WHERE sub = '${one.sub}'`)
    const read = () => one.read("?from=2020-01-01T00:00:00Z&step=total")
    const deleting = await use(Service.start({ ...settings, RETENTION: "30 days" }), onTestFinished)
    await eventually(read, ({ body }) => body.totals.total_tokens === 0)
    assert.strictEqual((await deleting.call("GET", "/api/usage", one.token)).status, 200)
  })

  it("stops the start when the file of prices cannot be read", async () => {
    for (const PRICES_FILE of ["/no/such/prices.json", import.meta.filename]) {
      const failure = await Service.start({ ...system.settings, PRICES_FILE }).catch(String)
      assert.include(String(failure), "PRICES_FILE")
    }
  })
})

describe("the operations of usage", () => {
  it("conform to the documents, according to a validating proxy", async () => {
    const { ok, refused, untried } = await use(startValidatingProxy(service), onTestFinished)
    const one = await user()
    await one.end(tokens(3, 4))
    await ok(200, "GET", "/api/usage?group_by=assistant,model&step=hour", one.token)
    await refused(422, "GET", "/api/usage?step=week", one.token)
    await refused(401, "GET", "/api/usage", "x")
    const operators = "/internal/operator/usage"
    await ok(200, "GET", `${operators}?group_by=sub,model&step=total&order=cost&limit=20`, internalToken)
    await refused(401, "GET", operators, one.token)
    await ok(204, "DELETE", `${operators}?sub=nobody`, internalToken)
    await refused(422, "DELETE", operators, internalToken)
    assert.deepStrictEqual(untried((path) => path.endsWith("/usage")), [])
  })
})

describe("/internal/operator/usage", () => {
  it("sums over users, and erases one", async () => {
    const [one, other] = [await user(), await user()]
    await one.end(tokens(100, 0))
    await other.end(tokens(50, 0), "plain")
    const address = "/internal/operator/usage"
    const as = (method: string, query: string, token = internalToken) => service.call(method, address + query, token)
    const all = await as("GET", "?group_by=sub&step=total", readToken)
    assert.strictEqual(all.status, 200, JSON.stringify(all.body))
    const found = all.body.data.filter(({ group }: { readonly group: { readonly sub: string } }) =>
      [one.sub, other.sub].includes(group.sub)
    )
    assert.deepStrictEqual(
      found.map((
        { cost, total_tokens }: { readonly cost: string; readonly total_tokens: number }
      ) => [total_tokens, cost]),
      [[100, "0.00025"], [50, "0.00005"]]
    )
    assert.strictEqual((await as("GET", `?sub=${one.sub}`)).body.totals.total_tokens, 100)
    assert.strictEqual((await as("GET", "", one.token)).status, 401)
    assert.strictEqual((await as("DELETE", `?sub=${one.sub}`, readToken)).status, 403)
    assert.deepStrictEqual(Object.keys((await as("DELETE", "")).body.errors), ["sub"])
    assert.strictEqual((await as("DELETE", `?sub=${one.sub}`)).status, 204)
    assert.strictEqual((await one.read()).body.totals.tasks, 0)
    assert.strictEqual((await other.read()).body.totals.tasks, 1)
    await emptyOutbox()
    assert.strictEqual((await one.read()).body.totals.tasks, 0)
  })

  it("returns the largest users of more than it returns in all", async () => {
    await system.database.query(
      `INSERT INTO usage_hours (sub, hour, assistant_id, model, tasks, completed, failed, canceled, input_tokens, output_tokens,
        total_tokens, cached_input_tokens, reasoning_tokens, active_seconds, unpriced_tokens, unmetered_tasks, cost)
      SELECT 'many-' || n, timestamptz '2024-03-01 00:00Z' + (n + 1) % 2 * interval '1 day', 1, '', 1, 1, 0, 0, n, 0, n, 0, 0, 0, 0, 0,
        CASE WHEN n % 2 = 0 THEN 20000 - n END
      FROM generate_series(1, 12000) n`
    )
    const range = "/internal/operator/usage?from=2024-03-01T00:00:00Z&to=2024-03-03T00:00:00Z&group_by=sub"
    const read = async (query: string) => {
      const { body, status } = await service.call("GET", `${range}&${query}`, readToken)
      const subs = body.data?.map(({ group }: { readonly group: { readonly sub: string } }) => group.sub)
      return { status, subs, errors: Object.keys(body.errors ?? {}), totals: body.totals }
    }
    assert.deepInclude(await read("step=total"), { status: 422, errors: ["step"] })
    const largest = await read("step=total&order=tokens&limit=3")
    assert.deepStrictEqual(largest.subs, ["many-12000", "many-11999", "many-11998"])
    assert.deepInclude(largest.totals, { tasks: 12_000, total_tokens: 12_000 * 12_001 / 2 })
    assert.deepStrictEqual((await read("step=total&order=cost&limit=2")).subs, ["many-2", "many-4"])
    assert.deepStrictEqual((await read("step=day&limit=1")).subs, ["many-11999"])
    assert.deepStrictEqual((await read("step=day&order=tokens&limit=1")).subs, ["many-12000"])
    for (const wrong of ["limit=0", "limit=10001", "limit=x", "order=sub"]) {
      assert.deepInclude(await read(wrong), { status: 422, errors: [wrong.replace(/=.*/, "")] })
    }
  })

  it("measures tokens by assistant and model", async () => {
    const one = await user()
    await one.end(tokens(9, 1), "measured")
    await emptyOutbox()
    const { body } = await service.call("GET", "/internal/metrics", internalToken)
    assert.match(body, /usage_tokens_total\{[^}]*model="measured"[^}]*\} 9/)
  })

  it("reports the age of the last booking, which grows while bookings fail", async () => {
    const readAge = async () => {
      const { body } = await service.call("GET", "/internal/metrics", internalToken)
      return Number(/^usage_booking_age_seconds(?:\{.*\})? (\S+)$/m.exec(body)?.[1])
    }
    assert.isBelow(await readAge(), 10)
    await system.database.query("ALTER TABLE usage_hours RENAME TO hidden")
    await eventually(readAge, (age) => age > 5, 20_000)
    await system.database.query("ALTER TABLE hidden RENAME TO usage_hours")
    await eventually(readAge, (age) => age < 4, 20_000)
  })
})
