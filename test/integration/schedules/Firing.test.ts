/** The firing of schedules: one task for each moment, missed moments, overlaps, waiting runs, tokens and revocations. */
import { randomUUID } from "node:crypto"
import { assert, describe, it } from "vitest"
import { TokenIssuer } from "../../kit/schedules/TokenIssuer.ts"
import { complete, report } from "../../kit/ScriptedCore.ts"
import { eventually, internalToken, mint, Service } from "../../kit/Service.ts"
import { use } from "../../kit/suite.ts"
import { startSystem } from "../../kit/System.ts"

const issuer = await use(new TokenIssuer().listen())
const system = await use(startSystem({ TOKEN_URL: issuer.url, TOKEN_URL_TOKEN: "token of the issuer" }))
const { service } = system

const task = { assistant_id: 1, input: [{ type: "text", text: "Fire" }] }

interface ScheduleBody {
  readonly id: string
  readonly state: string
  readonly paused_reason: { readonly type: string } | null
  readonly next_at: string | null
  readonly last_at: string | null
}

interface RunBody {
  readonly scheduled_for: string
  readonly started_at: string | null
  readonly outcome: string
  readonly count: number
  readonly task_uuid: string
  readonly error: string | null
}

const schedulerOf = async (sub: string = `fires-${randomUUID()}`, claims = {}) => {
  const token = await mint(sub, claims)
  const call = (method: string, path: string, body?: unknown, as = token) =>
    service.call(method, `/api/schedules${path}`, as, body)
  const get = async (id: string): Promise<ScheduleBody> => (await call("GET", `/${id}`)).body
  const runs = async (id: string): Promise<ReadonlyArray<RunBody>> => (await call("GET", `/${id}/runs`)).body.data
  return {
    sub,
    token,
    call,
    get,
    runs,
    create: async (body: object): Promise<ScheduleBody> => {
      const made = await call("POST", "", body)
      assert.strictEqual(made.status, 201, JSON.stringify(made.body))
      return made.body
    },
    untilRuns: (id: string, outcomes: ReadonlyArray<string>) =>
      eventually(() => runs(id), (found) => found.map(({ outcome }) => outcome).join() === outcomes.join(), 20_000),
    untilState: (id: string, state: string) => eventually(() => get(id), (found) => found.state === state, 20_000)
  }
}

const nudge = await mint("nudges")

/** Moves the next moment of a schedule into the past. The service does not know of it, and searches when it saves another schedule. */
const moveTo = async (id: string, moment: Date) => {
  await system.database.query(
    `UPDATE schedules SET next_at = '${moment.toISOString()}', due_at = '${moment.toISOString()}' WHERE id = '${id}'`
  )
  const { status } = await service.call("PUT", "/api/schedules/by-key/nudge", nudge, {
    type: "once",
    delay: 86_400,
    name: randomUUID(),
    task
  })
  assert.include([200, 201], status)
}

/** Moves the runs of a schedule an hour back, so that its moment can come again. */
const ageRuns = (id: string) =>
  system.database.query(
    `UPDATE schedule_runs SET scheduled_for = scheduled_for - interval '1 hour' WHERE schedule_id = '${id}'`
  )

/** A schedule of every hour, at a minute that is half an hour away: no run of the tests crosses one of its moments. */
const minute = (new Date().getUTCMinutes() + 30) % 60
const hourly = { type: "cron", cron: `${minute} * * * *`, task }

/** The latest moment of it, or one of an hour some hours before. */
const hourAgo = (hours: number) =>
  new Date(Math.floor(Date.now() / 3_600_000 - minute / 60 - hours) * 3_600_000 + minute * 60_000)

describe("a schedule that fires once", () => {
  it("makes an ordinary task at its moment, and ends", async () => {
    const { create, runs, sub, token, untilState } = await schedulerOf()
    const { id, next_at } = await create({ type: "once", delay: 1, task: { ...task, callback_secret: "s" } })
    const ended = await untilState(id, "ended")
    assert.deepStrictEqual([ended.next_at, ended.last_at], [null, next_at])
    const [run] = await eventually(() => runs(id), ([run]) => run?.outcome === "created")
    assert.deepStrictEqual([run!.scheduled_for, run!.count, run!.error], [next_at, 1, null])
    const late = Date.parse(run!.started_at!) - Date.parse(next_at!)
    assert.isTrue(late >= 0 && late < 2000, `${late} ms late`)
    const asked = issuer.asked.filter((asked) => asked.sub === sub)
    assert.deepStrictEqual(asked, [{ authorization: "Bearer token of the issuer", sub, schedule_id: id }])
    assert.strictEqual((await system.runOf(run!.task_uuid)).input[0]?.text, "Fire")
    const made = (await service.get(token, run!.task_uuid)).body
    assert.deepStrictEqual(Object.keys(made), ["uuid", "status", "error", "created_at", "completed_at", "turn"])
    const { call } = await schedulerOf(sub)
    for (const action of ["trigger", "pause", "resume"]) {
      assert.strictEqual((await call("POST", `/${id}/${action}`)).status, 409, action)
    }
  })

  it("is neither armed by an equal PUT nor kept ended by another moment", async () => {
    const { call, untilState } = await schedulerOf()
    const body = { type: "once", delay: 1, task }
    const { id } = (await call("PUT", "/by-key/deploy", body)).body
    await untilState(id, "ended")
    assert.strictEqual((await call("PUT", "/by-key/deploy", body)).body.state, "ended")
    assert.strictEqual((await call("PUT", "/by-key/deploy", { ...body, name: "x" })).body.state, "ended")
    assert.strictEqual((await call("PUT", "/by-key/deploy", { ...body, delay: 1000 })).body.state, "active")
  })

  it("fires after a pause within its window, and is missed after it", async () => {
    const { call, create, get, untilRuns, untilState } = await schedulerOf()
    const [soon, late] = await Promise.all([1, 2].map(() => create({ type: "once", delay: 500, task })))
    for (const { id } of [soon!, late!]) await call("POST", `/${id}/pause`)
    await moveTo(soon!.id, new Date(Date.now() - 60_000))
    await moveTo(late!.id, new Date(Date.now() - 3_700_000))
    await call("POST", `/${soon!.id}/resume`)
    await call("POST", `/${late!.id}/resume`)
    await untilState(soon!.id, "ended")
    await untilState(late!.id, "ended")
    await untilRuns(soon!.id, ["created"])
    await untilRuns(late!.id, ["missed"])
    assert.isNull((await get(late!.id)).next_at)
  })
})

describe("a rhythm", () => {
  it("goes on after a moment and makes up for the latest missed one only", async () => {
    const { create, get, untilRuns } = await schedulerOf()
    const { id } = await create({ ...hourly, catchup_window: 7200 })
    await moveTo(id, hourAgo(5))
    const [made, missed] = await untilRuns(id, ["created", "missed"])
    assert.strictEqual(made!.scheduled_for.slice(0, 19), hourAgo(0).toISOString().slice(0, 19))
    assert.deepStrictEqual([missed!.count, missed!.task_uuid, missed!.started_at], [5, null, null])
    const { last_at, next_at, state } = await get(id)
    assert.deepStrictEqual([last_at, state], [made!.scheduled_for, "active"])
    assert.strictEqual(next_at!.slice(0, 19), hourAgo(-1).toISOString().slice(0, 19))
  })

  it("leaves a moment out while the task before is active, or waits for its end", async () => {
    const { create, token, untilRuns } = await schedulerOf()
    const [skips, queues, allows] = await Promise.all(
      ["skip", "queue", "allow"].map((overlap) => create({ ...hourly, catchup_window: 86_400, overlap }))
    )
    for (const { id } of [skips!, queues!, allows!]) {
      await moveTo(id, hourAgo(2))
      await untilRuns(id, ["created", "missed"])
      await system.database.query(`DELETE FROM schedule_runs WHERE schedule_id = '${id}' AND outcome = 'missed'`)
      await ageRuns(id)
      await moveTo(id, hourAgo(0))
    }
    await untilRuns(skips!.id, ["skipped_overlap", "created"])
    await untilRuns(allows!.id, ["created", "created"])
    const [waiting, before] = await untilRuns(queues!.id, ["waiting", "created"])
    assert.match(waiting!.error ?? "", /not ended/)
    await complete(await system.runOf(before!.task_uuid))
    await service.until(token, before!.task_uuid, "completed")
    await untilRuns(queues!.id, ["created", "created"])
  })

  it("waits while its user has five active tasks", async () => {
    const { create, runs, token, untilRuns } = await schedulerOf()
    const uuids = await Promise.all([1, 2, 3, 4, 5].map(async () => (await service.create(token, "busy")).body.uuid))
    const { id } = await create({ type: "once", delay: 1, task })
    await untilRuns(id, ["waiting"])
    assert.match((await runs(id))[0]!.error ?? "", /5/)
    await complete(await system.runOf(uuids[0]))
    await untilRuns(id, ["created"])
  })

  it("pauses when as many tasks in a row failed", async () => {
    const { call, create, runs, token, untilRuns, untilState } = await schedulerOf()
    const { id } = await create({ ...hourly, pause_after_failures: 1 })
    await moveTo(id, hourAgo(0))
    await untilRuns(id, ["created"])
    const { task_uuid } = (await runs(id))[0]!
    await report(await system.runOf(task_uuid), { type: "failed", code: "internal" })
    await service.until(token, task_uuid, "failed")
    const { paused_reason } = await untilState(id, "paused")
    assert.strictEqual(paused_reason?.type, "failures")
    assert.strictEqual((await call("POST", `/${id}/resume`)).body.state, "active")
  })
})

describe("tokens", () => {
  it("fail a run at once that TOKEN_URL refuses, and pause the schedule after three", async () => {
    const { create, get, runs, sub, untilRuns, untilState } = await schedulerOf()
    issuer.status.set(sub, 403)
    const { id } = await create(hourly)
    for (let run = 1; run <= 3; run++) {
      await moveTo(id, hourAgo(0))
      await untilRuns(id, Array.from({ length: run }, () => "failed"))
      if (run === 3) break
      assert.strictEqual((await get(id)).state, "active")
      await ageRuns(id)
    }
    assert.match((await runs(id))[0]!.error ?? "", /403/)
    assert.strictEqual((await untilState(id, "paused")).paused_reason?.type, "token")
  })

  it("are tried again when TOKEN_URL fails otherwise", async () => {
    const { create, runs, sub, untilRuns } = await schedulerOf()
    issuer.status.set(sub, 503)
    const { id } = await create({ type: "once", delay: 1, task })
    await untilRuns(id, ["waiting"])
    assert.match((await runs(id))[0]!.error ?? "", /503/)
    issuer.status.delete(sub)
    await untilRuns(id, ["created"])
  })

  it("are tried once more before the window of a run ends", async () => {
    const { call, create, sub, untilRuns } = await schedulerOf()
    // After 0, 1, 3 and 7 s; the next pause of 8 s would end after the window, also when these requests take up to 7 s.
    issuer.unavailable.set(sub, 4)
    const { id } = await create({ type: "once", delay: 500, task, catchup_window: 60 })
    await call("POST", `/${id}/pause`)
    await moveTo(id, new Date(Date.now() - 46_000))
    await call("POST", `/${id}/resume`)
    await untilRuns(id, ["created"])
    assert.strictEqual(issuer.asked.filter((asked) => asked.sub === sub).length, 5)
  })

  it("of another user are refused", async () => {
    const { create, runs, sub, untilRuns } = await schedulerOf()
    issuer.other.set(sub, "somebody")
    const { id } = await create({ type: "once", delay: 1, task })
    await untilRuns(id, ["failed"])
    assert.match((await runs(id))[0]!.error ?? "", /another user/)
  })

  const revoke = (body: object) => service.call("POST", "/internal/tokens/revoke", internalToken, body)

  it("pause what they authorized when they are revoked", async () => {
    const jti = randomUUID()
    const { call, create, get, sub } = await schedulerOf(undefined, { jti })
    const other = await schedulerOf(sub)
    const [made, others] = [await create(hourly), await other.create(hourly)]
    const changed = await other.create(hourly)
    await call("PATCH", `/${changed.id}`, { name: "changed" })
    assert.strictEqual((await revoke({ jti })).status, 204)
    for (const { id } of [made, changed]) {
      const { paused_reason, state } = await other.get(id)
      assert.deepStrictEqual([state, paused_reason?.type], ["paused", "revoked"])
    }
    assert.strictEqual((await other.get(others.id)).state, "active")
    assert.strictEqual((await other.call("POST", `/${made.id}/resume`)).body.state, "active")
    assert.isUndefined((await get(made.id)).state)
  })

  it("of a user pause the schedules that were made before the moment", async () => {
    const { create, sub } = await schedulerOf(undefined, { iat: Math.floor(Date.now() / 1000) - 100 })
    const { id } = await create(hourly)
    assert.strictEqual((await revoke({ sub })).status, 204)
    const later = await schedulerOf(sub, { iat: Math.floor(Date.now() / 1000) + 2 })
    assert.strictEqual((await later.get(id)).paused_reason?.type, "revoked")
    assert.strictEqual((await later.call("POST", `/${id}/resume`)).body.state, "active")
  })
})

describe("two nodes", () => {
  it("make one task of each moment, and those of a node that was killed", async () => {
    const other = await Service.start(system.settings)
    try {
      const schedulers = await Promise.all(Array.from({ length: 40 }, () => schedulerOf()))
      const made = await Promise.all(
        schedulers.slice(1).map(({ create }) => create({ type: "once", delay: 2, task }))
      )
      // A node that died between its claim and the creation has left a run with a lease.
      const left = await schedulers[0]!.create({ ...hourly, cron: "0 0 29 2 *" })
      await system.database.query(
        `INSERT INTO schedule_runs (schedule_id, scheduled_for, outcome, attempt, try_at)
        VALUES ('${left.id}', now() - interval '1 minute', 'due', 1, now())`
      )
      await Promise.all(made.map(({ id }, index) => schedulers[index + 1]!.untilState(id, "ended")))
      await Promise.all([left, ...made].map(({ id }, index) => schedulers[index]!.untilRuns(id, ["created"])))
      for (const { token } of schedulers) {
        assert.strictEqual((await service.call("GET", "/api/tasks", token)).body.meta.total, 1)
      }
    } finally {
      await other.stop("SIGKILL")
    }
  })
})
