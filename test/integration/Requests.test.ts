/** Metadata, kept requests and reruns, over REST and RPC. */
import { assert, describe, it } from "vitest"
import * as Limits from "../../src/domain/Limits.ts"
import { callRpc } from "../kit/callRpc.ts"
import { complete, interrupt } from "../kit/ScriptedCore.ts"
import { type Answer, mint } from "../kit/Service.ts"
import { sharedSystem } from "../kit/System.ts"

const { runOf, service } = await sharedSystem()

const input = [{ type: "text", text: "x" }]
const create = async (token: string, more: object = {}): Promise<string> =>
  (await service.create(token, "x", more)).body.uuid
const get = async (token: string, address: string) => (await service.call("GET", `/api/tasks${address}`, token)).body
const rerun = (token: string, uuid: string, body?: unknown, headers = {}) =>
  service.call("POST", `/api/tasks/${uuid}/rerun`, token, body, headers)
const cancelAll = (token: string) => service.call("POST", "/api/tasks/cancel-interrupted", token)
const faults = ({ body, status }: Answer) => [status, Object.keys(body.errors ?? {})]

describe("?include=request", () => {
  it("returns the request without secrets, while the task lives and after its end", async () => {
    const token = await mint("asked")
    const request = {
      assistant_id: 1,
      input,
      turns: [{ role: "user", content: "before" }],
      client_tools: [{ type: "function", name: "look" }],
      llm_model_id: 3,
      image_generator_id: null,
      max_execution_time: 600,
      priority: 2,
      callback_url: "http://127.0.0.1:9/hook",
      metadata: { a: "b" }
    }
    const { uuid } = (await service.call("POST", "/api/tasks", token, { ...request, callback_secret: "s" })).body
    const read = () => get(token, `/${uuid}?include=request,metadata,waiting_on`)
    const asked = { ...request, continues: null, options: null }
    assert.deepStrictEqual((await read()).request, asked)
    const run = await runOf(uuid)
    assert.notProperty(run, "metadata")
    await interrupt(run, { state: { secret: 1 } })
    await cancelAll(token)
    const ended = await read()
    assert.deepStrictEqual([ended.status, ended.request, ended.waiting_on], ["canceled", asked, null])
    assert.notProperty(await get(token, `/${uuid}?include=metadata`), "request")
    const unknown = await service.call("GET", `/api/tasks/${uuid}?include=request,secret`, token)
    assert.deepStrictEqual(faults(unknown), [422, ["include"]])
  })
})

describe("GET /api/tasks?q= and ?include=excerpt", () => {
  const found = async (token: string, q: string, more = "") =>
    (await get(token, `?include=excerpt&q=${encodeURIComponent(q)}${more}`)).data
      .map(({ excerpt }: { excerpt: string }) => excerpt)

  it("show the beginning of each request, and find the caller's tasks by it, by id and by metadata", async () => {
    const [token, other] = [await mint("searcher"), await mint("another-searcher")]
    const { uuid } =
      (await service.create(token, "Refund the \"order\" 100%_ of Ångström 🙏", { metadata: { Ticket: "HELP-17" } }))
        .body
    const second = (await service.create(token, `${"x".repeat(119)}yz`)).body.uuid
    await service.create(other, "Refund of another user")
    await rerun(token, uuid, { metadata: null })
    const all = [
      "Refund the \"order\" 100%_ of Ångström 🙏",
      `${"x".repeat(119)}y`,
      "Refund the \"order\" 100%_ of Ångström 🙏"
    ]
    assert.deepStrictEqual(
      (await get(token, "?include=excerpt")).data.map(({ excerpt }: { excerpt: string }) => excerpt),
      all
    )
    assert.deepStrictEqual(await found(token, "REFUND"), [all[0], all[0]])
    assert.deepStrictEqual(await found(token, "help-1"), [all[0]])
    assert.deepStrictEqual(await found(token, "ticket: HELP"), [all[0]])
    assert.deepStrictEqual(await found(token, "refund", "&metadata[Ticket]=HELP-17&status=pending,processing"), [
      all[0]
    ])
    const short = `${second.slice(0, 8)}…${second.slice(-4)}`
    for (const id of [second, second.slice(-6), second.toUpperCase(), short, short.replace("…", "...")]) {
      assert.deepStrictEqual(await found(token, id), [all[1]], id)
      assert.deepStrictEqual(await found(other, id), [], id)
    }
    for (const text of ["%", "_", "100%_", "\"order\"", "ångström", "🙏"]) {
      assert.lengthOf(await found(token, text), text === "" ? 0 : 2, text)
    }
    for (
      const text of ["%%", "x%y", "\\", "' OR true --", "assistant_id", "\"input\"", ".*", "$1", "of another user"]
    ) {
      assert.deepStrictEqual(await found(token, text), [], text)
    }
  })
})

describe("POST /api/tasks/{uuid}/rerun", () => {
  it("creates a task with the request of a live or ended task, and replaces fields of it", async () => {
    const token = await mint("asks again")
    const turn = { output: [], messages: [{ role: "tool", content: 1 }], metadata: {} }
    const uuid = await create(token, {
      turns: [turn],
      llm_model_id: 2,
      max_execution_time: 60,
      metadata: { a: "1" },
      callback_url: "http://127.0.0.1:9/",
      callback_secret: "s"
    })
    const asked = async (of: string) => (await get(token, `/${of}?include=request`)).request
    const original = await asked(uuid)
    const live = await rerun(token, uuid)
    assert.deepStrictEqual([live.status, live.body.status, live.body.max_execution_time], [201, "pending", 60])
    assert.strictEqual(live.headers.get("location"), `/api/tasks/${live.body.uuid}`)
    assert.deepStrictEqual(await asked(live.body.uuid), original)
    await complete(await runOf(uuid))

    const changes = {
      input: [{ type: "text", text: "y" }],
      llm_model_id: null,
      callback_url: null,
      metadata: { b: "2" }
    }
    const changed = await rerun(token, uuid, { ...changes, max_execution_time: null })
    const expected = { ...original, ...changes, max_execution_time: 86_400 }
    assert.deepStrictEqual(await asked(changed.body.uuid), expected)
    assert.deepStrictEqual((await runOf(changed.body.uuid)).input, changes.input)
    const without = await rerun(token, changed.body.uuid, { turns: null, metadata: null })
    assert.deepStrictEqual(await asked(without.body.uuid), { ...expected, turns: [], metadata: {} })
  })

  it("checks the caller, the task, the body, the kept request and the limit, in this order", async () => {
    const token = await mint("checks")
    const large = await create(token, { turns: [{ role: "user", content: "x".repeat(Limits.keptRequestBytes) }] })
    assert.isNull((await get(token, `/${large}?include=request`)).request)
    for (let count = 1; count < 5; count++) await create(token)
    const invalid = { input: [], assistant_id: null }
    assert.strictEqual((await rerun("nobody", large, invalid)).status, 401)
    assert.strictEqual((await rerun(await mint("another"), large, invalid)).status, 403)
    assert.strictEqual((await rerun(token, "nothing", invalid)).status, 404)
    assert.deepStrictEqual(faults(await rerun(token, large, invalid)), [422, ["assistant_id", "input"]])
    assert.strictEqual((await rerun(token, large)).status, 409)
    const { data } = await get(token, "")
    assert.strictEqual((await rerun(token, data[0].uuid)).status, 429)
    await complete(await runOf(large))
    assert.isNull((await get(token, `/${large}?include=request`)).request)
  })

  it("honours an Idempotency-Key", async () => {
    const token = await mint("keyed")
    const uuid = await create(token)
    const withKey = (body: object, key = "k1") => rerun(token, uuid, body, { "idempotency-key": key })
    const first = await withKey({ max_execution_time: 9 })
    for (let count = 2; count < 5; count++) await create(token)
    const replay = await withKey({ max_execution_time: 9 })
    assert.deepStrictEqual([replay.status, replay.body], [201, first.body])
    assert.strictEqual(replay.headers.get("idempotent-replayed"), "true")
    for (const path of [`${uuid}/rerun/`, `${uuid.toUpperCase()}/rerun`]) {
      const headers = { "idempotency-key": "k1" }
      const same = await service.call("POST", `/api/tasks/${path}`, token, { max_execution_time: 9 }, headers)
      assert.deepStrictEqual([same.status, same.body], [201, first.body], path)
    }
    assert.deepStrictEqual(faults(await withKey({})), [422, ["Idempotency-Key"]])
    assert.strictEqual((await withKey({}, "k2")).status, 429)
  })
})

describe("the internal interface", () => {
  it("creates, lists, reads and reruns by the same rules", async () => {
    const rpc = (tag: string, payload: object) => callRpc(service, tag, { sub: "rpc-labels", ...payload })
    const { uuid } = await rpc("Tasks.create", { task: { assistant_id: 1, input, metadata: { a: "1" } } })
    const again = await rpc("Tasks.rerun", { uuid, body: { metadata: { a: "2" } } })
    const list = await rpc("Tasks.list", { metadata: { a: "2" }, include: ["metadata"] })
    assert.deepStrictEqual(
      list.data.map(({ metadata, uuid }: { metadata: object; uuid: string }) => [uuid, metadata]),
      [[again.uuid, { a: "2" }]]
    )
    const searched = await rpc("Tasks.list", { q: "a: 2", include: ["excerpt"] })
    assert.deepStrictEqual(searched.data.map(({ excerpt }: { excerpt: string }) => excerpt), ["x"])
    const read = await rpc("Tasks.get", { uuid: again.uuid, include: ["request"] })
    assert.deepStrictEqual(read.request.metadata, { a: "2" })
    assert.deepStrictEqual(Object.keys((await rpc("Tasks.get", { uuid, include: ["x"] })).errors), ["include"])
    assert.deepStrictEqual(Object.keys((await rpc("Tasks.list", { metadata: { a: "" } })).errors), ["metadata.a"])
  })
})
