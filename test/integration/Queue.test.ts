/** Tasks that wait until the core has room: by what the core says, and by the limits of the operator. */
import { assert, describe, it, onTestFinished } from "vitest"
import { BusyCore } from "../kit/BusyCore.ts"
import { openDatabase } from "../kit/databases.ts"
import { pause } from "../kit/pause.ts"
import { complete, report, ScriptedCore, toolCall } from "../kit/ScriptedCore.ts"
import { eventually, mint, Service } from "../kit/Service.ts"
import { use } from "../kit/suite.ts"

const start = async (core: ScriptedCore, more: Readonly<Record<string, string>> = {}) => {
  await use(core.listen(), onTestFinished)
  const database = await use(openDatabase(), onTestFinished)
  const settings = { DATABASE_URL: database.url, CORE_URL: core.url, MAX_ACTIVE_TASKS: "1000", ...more }
  return { database, settings, service: await use(Service.start(settings), onTestFinished) }
}

const createAll = (service: Service, token: string, count: number, more: object = {}) =>
  Promise.all(Array.from({ length: count }, async (_, index) => {
    const { body, status } = await service.create(token, String(index), more)
    assert.strictEqual(status, 201)
    return body.uuid as string
  }))

const statuses = async (service: Service, token: string, uuids: ReadonlyArray<string>) => {
  const answers = await Promise.all(uuids.map((uuid) => service.get(token, uuid)))
  return answers.map(({ body }) =>
    body.error === undefined || body.error === null ? body.status : `${body.status}: ${body.error}`
  )
}

const allCompleted = (service: Service, token: string, uuids: ReadonlyArray<string>, timeout = 50_000) =>
  eventually(
    () => statuses(service, token, uuids),
    (found) => found.every((status) => status === "completed"),
    timeout,
    200
  )

describe("a core without room", () => {
  it("that answers 429, or 503 with Retry-After, for long fails no task", async () => {
    const answers = [[429, undefined], [429, "1"], [503, "1"]] as const
    await Promise.all(answers.map(async ([refusal, retryAfter]) => {
      const core = new BusyCore(0, 10)
      core.refusal = refusal
      core.retryAfter = retryAfter
      const { service } = await start(core, { ACCEPTANCE_TIMEOUT: "3 seconds" })
      const user = await mint("ann")
      const uuids = await createAll(service, user, 20)
      await pause(4500)
      assert.deepStrictEqual(new Set(await statuses(service, user, uuids)), new Set(["pending"]))
      // Once a task at first, and then by probes.
      assert.isBelow(core.refusals.length, 20 + 8)
      core.room = 3
      await allCompleted(service, user, uuids)
      assert.isAtMost(core.most, 3)
      await service.logged(/The core has no room/)
    }))
  })

  it("that answers 503 without Retry-After, or breaks connections, gets runs again until they fail", async () => {
    const core = new ScriptedCore()
    const { service } = await start(core, { ACCEPTANCE_TIMEOUT: "2 seconds" })
    const user = await mint("ann")
    core.onStart = ({ input }, response) => {
      if (input[0]?.text === "broken") response.destroy()
      return 503
    }
    for (const text of ["away", "broken"]) {
      const { body } = await service.create(user, text)
      const failed = await service.until(user, body.uuid, "failed")
      assert.strictEqual(failed.body.error, "Task was not accepted by the processing core within 2 s")
      assert.isAbove(core.runs.filter(({ task_id }) => task_id === body.uuid).length, 2)
    }
  })

  it("is given no run that it may have taken as if it were new: the task fails in time", async () => {
    const core = new ScriptedCore()
    const { service } = await start(core, { ACCEPTANCE_TIMEOUT: "2 seconds" })
    const user = await mint("ann")
    let attempts = 0
    core.onStart = () => attempts++ === 0 ? 500 : 429
    const { body } = await service.create(user, "x")
    const failed = await service.until(user, body.uuid, "failed")
    assert.strictEqual(failed.body.error, "Task was not accepted by the processing core within 2 s")
  })

  it("gets nothing before its Retry-After is over", async () => {
    const core = new BusyCore(0, 10)
    core.retryAfter = "3"
    const { service } = await start(core)
    const user = await mint("ann")
    const uuids = await createAll(service, user, 1)
    await eventually(async () => core.refusals.length, (count) => count > 0)
    await createAll(service, user, 3)
    const [first, second] = await eventually(async () => core.refusals, ({ length }) => length > 1)
    assert.isAbove(second! - first!, 2950)
    core.room = 10
    await allCompleted(service, user, uuids)
  })

  it("of 4 is kept at 4, and refuses about once a second", async () => {
    const core = new BusyCore(4, 200)
    const { service } = await start(core, { ACCEPTANCE_TIMEOUT: "2 seconds" })
    const user = await mint("ann")
    const uuids = await createAll(service, user, 200)
    const begun = performance.now()
    await eventually(async () => core.taken.length, (count) => count === 200, 60_000)
    const took = performance.now() - begun
    const late = core.refusals.filter((at) => at > begun + 1000).length
    assert.isBelow(late, took / 1000 + 3)
    // 200 runs of 200 ms in 4 places take 10 s. Beside other work each pause between two of them is longer.
    assert.isBelow(took, 30_000)
    assert.strictEqual(core.most, 4)
    await allCompleted(service, user, uuids)
  }, 120_000)

  it("refuses few runs of a node that starts while many wait", async () => {
    const core = new BusyCore(4, 60_000)
    const { database, service, settings } = await start(core)
    const user = await mint("ann")
    await createAll(service, user, 100)
    await eventually(() => database.query("SELECT FROM waiting_runs"), ({ length }) => length === 96)
    await service.stop("SIGKILL")
    const before = core.refusals.length
    await use(Service.start(settings, Number(new URL(service.url).port)), onTestFinished)
    // The first runs, and a probe.
    await eventually(async () => core.refusals.length - before, (refused) => refused > 8)
    await eventually(() => database.query("SELECT FROM waiting_runs"), ({ length }) => length === 96)
    assert.isBelow(core.refusals.length - before, 40)
    assert.strictEqual(core.most, 4)
  })

  it("that has grown is filled within seconds", async () => {
    const core = new BusyCore(1, 60_000)
    const { service } = await start(core)
    const user = await mint("ann")
    await createAll(service, user, 120)
    await eventually(async () => core.refusals.length, (count) => count > 0)
    core.room = 100
    assert.strictEqual(await eventually(async () => core.live.size, (count) => count === 100, 10_000), 100)
  })

  it("makes resumed runs wait too, until the task's time limit and not longer", async () => {
    const core = new BusyCore(1, 50)
    core.end = core.interruptOnce
    const { service } = await start(core, { ACCEPTANCE_TIMEOUT: "2 seconds" })
    const user = await mint("ann")
    const { body: { uuid } } = await service.create(user, "x")
    const { body: limited } = await service.create(user, "y", { max_execution_time: 6 })
    await service.until(user, uuid, "interrupted")
    await service.until(user, limited.uuid, "interrupted")
    core.room = 0
    for (const id of [uuid, limited.uuid]) {
      const answer = await service.call("POST", `/api/tasks/${id}/tool-results`, user, {
        results: [{ tool_call_id: toolCall.id, output: 1 }]
      })
      assert.deepStrictEqual([answer.status, answer.body.status], [200, "processing"])
    }
    const failed = await service.until(user, limited.uuid, "failed")
    assert.match(failed.body.error, /Task exceeded/)
    assert.strictEqual((await service.get(user, uuid)).body.status, "processing")
    core.room = 1
    await service.until(user, uuid, "completed", 15_000)
  })

  it("keeps nobody from withdrawing a waiting task", async () => {
    const core = new BusyCore(0, 10)
    const { database, service } = await start(core)
    const user = await mint("ann")
    const [uuid = ""] = await createAll(service, user, 1)
    await eventually(() => database.query("SELECT FROM waiting_runs"), ({ length }) => length === 1)
    await database.query(
      `INSERT INTO token_revocations (sub, issued_before) VALUES ('ann', now() + interval '1 minute')`
    )
    await eventually(
      () => database.query<{ status: string; error: string }>(`SELECT status, error FROM tasks WHERE uuid = '${uuid}'`),
      ([row]) => row?.status === "failed" && row.error === "Token revoked"
    )
    assert.lengthOf(await database.query("SELECT FROM waiting_runs"), 0)
  })
})

describe("CORE_RUNS", () => {
  it("is never exceeded and always used, and interrupted tasks hold no room", async () => {
    const core = new BusyCore(1000, 100)
    core.end = (run) => run.input[0]?.text === "asks" && run.resume === null ? core.interruptOnce(run) : complete(run)
    const { service } = await start(core, { CORE_RUNS: "4" })
    const user = await mint("ann")
    const { body: { uuid: first } } = await service.create(user, "asks")
    await allCompleted(service, user, await createAll(service, user, 40))
    assert.strictEqual(core.most, 4)
    assert.lengthOf(core.refusals, 0)
    assert.strictEqual((await service.get(user, first)).body.status, "interrupted")
    core.takes = 1000
    const more = await createAll(service, user, 8)
    await service.call("POST", `/api/tasks/${first}/tool-results`, user, {
      results: [{ tool_call_id: toolCall.id, output: 1 }]
    })
    await allCompleted(service, user, [first, ...more])
    assert.strictEqual(core.most, 4)
    // It came before the new runs that waited.
    const place = core.taken.findIndex(({ resume }) => resume !== null)
    assert.isAtMost(place, core.taken.length - 4)
  })

  it("lets users take turns, and passes over assistants without room", async () => {
    const core = new BusyCore(1000, 150)
    const { service } = await start(core, { CORE_RUNS: "2", CORE_RUNS_PER_ASSISTANT: "1" })
    const [ann, bob] = [await mint("ann"), await mint("bob")]
    const created = Promise.withResolvers<void>()
    core.held = created.promise
    const uuids: Array<[string, string]> = []
    for (let count = 0; count < 5; count++) uuids.push([ann, (await service.create(ann, `ann ${count}`)).body.uuid])
    uuids.push([bob, (await service.create(bob, "bob 0")).body.uuid])
    const other = await service.create(ann, "other", { assistant_id: 2 })
    const [, second] = await eventually(async () => core.taken, ({ length }) => length === 2)
    assert.strictEqual(second!.task_id, other.body.uuid)
    created.resolve()
    for (const [token, uuid] of uuids) await service.until(token, uuid, "completed")
    const texts = core.taken.map(({ input }) => input[0]?.text)
    // Ann's second task came first, and Bob's after it: a user's next task comes after everyone's first.
    assert.isAtMost(texts.indexOf("bob 0"), 3)
    assert.deepStrictEqual(
      texts.filter((text) => text?.startsWith("ann")),
      [0, 1, 2, 3, 4].map((count) => `ann ${count}`)
    )
    assert.isAtMost(core.most, 2)
  })

  it("holds through kill -9 and restart, and over several nodes", async () => {
    const core = new BusyCore(1000, 400)
    const { database, service, settings } = await start(core, { CORE_RUNS: "4" })
    const user = await mint("ann")
    const uuids = await createAll(service, user, 40)
    await eventually(async () => core.taken.length, (count) => count > 6)
    await service.stop("SIGKILL")
    const [one, two] = await Promise.all([
      use(Service.start({ ...settings, PUBLIC_URL: service.url }, Number(new URL(service.url).port)), onTestFinished),
      use(Service.start(settings), onTestFinished)
    ])
    const more = await createAll(two, user, 20)
    await allCompleted(one, user, [...uuids, ...more])
    assert.strictEqual(core.most, 4)
    assert.deepStrictEqual(await database.query("SELECT FROM waiting_runs"), [])
    assert.deepStrictEqual(await database.query("SELECT FROM tasks WHERE room IS NOT NULL"), [])
  }, 120_000)

  it("counts runs from before it was set", async () => {
    const core = new ScriptedCore()
    core.onStart = (run) => {
      report(run, { type: "processing" }).catch(() => {})
      return 202
    }
    const { service, settings } = await start(core)
    const user = await mint("ann")
    const uuids = await createAll(service, user, 3)
    for (const uuid of uuids) await service.until(user, uuid, "processing")
    await service.stop()
    const limited = await use(
      Service.start({ ...settings, CORE_RUNS: "3" }, Number(new URL(service.url).port)),
      onTestFinished
    )
    const { body } = await limited.create(user, "waits")
    await pause(1500)
    assert.isUndefined(core.runOf(body.uuid))
    await complete(core.runOf(uuids[0]!)!)
    await core.run(body.uuid)
  })
})

describe("settings", () => {
  for (
    const [name, value] of [["CORE_RUNS", "0"], ["CORE_RUNS", "1.5"], ["CORE_RUNS_PER_ASSISTANT", "-1"], [
      "CORE_RUNS_PER_ASSISTANT",
      "many"
    ]] as const
  ) {
    it(`refuse ${name}=${value} by name`, async () => {
      const database = await use(openDatabase(), onTestFinished)
      const problem = await Service.start({ DATABASE_URL: database.url, [name]: value }).then(
        () => assert.fail("it started"),
        (error: Error) => error.message
      )
      assert.match(problem, new RegExp(`${name}: `))
    })
  }
})
