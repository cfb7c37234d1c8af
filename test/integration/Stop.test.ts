/** A task ends while the core works on it: `POST /api/tasks/{uuid}/stop` of clients, and `Tasks.withdraw` of internal services. */
import { assert, describe, it } from "vitest"
import { callRpc } from "../kit/callRpc.ts"
import { complete, interrupt, report, turnOf } from "../kit/ScriptedCore.ts"
import { mint } from "../kit/Service.ts"
import { sharedSystem } from "../kit/System.ts"

const { runOf, service } = await sharedSystem()

const create = async (sub: string) => {
  const token = await mint(sub)
  const { uuid } = (await service.create(token, "x")).body
  const stop = (body?: object, key?: string) =>
    service.call("POST", `/api/tasks/${uuid}/stop`, token, body, key === undefined ? {} : { "idempotency-key": key })
  return { sub, token, uuid, stop, run: await runOf(uuid) }
}
type Created = Awaited<ReturnType<typeof create>>

const withdraw = ({ sub, uuid }: Created, more: object = {}) =>
  callRpc(service, "Tasks.withdraw", { sub, uuid, ...more })

/** Each way in, and the status of its answer. */
const doors = [
  ["a stop", (task: Created, body?: object) => task.stop(body).then(({ status }) => status)],
  [
    "a withdrawal",
    (task: Created, body?: object) =>
      withdraw(task, body && { body }).then((found) => found.status === "canceled" && !found._tag ? 200 : found._tag)
  ]
] as const

describe.each(doors)("%s", (name, end) => {
  it("keeps the reason and the partial result", async () => {
    const task = await create(`explains ${name}`)
    await report(task.run, { type: "progress", turn: turnOf("half") })
    assert.strictEqual(await end(task, { reason: "enough" }), 200)
    const { body } = await service.get(task.token, task.uuid)
    assert.deepStrictEqual([body.status, body.error, body.turn], ["canceled", "enough", turnOf("half")])
    const events = await service.call("GET", `/api/tasks/${task.uuid}/events`, task.token)
    assert.match(String(events.body), /event: canceled\ndata: .*"status":"canceled"/)
  })

  it("without a reason says so", async () => {
    const task = await create(`silent ${name}`)
    await interrupt(task.run)
    assert.strictEqual(await end(task), 200)
    assert.strictEqual((await service.get(task.token, task.uuid)).body.error, "canceled")
  })

  it("races with the end of the run: one of the two wins", async () => {
    for (let round = 0; round < 10; round++) {
      const task = await create(`racer ${name} ${round}`)
      const [completed, ended] = await Promise.all([complete(task.run), end(task)])
      const { status } = (await service.get(task.token, task.uuid)).body
      assert.include(["completed", "canceled"], status)
      assert.deepStrictEqual([completed.status, ended === 200], status === "completed" ? [200, false] : [409, true])
    }
  })
})

it("a stop takes effect once for each idempotency key", async () => {
  const { stop, uuid } = await create("repeats")
  const answers = await Promise.all([stop({}, "s1"), stop({}, "s1"), stop({}, "s1")])
  for (const { body, status } of answers) assert.deepStrictEqual([status, body.uuid], [200, uuid])
  assert.strictEqual(answers.filter(({ headers }) => headers.has("idempotent-replayed")).length, 2)
  assert.strictEqual((await stop({}, "s1")).headers.get("idempotent-replayed"), "true")
  assert.strictEqual((await stop({ reason: "other" }, "s1")).status, 422)
  const late = await stop({}, "s2")
  assert.deepStrictEqual([late.status, late.body.code], [409, "task_has_ended"])
})

it("a withdrawal is refused for another user's task, an unknown one, one that has ended and a wrong reason", async () => {
  const task = await create("owner")
  const refusal = async (more: object) => (await withdraw(task, more))._tag
  assert.strictEqual(await refusal({ sub: "stranger" }), "TaskBelongsToAnother")
  assert.strictEqual(await refusal({ uuid: "nonsense" }), "TaskNotFound")
  assert.strictEqual(await refusal({ body: { reason: "x".repeat(1001) } }), "InvalidRequest")
  await complete(task.run)
  assert.strictEqual(await refusal({}), "TaskHasEnded")
})
