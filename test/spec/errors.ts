/** Errors: codes, bodies, and the order of the checks. */
import { assert, describe, it } from "vitest"
import type { Answer } from "../kit/Service.ts"
import { use } from "../kit/suite.ts"
import { type Door, Gateway } from "./Gateway.ts"
import { hold } from "./transitions.ts"

const unknown = "019ac5d2-7f3e-7c41-9b1a-2f60c8a7d913"
const results = { results: [{ tool_call_id: "c1", output: 1 }] }

/** Every endpoint, with the status of its success and a body that passes validation, if it takes one. */
const endpoints = [
  ["POST", "/api/files"],
  ["GET", "/api/storage/base"],
  ["POST", "/api/tasks", { assistant_id: 1, input: [{ type: "text", text: "x" }] }],
  ["GET", "/api/tasks"],
  ["GET", `/api/tasks/${unknown}`],
  ["POST", `/api/tasks/${unknown}/tool-results`, results],
  ["POST", `/api/tasks/${unknown}/cancel`, {}],
  ["POST", `/api/tasks/${unknown}/stop`, {}],
  ["POST", "/api/tasks/cancel-interrupted"]
] as const

/** Calls about one task. The body breaks a rule where the call takes one. */
const aboutTask = [
  ["GET", "?wait=never", undefined],
  ["POST", "/tool-results", { results: "all" }],
  ["POST", "/cancel", { reason: "x".repeat(1001) }],
  ["POST", "/stop", { reason: "x".repeat(1001) }]
] as const

const faults = ({ body, status }: Answer) => [status, Object.keys(body.errors ?? {}).toSorted()]

const message = (answer: Answer, status: number, more: ReadonlyArray<string> = []) => {
  assert.strictEqual(answer.status, status, JSON.stringify(answer.body))
  assert.match(answer.headers.get("content-type") ?? "", /^application\/json/)
  assert.isString(answer.body.message)
  assert.notMatch(answer.body.message, /_tag|SchemaError|    at |src\//)
  assert.isOk(answer.headers.get("x-request-id"))
  assert.containsAllKeys(answer.body, ["message", ...more])
  if (status === 422) {
    assert.isAbove(Object.keys(answer.body.errors).length, 0)
    for (const texts of Object.values(answer.body.errors)) {
      assert.isArray(texts)
      for (const text of texts as ReadonlyArray<unknown>) assert.isString(text)
    }
  } else assert.notProperty(answer.body, "errors")
}

const authentication = (gateway: Gateway) => {
  it("401: a token that is missing, invalid, expired or revoked, at every endpoint and before everything else", async () => {
    const valid = await gateway.user()
    const [head, body, signature] = valid.split(".")
    const revoked = await gateway.user()
    assert.strictEqual((await gateway.get(revoked, unknown)).status, 404)
    assert.strictEqual((await gateway.revoke(revoked)).status, 204)
    const tokens = {
      missing: undefined,
      empty: "",
      "not a JWT": "nonsense",
      "of another signature": `${head}.${body}.${signature?.split("").toReversed().join("")}`,
      "without a signature": `${Buffer.from(`{"alg":"none"}`).toString("base64url")}.${body}.`,
      expired: await gateway.user({ exp: 1_000_000_000 }),
      "issued in the future": await gateway.user({ iat: 4_000_000_000, exp: 4_000_003_600 }),
      "without the id of a user": await gateway.service.token(""),
      "with an id that is no text": await gateway.user({ jti: 7 }),
      "not valid yet": await gateway.user({ nbf: 4_000_000_000, exp: 4_000_003_600 }),
      revoked
    }
    for (const [kind, token] of Object.entries(tokens)) {
      for (const [method, path] of endpoints) {
        const answer = await gateway.call(method, path, token, method === "POST" ? "{" : undefined)
        message(answer, 401)
        assert.strictEqual(answer.headers.get("www-authenticate"), "Bearer", `${kind}: ${path}`)
      }
    }
    const basic = await gateway.call("GET", "/api/tasks", undefined, undefined, { authorization: `Basic ${valid}` })
    message(basic, 401)
  })

  it("401: an internal endpoint with a user's token, or none", async () => {
    const tokens = [undefined, await gateway.user()]
    assert.strictEqual((await gateway.rpc("Tokens.isRevoked", { jti: "x" })).status, 200)
    for (const token of tokens) {
      message(await gateway.call("POST", "/internal/core/events", token, {}), 401)
      message(await gateway.call("POST", "/internal/tokens/revoke", token, {}), 401)
      message(await gateway.call("POST", "/rpc", token, "{}"), 401)
    }
  })
}

const orderOfChecks = (gateway: Gateway) => {
  it("403 and 404 come before 422, and 422 before 409", async () => {
    const held = await hold(gateway, "processing")
    const stranger = await gateway.user()
    for (const [method, path, body] of aboutTask) {
      const call = (token: string, uuid: string, given: unknown = body) =>
        gateway.call(method, `/api/tasks/${uuid}${path}`, token, given)
      message(await call(stranger, held.uuid), 403)
      for (const uuid of [unknown, "nonsense", "1", `${held.uuid}0`]) message(await call(held.token, uuid), 404)
      message(await call(held.token, held.uuid), 422, ["errors"])
    }
    const submit = (body: unknown) => gateway.call("POST", `/api/tasks/${held.uuid}/tool-results`, held.token, body)
    message(await submit(results), 409)
    message(await gateway.call("POST", `/api/tasks/${held.uuid}/cancel`, held.token, { reason: "r" }), 409)
    message(await gateway.call("POST", `/api/tasks/${held.uuid}/cancel`, held.token), 409)
    // A stranger's task is as it was.
    assert.strictEqual((await gateway.get(held.token, held.uuid)).body.status, "processing")
  })

  it("422 on the results that answer no call or one twice, or leave one out, and nothing changes", async () => {
    const { token, uuid } = await hold(gateway, "interrupted")
    const submit = (...ids: ReadonlyArray<string>) =>
      gateway.call("POST", `/api/tasks/${uuid}/tool-results`, token, {
        results: ids.map((tool_call_id) => ({ tool_call_id, output: null }))
      })
    assert.deepStrictEqual(faults(await submit("c2")), [422, ["results", "results.0.tool_call_id"]])
    assert.deepStrictEqual(faults(await submit("c1", "c1")), [422, ["results.1.tool_call_id"]])
    assert.deepStrictEqual(faults(await submit()), [422, ["results"]])
    assert.strictEqual((await gateway.get(token, uuid)).body.status, "interrupted")
    assert.strictEqual((await submit("c1")).status, 200)
  })

  it("422 comes before 429, and takes no slot", async () => {
    const token = await gateway.user()
    const invalid = { input: [] }
    for (let count = 0; count < 10; count++) message(await gateway.create(token, invalid), 422, ["errors"])
    for (let count = 0; count < 5; count++) assert.strictEqual((await gateway.create(token)).status, 201)
    message(await gateway.create(token, invalid), 422, ["errors"])
    const refused = await gateway.create(token)
    message(refused, 429)
    assert.strictEqual(refused.body.message, "Too many active tasks. The maximum is 5 concurrent tasks.")
    assert.match(refused.headers.get("retry-after") ?? "", /^\d+$/)
  })
}

const shapes = (gateway: Gateway) => {
  it("404 for an unknown path, 405 with Allow for another method", async () => {
    const token = await gateway.user()
    message(await gateway.call("GET", "/api/nothing", token), 404)
    const methods = {
      "/api/files": "POST",
      "/api/storage/base": "GET, HEAD",
      "/api/tasks": "POST, GET, HEAD",
      [`/api/tasks/${unknown}/tool-results`]: "POST",
      [`/api/tasks/${unknown}/cancel`]: "POST"
    }
    for (const [path, allowed] of Object.entries(methods)) {
      const answer = await gateway.call("PUT", path, token)
      message(answer, 405)
      const sorted = (text: string) => text.split(", ").toSorted()
      assert.deepStrictEqual(sorted(answer.headers.get("allow") ?? ""), sorted(allowed), path)
    }
  })

  it("422 on `body` for what is no JSON object, and 413 for more than 16 MiB", async () => {
    const token = await gateway.user()
    for (const body of ["{", "", "null", "[]", "1", `"text"`, "{}x", "\u0000"]) {
      const answer = await gateway.call("POST", "/api/tasks", token, body)
      message(answer, 422, ["errors"])
      assert.deepStrictEqual(Object.keys(answer.body.errors), ["body"], JSON.stringify(body))
    }
    const deep = (levels: number) => gateway.call("POST", "/api/tasks", token, "[".repeat(levels))
    assert.deepStrictEqual(faults(await deep(1002)), [422, ["body"]])
    const padded = (bytes: number) => {
      const [start, end] = [`{"assistant_id":1,"input":[{"type":"text","text":"`, `"}]}`]
      return gateway.call("POST", "/api/tasks", token, start + "x".repeat(bytes - start.length - end.length) + end)
    }
    assert.strictEqual((await padded(16 * 1024 * 1024)).status, 201)
    message(await padded(16 * 1024 * 1024 + 1), 413)
  })

  it("names each broken field by its path", async () => {
    const token = await gateway.user()
    const cases: ReadonlyArray<readonly [object, ReadonlyArray<string>]> = [
      [{ assistant_id: null }, ["assistant_id"]],
      [{ assistant_id: "1" }, ["assistant_id"]],
      [{ input: null }, ["input"]],
      [{ input: [{ type: "text" }] }, ["input.0.text"]],
      [{ input: [{ type: "text", text: "x" }, { type: "picture" }] }, ["input.1.type"]],
      [{ input: [{ type: "file", file: { id: 1, name: "a", mime_type: "b" } }] }, ["input.0.file.id"]],
      [{ input: [{ type: "file", file: {} }] }, ["input.0.file.id", "input.0.file.mime_type", "input.0.file.name"]],
      [{ input: [{ type: "voice", voice: { id: "1", name: "a", mime_type: "b", duration: "x" } }] }, [
        "input.0.voice.duration"
      ]],
      [{ max_execution_time: 86_401 }, ["max_execution_time"]],
      [{ callback_url: "nowhere" }, ["callback_url"]],
      [{ client_tools: [{ type: "function", name: "a b" }] }, ["client_tools.0.name"]],
      [{ llm_model_id: "x", image_generator_id: 1.5 }, ["image_generator_id", "llm_model_id"]]
    ]
    for (const [more, fields] of cases) {
      const answer = await gateway.create(token, more)
      message(answer, 422, ["errors"])
      assert.deepStrictEqual(faults(answer), [422, fields], JSON.stringify(more))
    }
    assert.strictEqual((await gateway.call("GET", "/api/tasks", token)).body.meta.total, 0)
  })
}

/** Events that an event of the core names wrongly, with the field. */
const brokenEvents: ReadonlyArray<readonly [object, string]> = [
  [{ type: "finished" }, "type"],
  [{ type: "completed" }, "turn"],
  [{ type: "interrupted" }, "tool_calls"],
  [{ type: "interrupted", tool_calls: [] }, "tool_calls"],
  [{ type: "failed", code: "tired" }, "code"]
]

const coreEvents = (gateway: Gateway) => {
  const turn = { output: [], messages: [], metadata: {} }

  it("an event of the core: 404 for an unknown task, 409 for another run, 422 for a broken field", async () => {
    const { run, token, uuid } = await hold(gateway, "pending")
    message(await gateway.report({ task_id: unknown, run_id: run.run_id }, { type: "processing" }), 404)
    message(await gateway.report({ task_id: "nonsense", run_id: run.run_id }, { type: "processing" }), 404)
    const other = await gateway.report({ task_id: uuid, run_id: unknown }, { type: "completed", turn })
    message(other, 409, ["status"])
    assert.strictEqual(other.body.status, "pending")
    const sent = { event_id: "e", task_id: uuid, run_id: unknown }
    for (const [event, field] of brokenEvents) {
      const answer = await gateway.call("POST", "/internal/core/events", gateway.service.internalToken, {
        ...sent,
        ...event
      })
      assert.deepStrictEqual(faults(answer), [422, [field]], JSON.stringify(event))
    }
    assert.strictEqual((await gateway.get(token, uuid)).body.status, "pending")
  })

  it("a repeated event_id changes nothing; a final event is decided by the task alone", async () => {
    const { run } = await hold(gateway, "pending")
    const report = async (event_id: string | number, event: object) => {
      const { body, status } = await gateway.report(run, { event_id, ...event })
      return [status, body.status, body.applied]
    }
    assert.deepStrictEqual(await report("1", { type: "processing" }), [200, "processing", true])
    assert.deepStrictEqual(await report("1", { type: "processing" }), [200, "processing", false])
    assert.deepStrictEqual(await report("1", { type: "progress", turn }), [200, "processing", false])
    // A core may number the events of a run.
    assert.deepStrictEqual(await report(1, { type: "progress", turn }), [200, "processing", false])
    assert.deepStrictEqual(await report(5, { type: "progress", turn }), [200, "processing", true])
    assert.deepStrictEqual(await report("5", { type: "progress", turn }), [200, "processing", false])
    assert.deepStrictEqual(await report("2", { type: "progress", turn }), [200, "processing", true])
    // A sign of life and nothing else.
    assert.deepStrictEqual(await report("3", { type: "progress" }), [200, "processing", false])
    // A core that began the run again may reuse its numbers.
    assert.deepStrictEqual(await report("1", { type: "completed", turn }), [200, "completed", true])
    assert.deepStrictEqual(await report("1", { type: "completed", turn }), [200, "completed", false])
    assert.deepStrictEqual(await report("4", { type: "completed", turn }), [409, "completed", undefined])
  })
}

export const errors = (door: Door) => {
  describe("errors", async () => {
    const gateway = await use(Gateway.start(door))
    authentication(gateway)
    orderOfChecks(gateway)
    shapes(gateway)
    coreEvents(gateway)
  })
}
