/** The queue as clients see it, and the priority that they give: by REST, RPC and lists. */
import { assert, describe, it, onTestFinished } from "vitest"
import { callRpc } from "../kit/callRpc.ts"
import { complete, interrupt, report, type StartedRun } from "../kit/ScriptedCore.ts"
import { eventually, internalToken, mint } from "../kit/Service.ts"
import { use } from "../kit/suite.ts"
import { startSystem } from "../kit/System.ts"

const system = await use(startSystem({ CORE_RUNS: "1" }))
const { core, database, service } = system

const waitingOf = async (token: string, uuid: string) =>
  (await service.call("GET", `/api/tasks/${uuid}?include=waiting_on`, token)).body.waiting_on

const create = async (token: string, more: object = {}) => {
  const { body, status } = await service.create(token, "x", more)
  assert.strictEqual(status, 201, JSON.stringify(body))
  return String(body.uuid)
}

/** Keeps the only place of the core. */
const occupy = async () => {
  const run = await system.runOf(await create(await mint("occupies")))
  await report(run, { type: "processing" })
  return run
}

/** Ends each run as it comes, so that the queue is empty. */
const drain = async (run: StartedRun) => {
  core.onStart = (next) => {
    setImmediate(() => void complete(next))
    return 202
  }
  await complete(run)
  await eventually(
    () => database.query<{ count: number }>("SELECT count(*)::int AS count FROM tasks WHERE completed_at IS NULL"),
    ([row]) => row?.count === 0
  )
  core.onStart = () => 202
}

describe("a task in the queue", () => {
  it("has its place in waiting_on, also in the list and by RPC, with a tag of its own", async () => {
    const run = await occupy()
    const token = await mint("queued")
    const [first, second] = [await create(token), await create(token)]
    const waiting = await waitingOf(token, first)
    assert.containSubset(waiting, { party: "queue", for: "room", position: 1 })
    assert.match(waiting.until, /^\d{4}-.*Z$/)
    assert.strictEqual((await waitingOf(token, second)).position, 2)
    assert.notProperty((await service.get(token, second)).body, "waiting_on")

    const { body: page } = await service.call("GET", "/api/tasks?include=waiting_on", token)
    const positions = page.data.map(({ waiting_on: on }: { waiting_on: { position: number } }) => on.position)
    assert.deepStrictEqual(positions, [2, 1])
    const byRpc = await callRpc(service, "Tasks.get", { sub: "queued", uuid: second, include: ["waiting_on"] })
    assert.deepStrictEqual(byRpc.waiting_on, await waitingOf(token, second))

    const path = `/api/tasks/${second}?include=waiting_on`
    const { headers } = await service.call("GET", path, token)
    const etag = headers.get("etag") ?? ""
    const again = () => service.call("GET", path, token, undefined, { "if-none-match": etag })
    assert.strictEqual((await again()).status, 304)
    await complete(run)
    const moved = await eventually(again, ({ status }) => status === 200)
    assert.strictEqual(moved.body.waiting_on.position, 1)
    assert.strictEqual((await waitingOf(token, first)).party, "core")
    await drain(await system.runOf(first))
  })

  it("waits again after tool results, before new ones, and stays processing", async () => {
    const token = await mint("resumes")
    const uuid = await create(token)
    const run = await system.runOf(uuid)
    await interrupt(run)
    await service.until(token, uuid, "interrupted")
    const other = await occupy()
    const later = await create(token)
    const results = { results: [{ tool_call_id: "c1", output: 1 }] }
    assert.strictEqual((await service.call("POST", `/api/tasks/${uuid}/tool-results`, token, results)).status, 200)
    assert.containSubset(await waitingOf(token, uuid), { party: "queue", for: "room", position: 1 })
    assert.strictEqual((await service.get(token, uuid)).body.status, "processing")
    assert.strictEqual((await waitingOf(token, later)).position, 2)
    await complete(other)
    assert.isNotNull((await system.runOf(uuid, run)).resume)
    await drain(await system.runOf(uuid, run))
  })
})

describe("priority", () => {
  it("is 5 by default, 0 to 5 by REST, and shown with the request", async () => {
    const token = await mint("chooses")
    for (const priority of [-1, 6, 9, 2.5, "5"]) {
      const { body, status } = await service.create(token, "x", { priority })
      assert.deepStrictEqual([status, Object.keys(body.errors)], [422, ["priority"]], String(priority))
    }
    const shown = async (uuid: string) =>
      (await service.call("GET", `/api/tasks/${uuid}?include=request`, token)).body.request.priority
    assert.strictEqual(await shown(await create(token)), 5)
    assert.strictEqual(await shown(await create(token, { priority: null })), 5)
    const low = await create(token, { priority: 0 })
    assert.strictEqual(await shown(low), 0)
    const rerun = (of: string, body: object = {}) => service.call("POST", `/api/tasks/${of}/rerun`, token, body)
    const again = await rerun(low)
    assert.deepStrictEqual([again.status, await shown(again.body.uuid)], [201, 0])
    const refused = await rerun(low, { priority: 7 })
    assert.deepStrictEqual([refused.status, Object.keys(refused.body.errors)], [422, ["priority"]])
    await drain(core.runs.at(-1)!)
  })

  it("may be up to 9 by RPC, which a rerun of the user lowers to 5", async () => {
    const [sub, token] = ["important", await mint("important")]
    const task = { assistant_id: 1, input: [{ type: "text", text: "x" }] }
    const { uuid } = await callRpc(service, "Tasks.create", { sub, task: { ...task, priority: 9 } })
    const shown = async (of: string) =>
      (await service.call("GET", `/api/tasks/${of}?include=request`, token)).body.request.priority
    assert.strictEqual(await shown(uuid), 9)
    const refused = await callRpc(service, "Tasks.create", { sub, task: { ...task, priority: 10 } })
    assert.deepStrictEqual([refused._tag, Object.keys(refused.errors)], ["InvalidRequest", ["priority"]])
    const { body } = await service.call("POST", `/api/tasks/${uuid}/rerun`, token, {})
    assert.strictEqual(await shown(body.uuid), 5)
    const raised = await callRpc(service, "Tasks.rerun", { sub, uuid, body: { priority: 8 } })
    assert.strictEqual(await shown(raised.uuid), 8)
    await drain(core.runs.at(-1)!)
  })

  it("decides who is next", async () => {
    const run = await occupy()
    const [one, other, third] = [await mint("one"), await mint("other"), await mint("third")]
    const low = await create(one, { priority: 1 })
    const usual = await create(other)
    const task = { assistant_id: 1, input: [{ type: "text", text: "x" }], priority: 9 }
    const { uuid: high } = await callRpc(service, "Tasks.create", { sub: "third", task })
    assert.deepStrictEqual(
      [await waitingOf(third, high), await waitingOf(other, usual), await waitingOf(one, low)].map((on) => on.position),
      [1, 2, 3]
    )
    const before = core.runs.length
    await drain(run)
    assert.deepStrictEqual(core.runs.slice(before).map(({ task_id }) => task_id), [high, usual, low])
  })
})

describe("the metrics of the queue", () => {
  it("count what runs and waits by assistant", async () => {
    const run = await occupy()
    const token = await mint("counted")
    for (let count = 0; count < 3; count++) await create(token, { assistant_id: 7 })
    const metrics = () => service.call("GET", "/internal/metrics", internalToken)
    const { body } = await eventually(metrics, ({ body }) => /^task_queue_waiting\{assistant="7"[^}]*\} 3$/m.test(body))
    assert.match(body, /^task_queue_running\{assistant="1"[^}]*\} 1$/m)
    assert.match(body, /^task_queue_oldest_seconds\{?[^}]*\}? \d/m)
    assert.match(body, /^core_busy_duration_seconds\{?[^}]*\}? 0$/m)
    await drain(run)
  })
})

describe("the built-in core", () => {
  it("works on MODEL_RUNS runs at a time, and others wait longer than ACCEPTANCE_TIMEOUT", async () => {
    const settings = { CORE_URL: "", MODEL_RUNS: "1", ACCEPTANCE_TIMEOUT: "1 second" }
    const { service } = await use(startSystem(settings), onTestFinished)
    const token = await mint("patient")
    // The demo assistant that counts the seconds.
    const create = () => service.create(token, "take 2", { assistant_id: 3 })
    const uuids = [await create(), await create(), await create()].map(({ body }) => String(body.uuid))
    const places = async () => {
      const { body } = await service.call("GET", "/api/tasks?include=waiting_on", token)
      return body.data.map(({ waiting_on: on }: { waiting_on: { position: number | null } | null }) => on?.position)
        .toReversed()
    }
    assert.deepStrictEqual(await eventually(places, (all) => all.includes(2)), [null, 1, 2])
    for (const uuid of uuids) await service.until(token, uuid, "completed", 20_000)
  })
})
