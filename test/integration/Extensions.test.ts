/** CONTRACT 2's extensions: idempotency keys. */
import { afterAll, assert, beforeAll, describe, it } from "vitest"
import { type OpenDatabase, openDatabase } from "../kit/databases.ts"
import { report, ScriptedCore, turnOf } from "../kit/ScriptedCore.ts"
import { eventually, mint, Service } from "../kit/Service.ts"

let database: OpenDatabase
let core: ScriptedCore
let service: Service

beforeAll(async () => {
  database = await openDatabase()
  core = await new ScriptedCore().listen()
  service = await Service.start({ DATABASE_URL: database.url, CORE_URL: core.url })
})

afterAll(async () => {
  await service.stop()
  await core.close()
  await database.drop()
})

const runOf = (uuid: string) => eventually(async () => core.runOf(uuid), (run) => run !== undefined).then((run) => run!)

const body = (text: string) => ({ assistant_id: 1, input: [{ type: "text", text }] })

const interrupt = async (uuid: string) => {
  const run = await runOf(uuid)
  await report(run, { type: "interrupted", state: null, tool_calls: [{ id: "c1", name: "look", arguments: {} }] })
  return run
}

describe("Idempotency-Key", () => {
  const withKey = (key: string) => ({ "idempotency-key": key })

  it("makes one task of creates that are tried again, at once or later, before the limit is looked at", async () => {
    const token = await mint("again")
    const create = (text: string, key: string) => service.call("POST", "/api/tasks", token, body(text), withKey(key))
    const answers = await Promise.all(Array.from({ length: 12 }, () => create("one", "k1")))
    assert.deepStrictEqual(new Set(answers.map(({ status }) => status)), new Set([201]))
    assert.strictEqual(new Set(answers.map(({ body: { uuid } }) => uuid)).size, 1)
    const replays = answers.filter(({ headers }) => headers.get("idempotent-replayed") === "true")
    assert.strictEqual(replays.length, 11)
    for (const { headers } of answers) {
      assert.strictEqual(headers.get("location"), `/api/tasks/${answers[0]!.body.uuid}`)
    }

    for (const key of ["k2", "k3", "k4", "k5"]) assert.strictEqual((await create(key, key)).status, 201)
    assert.strictEqual((await create("six", "k6")).status, 429)
    const replay = await create("one", "k1")
    assert.deepStrictEqual([replay.status, replay.body], [201, answers[0]!.body])
    // What was refused took no key.
    const run = await runOf(answers[0]!.body.uuid)
    await report(run, { type: "completed", turn: turnOf("done") })
    assert.strictEqual((await create("six", "k6")).status, 201)
    assert.strictEqual((await create("one", "k1")).body.uuid, answers[0]!.body.uuid)
  })

  it("is each user's own, and refuses another body and what is no key", async () => {
    const [one, other] = [await mint("key-one"), await mint("key-other")]
    const create = (token: string, text: string, key: string) =>
      service.call("POST", "/api/tasks", token, body(text), withKey(key))
    const first = await create(one, "x", "shared")
    assert.strictEqual((await create(other, "x", "shared")).headers.get("idempotent-replayed"), null)
    const reused = await create(one, "y", "shared")
    assert.deepStrictEqual([reused.status, Object.keys(reused.body.errors)], [422, ["Idempotency-Key"]])
    const spaced = JSON.stringify(body("x"), null, 2)
    assert.strictEqual(
      (await service.call("POST", "/api/tasks", one, spaced, withKey("shared"))).body.uuid,
      first.body.uuid
    )
    for (const key of ["", "a b", "é", "x".repeat(256), "tab\there"]) {
      const answer = await create(one, "x", key)
      assert.deepStrictEqual([answer.status, Object.keys(answer.body.errors ?? {})], [422, ["Idempotency-Key"]], key)
    }
    assert.strictEqual((await create(one, "z", "x".repeat(255))).status, 201)
    // A body that breaks a rule takes no key.
    const broken = await service.call("POST", "/api/tasks", one, { assistant_id: 0 }, withKey("later"))
    assert.strictEqual(broken.status, 422)
    assert.strictEqual((await create(one, "x", "later")).status, 201)
  })

  it("answers tool results and cancels again after the task has moved on", async () => {
    const token = await mint("resumer")
    const { uuid } = (await service.create(token, "x")).body
    const results = (output: unknown) => ({ results: [{ tool_call_id: "c1", output }] })
    const submit = (output: unknown, key: string) =>
      service.call("POST", `/api/tasks/${uuid}/tool-results`, token, results(output), withKey(key))
    assert.strictEqual((await submit(1, "r1")).status, 409)
    await interrupt(uuid)
    const answers = await Promise.all([submit(1, "r1"), submit(1, "r1"), submit(1, "r1")])
    assert.deepStrictEqual(answers.map(({ status }) => status), [200, 200, 200])
    assert.strictEqual(answers.filter(({ headers }) => headers.has("idempotent-replayed")).length, 2)
    assert.strictEqual((await submit(1, "r2")).status, 409)
    assert.strictEqual((await submit(2, "r1")).status, 422)

    const second = (await service.create(token, "y")).body.uuid
    await interrupt(second)
    const cancel = (key: string, of = second) =>
      service.call("POST", `/api/tasks/${of}/cancel`, token, { reason: "no" }, withKey(key))
    assert.strictEqual((await cancel("r1")).status, 422)
    assert.strictEqual((await cancel("c1")).headers.get("idempotent-replayed"), null)
    const again = await cancel("c1")
    assert.deepStrictEqual([again.status, again.body], [200, { uuid: second, status: "canceled" }])
    assert.strictEqual(again.headers.get("idempotent-replayed"), "true")
    assert.strictEqual((await cancel("c1", uuid)).status, 422)
    assert.strictEqual((await cancel("c2")).status, 409)
  })
})
