/** The REST interface of schedules. */
import { randomUUID } from "node:crypto"
import { assert, describe, it, onTestFinished } from "vitest"
import { internalToken, mint, Service } from "../../kit/Service.ts"
import { use } from "../../kit/suite.ts"
import { startSystem } from "../../kit/System.ts"
import { TokenIssuer } from "../../kit/TokenIssuer.ts"
import { startValidatingProxy } from "../../kit/ValidatingProxy.ts"

const issuer = await use(new TokenIssuer().listen())
const system = await use(startSystem({ TOKEN_URL: issuer.url, TOKEN_URL_TOKEN: "token of the issuer" }))
const { service } = system

const task = { assistant_id: 1, input: [{ type: "text", text: "Good morning" }] }
const daily = { type: "cron", cron: "0 9 * * *", task }

const later = (seconds: number) => new Date(Date.now() + seconds * 1000).toISOString()

const as = (token: string) => {
  const call = (method: string, path = "", body?: unknown, headers: Record<string, string> = {}) =>
    service.call(method, `/api/schedules${path}`, token, body, headers)
  return {
    call,
    create: async (body: unknown = daily) => {
      const { body: made, status } = await call("POST", "", body)
      assert.strictEqual(status, 201, JSON.stringify(made))
      return made
    }
  }
}

let users = 0
const user = async (sub = `scheduler-${++users}-${randomUUID()}`) => as(await mint(sub))

describe("POST /api/schedules", () => {
  it("creates a schedule and returns it whole, without its secret", async () => {
    const { call } = await user()
    const body = {
      key: "morning",
      name: "Morning",
      type: "cron",
      cron: "0 9 * * MON-FRI",
      timezone: "Europe/Berlin",
      starts_at: "2030-01-01T00:00:00.000251Z",
      ends_at: "2031-01-01T00:00:00.5+01:00",
      spread: 60,
      overlap: "queue",
      catchup_window: 120,
      pause_after_failures: 2,
      task: {
        ...task,
        callback_url: "https://example.com/hook",
        callback_secret: "canary-secret",
        metadata: { a: "b" }
      }
    }
    const made = await call("POST", "", body)
    assert.strictEqual(made.status, 201, JSON.stringify(made.body))
    const { created_at, id, ...rest } = made.body
    assert.match(created_at, /\.\d{6}Z$/)
    assert.strictEqual(made.headers.get("location"), `/api/schedules/${id}`)
    assert.match(made.headers.get("etag") ?? "", /^".+"$/)
    const { callback_secret: _, ...shownTask } = body.task
    assert.deepStrictEqual(rest, {
      ...body,
      task: shownTask,
      starts_at: "2030-01-01T00:00:00.000251Z",
      ends_at: "2030-12-31T23:00:00.500000Z",
      run_at: null,
      delay: null,
      state: "active",
      paused_reason: null,
      next_at: "2030-01-01T08:00:00.000000Z",
      last_at: null,
      revision: 0,
      upcoming: [1, 2, 3, 4, 7].map((day) => `2030-01-0${day}T08:00:00.000000Z`)
    })
    const read = await call("GET", `/${id}`)
    assert.deepStrictEqual([read.status, read.body], [200, made.body])
    assert.strictEqual(read.headers.get("etag"), made.headers.get("etag"))
    assert.notInclude(JSON.stringify((await call("GET")).body), "canary-secret")
  })

  it("fills defaults in", async () => {
    const made = await (await user()).create()
    const { catchup_window, key, name, overlap, pause_after_failures, spread, timezone } = made
    assert.deepStrictEqual(
      { catchup_window, key, name, overlap, pause_after_failures, spread, timezone },
      {
        catchup_window: 3600,
        key: null,
        name: null,
        overlap: "skip",
        pause_after_failures: null,
        spread: 0,
        timezone: "UTC"
      }
    )
    assert.strictEqual(made.upcoming.length, 5)
    assert.strictEqual(made.upcoming[0], made.next_at)
  })

  it("counts a delay from the creation", async () => {
    const made = await (await user()).create({ type: "once", delay: 3600, task })
    assert.strictEqual(Date.parse(made.next_at) - Date.parse(made.created_at), 3_600_000)
    assert.deepStrictEqual([made.delay, made.run_at, made.cron, made.upcoming], [3600, null, null, [made.next_at]])
  })

  /** Beside the fields alone, which `ScheduleFuzz.test.ts` tries. */
  const wrong: ReadonlyArray<[name: string, body: object, fields: ReadonlyArray<string>]> = [
    ["no type", { cron: "0 9 * * *", task }, ["type"]],
    ["no cron", { type: "cron", task }, ["cron"]],
    ["cron and run_at", { ...daily, run_at: later(60) }, ["run_at"]],
    ["no moment", { type: "once", task }, ["run_at"]],
    ["two moments", { type: "once", run_at: later(60), delay: 60, task }, ["delay"]],
    ["a past moment", { type: "once", run_at: later(-60), task }, ["run_at"]],
    ["a moment in two years", { type: "once", run_at: later(2 * 31_536_000), task }, ["run_at"]],
    ["a day that does not exist", { type: "once", run_at: "2027-02-30T00:00:00Z", task }, ["run_at"]],
    ["no moment before the end", { ...daily, cron: "0 0 29 2 *", ends_at: later(3600) }, ["ends_at"]],
    ["an end before the begin", { ...daily, starts_at: later(7200), ends_at: later(3600) }, ["ends_at"]],
    ["a long key", { ...daily, key: "k".repeat(101) }, ["key"]],
    ["an empty key", { ...daily, key: "" }, ["key"]],
    ["no task", { type: "cron", cron: "0 9 * * *" }, ["task"]],
    ["a task that is no object", { ...daily, task: [] }, ["task"]],
    ["a task that is not valid", { ...daily, task: { input: [{ type: "x" }] } }, [
      "task.assistant_id",
      "task.input.0.type"
    ]],
    ["several fields", { ...daily, spread: -1, cron: "x", task: { assistant_id: 0, input: [] } }, [
      "cron",
      "spread",
      "task.assistant_id",
      "task.input"
    ]]
  ]
  for (const [name, body, fields] of wrong) {
    it(`refuses ${name} with an error that names the field`, async () => {
      const { call } = await user("refused")
      const { body: { errors, message }, status } = await call("POST", "", body)
      assert.strictEqual(status, 422)
      assert.deepStrictEqual(Object.keys(errors).toSorted(), fields)
      assert.isString(message)
    })
  }

  it("replays an Idempotency-Key, and refuses it for another body", async () => {
    const { call } = await user()
    const body = { type: "once", delay: 100, task }
    const first = await call("POST", "", body, { "idempotency-key": "k" })
    const again = await call("POST", "", body, { "idempotency-key": "k" })
    assert.deepStrictEqual([again.status, again.body.id], [201, first.body.id])
    assert.strictEqual(again.headers.get("idempotent-replayed"), "true")
    const other = await call("POST", "", { ...body, delay: 101 }, { "idempotency-key": "k" })
    assert.deepStrictEqual([other.status, Object.keys(other.body.errors)], [422, ["Idempotency-Key"]])
    assert.strictEqual((await call("GET")).body.meta.total, 1)
  })

  it("refuses a key that is taken, for the same user only", async () => {
    const { call, create } = await user()
    await create({ ...daily, key: "taken" })
    const { body, status } = await call("POST", "", { ...daily, key: "taken" })
    assert.deepStrictEqual([status, Object.keys(body)], [409, ["message", "code"]])
    await (await user()).create({ ...daily, key: "taken" })
  })

  it("refuses the 101st schedule that is active or paused", async () => {
    const { call, create } = await user()
    const made = await Promise.all(Array.from({ length: 100 }, () => create()))
    const { body, headers, status } = await call("POST", "", daily)
    assert.strictEqual(status, 429)
    assert.match(body.message, /100/)
    assert.isTrue(headers.has("retry-after"))
    await call("POST", `/${made[0].id}/pause`)
    assert.strictEqual((await call("POST", "", daily)).status, 429)
    assert.strictEqual((await call("DELETE", `/${made[1].id}`)).status, 204)
    await create()
  })
})

describe("PUT /api/schedules/by-key/{key}", () => {
  it("creates, keeps an equal definition as it is, and replaces another", async () => {
    const { call } = await user()
    const put = (body: unknown) => call("PUT", "/by-key/deploy%20one", body)
    const body = { type: "once", delay: 1000, task: { ...task, callback_secret: "s" } }
    const made = await put(body)
    assert.deepStrictEqual([made.status, made.body.key], [201, "deploy one"])
    const equal = await put(body)
    assert.deepStrictEqual([equal.status, equal.body], [200, made.body])
    const renamed = await put({ ...body, name: "Two" })
    assert.deepStrictEqual([renamed.status, renamed.body.name, renamed.body.id], [200, "Two", made.body.id])
    assert.strictEqual(renamed.body.next_at, made.body.next_at)
    const armed = await put({ ...body, name: "Two", delay: 2000 })
    assert.isAbove(Date.parse(armed.body.next_at), Date.parse(made.body.next_at))
    assert.strictEqual((await put({ ...body, key: "another" })).status, 422)
    assert.strictEqual((await put({ ...body, task: {} })).status, 422)
    assert.strictEqual((await call("PUT", `/by-key/${"k".repeat(101)}`, body)).status, 422)
    assert.strictEqual((await call("GET")).body.meta.total, 1)
  })

  it("replaces once when requests race", async () => {
    const { call } = await user()
    const answers = await Promise.all(
      Array.from({ length: 8 }, (_, index) => call("PUT", "/by-key/race", { ...daily, name: String(index) }))
    )
    assert.deepStrictEqual(answers.map(({ status }) => status).toSorted(), [200, 200, 200, 200, 200, 200, 200, 201])
    assert.strictEqual((await call("GET")).body.meta.total, 1)
  })
})

describe("GET /api/schedules", () => {
  it("lists the caller's schedules by state, newest first", async () => {
    const { call, create } = await user()
    const [one, two] = [await create(), await create()]
    await call("POST", `/${one.id}/pause`)
    const { body } = await call("GET", "?per_page=1")
    assert.deepStrictEqual(body.meta, { current_page: 1, per_page: 1, last_page: 2, total: 2 })
    assert.strictEqual(body.data[0].id, two.id)
    assert.notProperty(body.data[0], "upcoming")
    const paused = await call("GET", "?state=paused")
    assert.deepStrictEqual(paused.body.data.map(({ id }: { id: string }) => id), [one.id])
    assert.strictEqual((await call("GET", "?state=active,paused")).body.meta.total, 2)
    assert.strictEqual((await call("GET", "?state[]=ended")).body.meta.total, 0)
    for (const query of ["?state=on", "?state=", "?state[a]=active", "?page=0", "?per_page=101", "?page="]) {
      assert.strictEqual((await call("GET", query)).status, 422, query)
    }
  })
})

describe("one schedule", () => {
  it("is 404 when it does not exist, 403 for another user, and 401 without a token", async () => {
    const { id } = await (await user()).create()
    const { call } = await user()
    const paths = ["", "/pause", "/resume", "/trigger", "/runs"]
    for (const path of paths) {
      const method = path === "" || path === "/runs" ? "GET" : "POST"
      assert.strictEqual((await call(method, `/${id}${path}`)).status, 403, path)
      assert.strictEqual((await call(method, `/nothing${path}`)).status, 404, path)
      assert.strictEqual((await call(method, `/${randomUUID()}${path}`)).status, 404, path)
      assert.strictEqual((await as("no token").call(method, `/${id}${path}`)).status, 401, path)
    }
    assert.strictEqual((await call("PATCH", `/${id}`, { name: "x" })).status, 403)
    assert.strictEqual((await call("PATCH", `/${randomUUID()}`, { name: 1 })).status, 404)
    assert.strictEqual((await call("DELETE", `/${id}`)).status, 403)
  })

  it("changes only the given fields, guarded by If-Match", async () => {
    const { call, create } = await user()
    const made = await create({ ...daily, name: "One", task: { ...task, callback_secret: "kept" } })
    const first = (await call("GET", `/${made.id}`)).headers.get("etag") ?? ""
    const renamed = await call("PATCH", `/${made.id}`, { name: "Two" }, { "if-match": first })
    assert.deepStrictEqual([renamed.status, renamed.body], [200, { ...made, name: "Two", revision: 1 }])
    assert.notStrictEqual(renamed.headers.get("etag"), first)
    const stale = await call("PATCH", `/${made.id}`, { name: "Three" }, { "if-match": first })
    assert.deepStrictEqual([stale.status, Object.keys(stale.body)], [412, ["message", "code"]])
    assert.strictEqual((await call("PATCH", `/${made.id}`, { name: null }, { "if-match": "*" })).body.name, null)
    const moved = await call("PATCH", `/${made.id}`, { cron: "0 10 * * *" })
    assert.match(moved.body.next_at, /T10:00/)
    assert.strictEqual((await call("PATCH", `/${made.id}`, { cron: "0 10 31 2 *" })).status, 422)
    assert.strictEqual((await call("PATCH", `/${made.id}`, { delay: 5 })).status, 422)
    const replaced = await call("PATCH", `/${made.id}`, { task: { assistant_id: 2, input: task.input } })
    assert.strictEqual(replaced.body.task.assistant_id, 2)
    const once = await call("PATCH", `/${made.id}`, { type: "once", delay: 500 })
    assert.deepStrictEqual([once.body.cron, once.body.delay], [null, 500])
    const at = await call("PATCH", `/${made.id}`, { run_at: later(600) })
    assert.deepStrictEqual([at.body.delay, at.status], [null, 200])
  })

  it("pauses and resumes, both idempotently", async () => {
    const { call, create } = await user()
    const { id, next_at } = await create()
    const paused = await call("POST", `/${id}/pause`, { reason: "Holidays" })
    assert.deepStrictEqual([paused.status, paused.body.state, paused.body.paused_reason], [200, "paused", {
      type: "manual",
      message: "Holidays"
    }])
    assert.deepStrictEqual([paused.body.next_at, paused.body.upcoming], [null, []])
    const again = await call("POST", `/${id}/pause`, { reason: "Another" })
    assert.deepStrictEqual([again.status, again.body], [200, paused.body])
    assert.strictEqual((await call("POST", `/${id}/pause`, { reason: "r".repeat(1001) })).status, 422)
    const resumed = await call("POST", `/${id}/resume`)
    assert.deepStrictEqual([resumed.status, resumed.body.state, resumed.body.next_at], [200, "active", next_at])
    assert.strictEqual((await call("POST", `/${id}/resume`)).body.revision, resumed.body.revision)
  })

  it("is gone after DELETE", async () => {
    const { call, create } = await user()
    const { id } = await create()
    assert.strictEqual((await call("DELETE", `/${id}`)).status, 204)
    assert.strictEqual((await call("GET", `/${id}`)).status, 404)
    assert.strictEqual((await call("DELETE", `/${id}`)).status, 404)
  })
})

describe("POST /api/schedules/{id}/trigger", () => {
  it("creates a task now, also while paused, and lists it in the runs", async () => {
    const { call, create } = await user()
    const { id, next_at } = await create()
    await call("POST", `/${id}/pause`)
    const made = await call("POST", `/${id}/trigger`, undefined, { "idempotency-key": "now" })
    assert.deepStrictEqual([made.status, made.body.status, made.body.max_execution_time], [201, "pending", 86_400])
    assert.strictEqual(made.headers.get("location"), `/api/tasks/${made.body.uuid}`)
    const again = await call("POST", `/${id}/trigger`, undefined, { "idempotency-key": "now" })
    assert.deepStrictEqual([again.body, again.headers.get("idempotent-replayed")], [made.body, "true"])
    const runs = await call("GET", `/${id}/runs`)
    assert.strictEqual(runs.body.data.length, 1)
    const [run] = runs.body.data
    assert.deepStrictEqual([run.outcome, run.count, run.task_uuid, run.error], ["created", 1, made.body.uuid, null])
    assert.isBelow(Math.abs(Date.parse(run.scheduled_for) - Date.now()), 60_000)
    assert.strictEqual((await system.runOf(made.body.uuid)).input[0]?.text, "Good morning")
    assert.strictEqual((await call("POST", `/${id}/resume`)).body.next_at, next_at)
  })

  it("gives its tasks priority 4 unless the schedule has another one", async () => {
    const token = await mint("gives priorities")
    const { call, create } = as(token)
    const priorityOf = async (given: object) => {
      const { id } = await create({ ...daily, task: { ...task, ...given } })
      const { body } = await call("POST", `/${id}/trigger`)
      const found = await service.call("GET", `/api/tasks/${body.uuid}?include=request`, token)
      return found.body.request.priority
    }
    assert.deepStrictEqual(
      [await priorityOf({}), await priorityOf({ priority: null }), await priorityOf({ priority: 1 })],
      [4, 4, 1]
    )
    const refused = await call("POST", "", { ...daily, task: { ...task, priority: 6 } })
    assert.deepStrictEqual([refused.status, Object.keys(refused.body.errors)], [422, ["task.priority"]])
  })

  it("returns 429 as POST /api/tasks does", async () => {
    const { call, create } = await user()
    const { id } = await create()
    for (let index = 0; index < 5; index++) assert.strictEqual((await call("POST", `/${id}/trigger`)).status, 201)
    assert.strictEqual((await call("POST", `/${id}/trigger`)).status, 429)
    assert.strictEqual((await call("GET", `/${id}/runs`)).body.meta.total, 5)
  })
})

describe("POST /api/schedules/preview", () => {
  it("shows the moments after a moment", async () => {
    const { call } = await user()
    const { body, status } = await call("POST", "/preview", {
      cron: "30 2 * * *",
      timezone: "Europe/Berlin",
      count: 3,
      after: "2026-03-27T12:00:00Z"
    })
    assert.deepStrictEqual([status, body], [200, {
      data: ["2026-03-28T01:30:00.000000Z", "2026-03-29T01:30:00.000000Z", "2026-03-30T00:30:00.000000Z"]
    }])
    assert.strictEqual((await call("POST", "/preview", { cron: "* * * * *", count: 20 })).body.data.length, 20)
    const { body: { errors } } = await call("POST", "/preview", { cron: "@hourly", count: 21, timezone: "x" })
    assert.deepStrictEqual(Object.keys(errors).toSorted(), ["count", "cron", "timezone"])
  })

  it("returns 429 for more than 10 calls of a user in a second", async () => {
    const { call } = await user()
    const answers = await Promise.all(
      Array.from({ length: 40 }, () => call("POST", "/preview", { cron: "* * * * *" }))
    )
    const statuses = answers.map(({ status }) => status)
    assert.isAtLeast(statuses.filter((status) => status === 429).length, 10)
    assert.isAtLeast(statuses.filter((status) => status === 200).length, 10)
  })
})

describe("tasks of schedules", () => {
  it("are found by their schedule, and show it only when asked", async () => {
    const token = await mint(`linked-${randomUUID()}`)
    const { call, create } = as(token)
    const { id } = await create({ ...daily, task: { ...task, metadata: { kind: "a" } } })
    const { uuid } = (await call("POST", `/${id}/trigger`)).body
    await service.create(token, "another")
    const list = (query: string) => service.call("GET", `/api/tasks?${query}`, token)
    const found = await list(`schedule=${id}`)
    assert.deepStrictEqual(found.body.data.map((row: { uuid: string }) => row.uuid), [uuid])
    assert.strictEqual((await list(`schedule=${id}&metadata[kind]=b`)).body.meta.total, 0)
    assert.strictEqual((await list(`schedule=${id}&metadata[kind]=a&status=pending,processing`)).body.meta.total, 1)
    assert.strictEqual((await list(`schedule=${randomUUID()}`)).body.meta.total, 0)
    for (const query of ["schedule=", "schedule=1", `schedule[]=${id}`]) {
      assert.deepStrictEqual(Object.keys((await list(query)).body.errors), ["schedule"], query)
    }
    const included = await service.call("GET", `/api/tasks/${uuid}?include=schedule`, token)
    assert.deepStrictEqual(Object.keys(included.body.schedule), ["id", "scheduled_for"])
    assert.strictEqual(included.body.schedule.id, id)
    assert.notProperty((await service.get(token, uuid)).body, "schedule")
    await call("DELETE", `/${id}`)
    assert.strictEqual((await service.get(token, uuid)).status, 200)
    assert.isNull((await service.call("GET", `/api/tasks/${uuid}?include=schedule`, token)).body.schedule)
  })
})

describe("/openapi.json", () => {
  it("has the calls, and what they add to those of tasks", async () => {
    const { paths } = (await service.call("GET", "/openapi.json", "")).body
    const ofSchedules = Object.keys(paths).filter((path) => path.startsWith("/api/schedules"))
    assert.lengthOf(ofSchedules, 8)
    const parametersOf = (path: string): ReadonlyArray<{ name: string; schema: { items: { enum: unknown } } }> =>
      paths[path].get.parameters
    assert.include(parametersOf("/api/tasks").map(({ name }) => name), "schedule")
    const include = parametersOf("/api/tasks/{uuid}").find(({ name }) => name === "include")
    assert.include(include?.schema.items.enum, "schedule")
  })
})

describe("without TOKEN_URL", () => {
  it("refuses cron schedules, and moments after the end of the token, and names the setting", async () => {
    const { TOKEN_URL: _, ...settings } = system.settings as Record<string, string>
    const without = await Service.start(settings)
    try {
      const token = await mint("tokenless")
      const post = (body: unknown) => without.call("POST", "/api/schedules", token, body)
      const cron = await post(daily)
      assert.strictEqual(cron.status, 422)
      assert.match(cron.body.message, /TOKEN_URL/)
      const late = await post({ type: "once", delay: 7200, task })
      assert.deepStrictEqual([late.status, Object.keys(late.body.errors)], [422, ["delay"]])
      assert.match(late.body.message, /TOKEN_URL/)
      assert.strictEqual((await post({ type: "once", delay: 1000, task })).status, 201)
    } finally {
      await without.stop()
    }
  })
})

describe("every operation", () => {
  it("conforms to the document, according to a validating proxy", async () => {
    const { examples, ok, refused, untried } = await use(startValidatingProxy(service), onTestFinished)
    const [token, stranger] = [await mint("documented"), await mint("stranger")]
    for (let count = 0; count < 5; count++) assert.strictEqual((await service.create(token, "x")).status, 201)
    const schedules = "/api/schedules"
    const schedule = await ok(201, "POST", schedules, token, examples["createSchedule"], { "idempotency-key": "s" })
    const at = `${schedules}/${schedule.id}`
    await ok(409, "POST", schedules, token, examples["createSchedule"])
    await refused(422, "POST", schedules, token, { type: "cron", cron: "@daily", task: {} })
    await ok(201, "PUT", `${schedules}/by-key/another`, token, { ...examples["putSchedule"], key: null })
    await ok(200, "PUT", `${schedules}/by-key/another`, token, { ...examples["putSchedule"], key: null })
    await ok(200, "GET", `${schedules}?state=active,paused&page=1&per_page=10`, token)
    await refused(422, "GET", `${schedules}?state=nonsense`, token)
    await ok(200, "POST", `${schedules}/preview`, token, examples["previewSchedule"])
    await ok(200, "GET", at, token)
    await ok(403, "GET", at, stranger)
    await ok(200, "PATCH", at, token, examples["updateSchedule"])
    await ok(412, "PATCH", at, token, examples["updateSchedule"], { "if-match": `"0"` })
    await ok(200, "POST", `${at}/pause`, token, examples["pauseSchedule"])
    await ok(200, "POST", `${at}/pause`, token)
    await ok(200, "POST", `${at}/resume`, token)
    await ok(429, "POST", `${at}/trigger`, token)
    await ok(200, "GET", `${at}/runs?page=1&per_page=10`, token)
    await ok(204, "DELETE", at, token)
    await ok(404, "DELETE", at, token)
    const search = "/internal/operator/schedules"
    await ok(200, "GET", search, internalToken)
    await ok(200, "GET", `${search}?show=all&q=documented`, internalToken)
    await refused(422, "GET", `${search}?show=x`, internalToken)
    await refused(401, "GET", search, token)
    assert.deepStrictEqual(untried((path) => path.endsWith("/schedules") || path.startsWith(schedules)), [])
  })
})
