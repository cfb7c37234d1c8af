/** Cancellation of pending and processing tasks by internal services. */
import { assert, describe, it, onTestFinished } from "vitest"
import { callRpc } from "../kit/callRpc.ts"
import { complete, interrupt, report, turnOf } from "../kit/ScriptedCore.ts"
import { WebhookTarget } from "../kit/ScriptedService.ts"
import { eventually, mint, Service } from "../kit/Service.ts"
import { use } from "../kit/suite.ts"
import { startSystem } from "../kit/System.ts"

const system = await use(startSystem({ WEBHOOK_ALLOW_PRIVATE: "true" }))
const target = await use(new WebhookTarget().listen())
const { core, runOf, service } = system

const create = async (sub: string, more: object = {}) => {
  const token = await mint(sub)
  const { uuid } = (await service.create(token, "x", more)).body
  return { sub, token, uuid, run: await runOf(uuid) }
}

const canceled = (uuid: string) => ({ uuid, status: "canceled" })

describe("Tasks.withdraw", () => {
  it("cancels a processing task: the core is stopped, its events are refused, and the webhook is sent", async () => {
    const { run, sub, token, uuid } = await create("worker", { callback_url: `${target.url}/hook` })
    await report(run, { type: "progress", turn: turnOf("half") })
    // REST cancels interrupted tasks only.
    assert.strictEqual((await service.call("POST", `/api/tasks/${uuid}/cancel`, token)).status, 409)
    const body = { reason: "no longer needed" }
    assert.deepStrictEqual(await callRpc(service, "Tasks.withdraw", { sub, uuid, body }), canceled(uuid))
    const task = (await service.get(token, uuid)).body
    assert.deepStrictEqual([task.status, task.error, task.turn], ["canceled", "no longer needed", turnOf("half")])
    await core.stopped(run)
    assert.deepStrictEqual(core.stops.filter(({ runId }) => runId === run.run_id).map(({ reason }) => reason), [
      "canceled"
    ])
    const late = await complete(run)
    assert.deepStrictEqual([late.status, late.body["status"]], [409, "canceled"])
    const [post] = await eventually(async () => target.postsOf(uuid), ({ length }) => length > 0)
    assert.deepStrictEqual(JSON.parse(post?.body ?? ""), task)
    const events = await (await fetch(`${service.url}/api/tasks/${uuid}/events`, {
      headers: { authorization: `Bearer ${token}` }
    })).text()
    assert.match(events, /event: canceled\ndata: .*"status":"canceled"/)
    assert.strictEqual((await callRpc(service, "Tasks.withdraw", { sub, uuid }))._tag, "TaskHasEnded")
  })

  it("cancels an interrupted task, with the reason of a cancel", async () => {
    const { run, sub, token, uuid } = await create("asked")
    await interrupt(run)
    assert.deepStrictEqual(await callRpc(service, "Tasks.withdraw", { sub, uuid }), canceled(uuid))
    assert.isNull((await service.get(token, uuid)).body.error)
  })

  it("refuses another user's task, an unknown one and a wrong reason", async () => {
    const { sub, uuid } = await create("owner")
    const fails = async (payload: object) => (await callRpc(service, "Tasks.withdraw", payload))._tag
    assert.strictEqual(await fails({ sub: "stranger", uuid }), "TaskBelongsToAnother")
    assert.strictEqual(await fails({ sub, uuid: "nonsense" }), "TaskNotFound")
    assert.strictEqual(await fails({ sub, uuid, body: { reason: "x".repeat(1001) } }), "InvalidRequest")
  })

  it("races with the end of the run: exactly one wins, and the other gets a conflict", async () => {
    const tasks = await Promise.all(Array.from({ length: 20 }, (_, index) => create(`racer-${index}`)))
    for (const { run, sub, token, uuid } of tasks) {
      const [ended, withdrawn] = await Promise.all([complete(run), callRpc(service, "Tasks.withdraw", { sub, uuid })])
      const { status } = (await service.get(token, uuid)).body
      if (status === "completed") assert.deepStrictEqual([ended.status, withdrawn._tag], [200, "TaskHasEnded"])
      else assert.deepStrictEqual([ended.status, withdrawn], [409, canceled(uuid)])
    }
  })
})

describe("kill -9 after a withdrawal", () => {
  it("delivers the stop after the restart", async () => {
    const { run, sub, uuid } = await create("unlucky")
    core.onStop = () => 503
    onTestFinished(() => void (core.onStop = () => 202))
    const doomed = await Service.start(system.settings)
    assert.deepStrictEqual(await callRpc(doomed, "Tasks.withdraw", { sub, uuid }), canceled(uuid))
    await Promise.all([doomed.stop("SIGKILL"), service.stop("SIGKILL")])
    core.onStop = () => 202
    const before = core.stops.length
    await use(Service.start(system.settings), onTestFinished)
    await eventually(
      async () => core.stops.slice(before),
      (stops) => stops.some(({ runId }) => runId === run.run_id),
      60_000
    )
  })
})
