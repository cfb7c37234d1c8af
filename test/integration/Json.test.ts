/** JSON that the gateway passes on reaches its receivers byte for byte, and no legal result is refused. */
import { assert, describe, it } from "vitest"
import { documents } from "../kit/keptJson.ts"
import { report, type StartedRun } from "../kit/ScriptedCore.ts"
import { WebhookTarget } from "../kit/ScriptedService.ts"
import { eventually, internalToken, mint } from "../kit/Service.ts"
import { use } from "../kit/suite.ts"
import { sharedSystem } from "../kit/System.ts"

const target = await use(new WebhookTarget().listen())
const system = await sharedSystem()
const { service } = system

const send = (path: string, token: string, body: string) => service.call("POST", path, token, body)

const sendEvent = (body: string) => send("/internal/core/events", internalToken, body)

const idsOf = ({ run_id, task_id }: StartedRun, event_id: string) =>
  `"task_id":"${task_id}","run_id":"${run_id}","event_id":"${event_id}"`

const read = async (token: string, uuid: string) => (await service.get(token, uuid)).text

const begin = async (token: string, more: object = {}) => {
  const { body: { uuid } } = await service.create(token, "x", more)
  return { uuid: String(uuid), run: await system.runOf(uuid) }
}

describe("JSON", () => {
  it.each(documents)("of a turn and of tool calls keeps its bytes: %s", async (json) => {
    const token = await mint("json")
    const { run, uuid } = await begin(token, { callback_url: `${target.url}/hook` })
    const call = `{"name":"look","arguments":${json},"id":"c1"}`
    const { status } = await sendEvent(
      `{"type":"interrupted","tool_calls":[${call}],"state":${json},${idsOf(run, "1")}}`
    )
    assert.strictEqual(status, 200)
    const calls = `"pending_tool_calls":[{"id":"c1","name":"look","arguments":${json}}]`
    const interrupted = await read(token, uuid)
    assert.include(interrupted, calls)
    const results = `{"results":[{"output":${json},"tool_call_id":"c1"}]}`
    assert.strictEqual((await send(`/api/tasks/${uuid}/tool-results`, token, results)).status, 200)
    const next = await system.runOf(uuid, run)
    // The core numbers the events of each run from 1.
    assert.strictEqual((await sendEvent(`{"turn":${json},"type":"completed",${idsOf(next, "1")}}`)).status, 200)
    const completed = await read(token, uuid)
    assert.include(completed, `"turn":${json}`)
    const posts = await eventually(async () => target.postsOf(uuid), (found) => found.length === 2, 20_000)
    assert.sameMembers(posts.map(({ body }) => body), [interrupted, completed])
    // The same on the way to the core, in history and tools.
    const created = await send(
      "/api/tasks",
      token,
      `{"assistant_id":1,"input":[{"type":"text","text":"x"}],"turns":[{"messages":[${json}]}],`
        + `"client_tools":[{"type":"function","name":"f","parameters":${json}}]}`
    )
    const { uuid: second } = JSON.parse(created.text)
    assert.include(
      await readAny(token, `/api/tasks/${second}?include=request`),
      `"turns":[${json}],"client_tools":[{"type":"function","name":"f","parameters":${json}}]`
    )
  })
})

const readAny = async (token: string, path: string) => (await service.call("GET", path, token)).text

const callRaw = (tag: string, payload: string) =>
  send("/rpc", internalToken, `{"payload":${payload},"_tag":"Request","id":"1","tag":"${tag}","headers":[]}\n`)

const reportRaw = async (run: StartedRun, more: string) => {
  const { text } = await callRaw("Core.report", `{"event":{${idsOf(run, "1")},${more}}}`)
  return JSON.parse(text).exit._tag
}

describe("JSON of the internal interface", () => {
  it.each(documents)("keeps the bytes of its sender: %s", async (json) => {
    const token = await mint("rpc json")
    const task = `{"assistant_id":1,"input":[{"type":"text","text":"x"}],"turns":[{"messages":[${json}]}]}`
    const created = await callRaw("Tasks.create", `{"sub":"rpc json","task":${task}}`)
    const { uuid } = JSON.parse(created.text).exit.value
    const request = await readAny(token, `/api/tasks/${uuid}?include=request`)
    assert.include(request, `"turns":[${json}]`)
    const found = await callRaw("Tasks.get", `{"sub":"rpc json","uuid":"${uuid}","include":["request"]}`)
    // Results are objects, so digits beyond 2^53 are not kept.
    if (!json.includes("1234567890123456789")) assert.include(found.text, `"turns":[${json}]`)
    assert.strictEqual(await reportRaw(await system.runOf(uuid), `"type":"completed","turn":${json}`), "Success")
    assert.include(await read(token, uuid), `"turn":${json}`)
  })

  it.each([
    ["17 MiB", `{"output":[{"type":"text","text":"${"x".repeat(17 * 1024 * 1024)}"}]}`],
    ["a million values", `{"output":[${"1,".repeat(1_000_000)}1]}`],
    ["999 levels", `{"output":${"[".repeat(998)}${"]".repeat(998)}}`]
  ])("completes a task with %s", async (_, turn) => {
    const token = await mint("large rpc")
    const { run, uuid } = await begin(token)
    assert.strictEqual(await reportRaw(run, `"type":"completed","turn":${turn}`), "Success")
    assert.isTrue((await read(token, uuid)).includes(`"turn":${turn}`))
  })

  it("fails a task whose last event is not valid or too large, and no other", async () => {
    const token = await mint("invalid rpc")
    const { run, uuid } = await begin(token)
    assert.strictEqual(await reportRaw(run, `"type":"progress","turn":1`), "Failure")
    assert.strictEqual((await service.get(token, uuid)).body.status, "pending")
    assert.strictEqual(await reportRaw(run, `"turn":1,"type":"completed"`), "Failure")
    const { body } = await service.get(token, uuid)
    assert.deepInclude(body, { status: "failed", error: "The result of the task is not valid." })
    for (const mebibytes of [32, 63]) {
      const large = await begin(token)
      const turn = `{"output":"${"x".repeat(mebibytes * 1024 * 1024)}"}`
      assert.strictEqual(await reportRaw(large.run, `"turn":${turn},"type":"completed"`), "Failure")
      const { body: failed } = await service.get(token, large.uuid)
      assert.deepInclude(failed, { status: "failed", error: "The result of the task is too large." })
    }
  })
})

describe("fields of a client's body", () => {
  const stolen =
    `"x":1,"user_token":"stolen","events_url":"http://stolen/","user":{"sub":"x"},"deadline_at":"x","resume":{"state":1},`
    + `"task_id":"t","run_id":"r","instructions":{"role":"system","content":"x"}`
  const referring = (uuid: string) => `"repeats":"${uuid}","continues":"${uuid}","contin\\u0075es":"${uuid}"`

  it("reach neither the core nor the stored request unless they are named, and the last of a name counts", async () => {
    const token = await mint("fields")
    const victim = await begin(await mint("owner of a turn"))
    const more = `${stolen},${referring(victim.uuid)}`
    const item = `{"type":"text","text":"wrong","t\\u0065xt":"x",${more}}`
    const created = await send(
      "/api/tasks",
      token,
      `{${more},"assistant_id":2,"assistant_\\u0069d":1,"input":[],"inp\\u0075t":[${item}],"callback_url":"x","callback_ur\\u006c":null}`
    )
    assert.strictEqual(created.status, 201, created.text)
    const { uuid } = JSON.parse(created.text)
    const run = await system.runOf(uuid)
    const expected = {
      assistant_id: 1,
      input: [{ type: "text", text: "x" }],
      turns: [],
      client_tools: [],
      llm_model_id: null,
      image_generator_id: null,
      resume: null,
      user: { sub: "fields" },
      task_id: uuid,
      run_id: run.run_id,
      user_token: token
    }
    const check = (given: object, more: object = {}) => assert.deepOwnInclude(given, { ...expected, ...more })
    check(run)
    assert.sameMembers(Object.keys(run), [...Object.keys(expected), "deadline_at", "events_url"])
    assert.match(run["events_url"], /\/internal\/core\/events$/)
    const again = await send(`/api/tasks/${uuid}/rerun`, token, `{${more}}`)
    const { uuid: second } = JSON.parse(again.text)
    const repeated = await system.runOf(second)
    check(repeated, { task_id: second, run_id: repeated.run_id })
    assert.include(await readAny(token, `/api/tasks/${second}?include=request`), `"continues":null`)
  })

  it("are refused when the body is cut inside a character", async () => {
    const token = await mint("cut")
    const body = Buffer.from(`{"assistant_id":1,"input":[{"type":"text","text":"é"}]}`)
    const cut = Buffer.concat([body.subarray(0, body.indexOf("é") + 1), Buffer.from(`"}]}`)])
    const response = await fetch(`${service.url}/api/tasks`, {
      method: "POST",
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
      body: cut
    })
    assert.strictEqual(response.status, 422)
    assert.deepStrictEqual(Object.keys((await response.json()).errors), ["body"])
  })
})

describe("the last event of a run", () => {
  it.each([
    ["17 MiB", `{"output":[{"type":"text","text":"${"x".repeat(17 * 1024 * 1024)}"}]}`],
    ["300,000 values", `{"output":[${"1,".repeat(300_000)}1]}`],
    ["70 levels", `{"output":${"[".repeat(70)}${"]".repeat(70)}}`]
  ])("completes its task with %s", async (_, turn) => {
    const token = await mint("large")
    const { run, uuid } = await begin(token)
    const { status, text } = await sendEvent(`{${idsOf(run, "1")},"type":"completed","turn":${turn}}`)
    assert.strictEqual(status, 200, text)
    assert.isTrue((await read(token, uuid)).includes(`"turn":${turn}`))
  })

  it.each(["first", "last"])("fails its task when it is too large, with its fields %s", async (place) => {
    const token = await mint(`too large ${place}`)
    const { run, uuid } = await begin(token)
    const fields = `${idsOf(run, "1")},"type":"completed"`
    const turn = `"turn":{"output":"${"x".repeat(40 * 1024 * 1024)}"}`
    const { status } = await sendEvent(place === "first" ? `{${fields},${turn}}` : `{${turn},${fields}}`)
    assert.strictEqual(status, 413)
    const { body } = await service.get(token, uuid)
    assert.deepInclude(body, { status: "failed", error: "The result of the task is too large." })
  })

  it.each<readonly [string, number, (fields: string) => string]>([
    ["is larger than is scanned", 413, (fields) => `{${fields},"turn":{"output":"${"x".repeat(65 * 1024 * 1024)}"}}`],
    ["is cut off", 422, (fields) => `{${fields},"turn":{"output":"`],
    [
      "has 1,001 levels in front of its fields",
      422,
      (fields) => `{"turn":{"x":${"[".repeat(999)}${"]".repeat(999)}},${fields}}`
    ],
    ["is no JSON behind its fields", 422, (fields) => `{"turn":{},${fields},NaN}`]
  ])("fails its task when it %s", async (name, expected, write) => {
    const token = await mint(name)
    const { run, uuid } = await begin(token)
    const { status } = await sendEvent(write(`${idsOf(run, "1")},"type":"completed"`))
    assert.strictEqual(status, expected)
    const { body } = await service.get(token, uuid)
    assert.strictEqual(body.status, "failed")
    assert.match(body.error, /^The result of the task is (too large|not valid)\.$/)
  })

  it("is logged when it does not say whose it is", async () => {
    assert.strictEqual((await sendEvent(`{"type":"completed","turn":`)).status, 422)
    await service.logged(/does not say whose it is/)
  })

  it("fails its task when it is not valid, and no other event does", async () => {
    const token = await mint("invalid")
    const { run, uuid } = await begin(token)
    assert.strictEqual((await report(run, { type: "progress", turn: 1 })).status, 422)
    assert.strictEqual((await service.get(token, uuid)).body.status, "pending")
    assert.strictEqual((await report(run, { type: "completed", turn: 1 })).status, 422)
    const { body } = await service.get(token, uuid)
    assert.deepInclude(body, { status: "failed", error: "The result of the task is not valid." })
  })

  it("is applied when the core reuses the id of another event of the run", async () => {
    const token = await mint("ids")
    const { run, uuid } = await begin(token)
    await report(run, { type: "processing", event_id: "1" })
    const { body } = await report(run, { type: "completed", turn: {}, event_id: "1" })
    assert.deepStrictEqual(body, { status: "completed", applied: true })
    assert.strictEqual((await service.get(token, uuid)).body.status, "completed")
  })
})
