/** The OpenAI façade and clients that send too much, the wrong things, or lose their token. */
import { assert, describe, it, onTestFinished } from "vitest"
import { cpuOfProcess } from "../../bench/processes.ts"
import { complete as completeRun, interrupt } from "../../kit/ScriptedCore.ts"
import { eventually, internalToken, mint, Service } from "../../kit/Service.ts"
import { expectQuiet, use } from "../../kit/suite.ts"
import { startSystem } from "../../kit/System.ts"
import { callsOf, clientOf, ended, refusal, toolCalls, tools, uuidOf } from "./OpenAi.ts"

const { core, database, service, settings } = await use(startSystem({ FACADE_MODELS: "gpt-5=1" }))
expectQuiet(service)

const output = (call_id: string) => ({ type: "function_call_output" as const, call_id, output: "1" })
const call = (json: string) => ({ type: "function_call" as const, call_id: "a", name: "look", arguments: json })
const background = { model: "gpt-5", background: true as const }

describe("input", () => {
  it("has at least one item, and outputs of calls that it contains", async () => {
    const client = await clientOf(service, "inputs")
    const create = (input: object) => refusal(client.responses.create({ ...background, input: input as [] }))
    assert.deepStrictEqual(await create([]), [400, null, "input"])
    assert.deepStrictEqual(await create([output("a")]), [400, null, "input"])
    assert.deepStrictEqual(await create([call("{}"), output("b")]), [400, null, "input"])
    const items = Array.from({ length: 10_001 }, () => ({ role: "user", content: "x" }))
    assert.deepStrictEqual(await create(items), [400, null, "input"])
  })

  it("is not larger than a body after references are replaced by the items of responses", async () => {
    const client = await clientOf(service, "references")
    const { id } = await client.responses.create({ ...background, input: "Why?" })
    await completeRun(await core.run(uuidOf(id)), "x".repeat(1024 * 1024))
    const { output: [message] } = await ended(client, id)
    const input = Array.from({ length: 900 }, () => ({ type: "item_reference" as const, id: message!.id! }))
    const before = cpuOfProcess(service.process.pid!)
    assert.deepStrictEqual(await refusal(client.responses.create({ ...background, input })), [
      400,
      "context_length_exceeded",
      "input"
    ])
    assert.isBelow(cpuOfProcess(service.process.pid!) - before, 2000)
  })

  it("keeps no other large request waiting while a foreground call waits", async () => {
    const client = await clientOf(service, "large")
    const large = "x".repeat(100_000)
    const waiting = client.responses.create({ model: "gpt-5", input: large })
    const run = await eventually(
      async () => core.runs.find(({ input: [item] }) => item?.text === large),
      (found) => found !== undefined
    )
    assert.strictEqual((await service.create(await mint("another"), large)).status, 201)
    await completeRun(run!, "Found.")
    assert.strictEqual((await waiting).output_text, "Found.")
  }, 20_000)

  it("has arguments within the bounds of a body", async () => {
    const client = await clientOf(service, "arguments")
    const create = (json: string) =>
      refusal(client.responses.create({ ...background, input: [call(json), output("a")] }))
    const deep = `{"a":${"[".repeat(1000)}${"]".repeat(1000)}}`
    for (const json of ["[]", "x", deep]) {
      assert.deepStrictEqual(await create(json), [400, null, "input[0]"], json.slice(0, 32))
    }
  })

  it("answers each of five calls once, whatever else it repeats", async () => {
    const client = await clientOf(service, "five")
    const { id } = await client.responses.create({ ...background, input: "go", tools })
    const run = await core.run(uuidOf(id))
    await interrupt(run, { tool_calls: toolCalls(5) })
    const asked = await ended(client, id)
    const outputs = callsOf(asked).map(({ call_id }) => output(call_id))
    const answer = (input: typeof outputs) =>
      client.responses.create({ ...background, input, previous_response_id: id })
    assert.deepStrictEqual(await refusal(answer([...outputs, output("c0")])), [400, null, "input"])
    const next = await answer([output("earlier"), ...outputs])
    await completeRun(await core.run(uuidOf(id), run), "Found.")
    assert.strictEqual((await ended(client, next.id)).output_text, "Found.")
  })

  it("continues no conversation beyond the size of a body", async () => {
    const client = await clientOf(service, "long")
    const { id } = await client.responses.create({ ...background, input: "go" })
    await completeRun(await core.run(uuidOf(id)), "x".repeat(9_000_000))
    assert.deepStrictEqual(
      await refusal(
        client.responses.create({ ...background, input: "x".repeat(9_000_000), previous_response_id: id })
      ),
      [400, "context_length_exceeded", "input"]
    )
  })

  it("answers at most a thousand times in one task", async () => {
    const client = await clientOf(service, "endless")
    const { id } = await client.responses.create({ ...background, input: "go", tools })
    await interrupt(await core.run(uuidOf(id)))
    await database.query(`INSERT INTO task_events (task_uuid, revision, type, status, occurred_at)
      SELECT '${uuidOf(id)}', -i, 'ToolResultsSubmitted', 'processing', now() FROM generate_series(1, 999) i`)
    const previous_response_id = id.replace(/_0$/, "_999")
    assert.deepStrictEqual(
      await refusal(client.responses.create({ ...background, input: [output("c1")], previous_response_id })),
      [400, null, "previous_response_id"]
    )
  })

  it("is not refused for unsupported fields by a lenient service", async () => {
    const lenient = await use(Service.start({ ...settings, FACADE_LENIENT: "true" }), onTestFinished)
    const client = await clientOf(lenient, "lenient")
    const { id } = await client.responses.create({
      ...background,
      input: "x",
      max_tool_calls: 5,
      text: { format: { type: "grammar" } as never }
    })
    assert.strictEqual((await client.responses.retrieve(id)).id, id)
  })
})

describe("another user's response, and one of a deleted task", () => {
  it("do not exist", async () => {
    const owner = await clientOf(service, "owner")
    const other = await clientOf(service, "other")
    const { id } = await owner.responses.create({ ...background, input: "go", tools })
    const run = await core.run(uuidOf(id))
    await interrupt(run)
    const [{ id: item = "" } = {}] = callsOf(await ended(owner, id))
    const check = async (client: typeof owner) => {
      const create = (more: object) => refusal(client.responses.create({ ...background, ...more }))
      const previous = [400, "previous_response_not_found", "previous_response_id"]
      assert.deepStrictEqual(await create({ previous_response_id: id, input: [output("c1")] }), previous)
      assert.deepStrictEqual(await create({ previous_response_id: id, input: "more" }), previous)
      const notFound = [404, "not_found", null]
      assert.deepStrictEqual(await create({ input: [{ type: "item_reference", id: item }, output("c1")] }), notFound)
      assert.deepStrictEqual(await refusal(client.responses.inputItems.list(id)), notFound)
      assert.deepStrictEqual(await refusal(client.responses.retrieve(id)), notFound)
      assert.deepStrictEqual(await refusal(client.responses.retrieve(id, { stream: true })), notFound)
      assert.deepStrictEqual(await refusal(client.responses.cancel(id)), notFound)
    }
    await check(other)
    assert.deepStrictEqual(await refusal(owner.responses.retrieve(id.replace(/_0$/, "_1"))), [404, "not_found", null])
    assert.deepStrictEqual(await refusal(owner.responses.delete(id)), [404, "unsupported", null])
    await owner.responses.cancel(id)
    assert.strictEqual((await service.call("DELETE", `/api/tasks/${uuidOf(id)}`, owner.apiKey!)).status, 204)
    await check(owner)
    assert.deepStrictEqual(
      await database.query(`SELECT leg FROM facade_legs WHERE task_uuid = '${uuidOf(id)}'`),
      []
    )
  })
})

describe("a file", () => {
  it("with a forged path links only to the storage", async () => {
    const client = await clientOf(service, "forger")
    const follow = async (path: string) => {
      const forged = { id: "a", name: "b", mime_type: "c", path, bytes: 1, created_at: 1 }
      const id = `file-${Buffer.from(JSON.stringify(forged)).toString("base64url")}`
      const response = await fetch(`${service.url}/v1/files/${id}/content`, {
        headers: { authorization: `Bearer ${client.apiKey}` },
        redirect: "manual"
      })
      return [response.status, response.headers.get("location")] as const
    }
    const [status, plain = ""] = await follow("a")
    const storage = plain?.replace(/a$/, "")
    assert.deepStrictEqual([status, URL.canParse(storage ?? "")], [302, true])
    for (
      const [path, expected] of [
        ["x\r\nset-cookie: y/ü", "x%0D%0Aset-cookie%3A%20y/%C3%BC"],
        ["%2e%2e/internal/metrics", "%252e%252e/internal/metrics"],
        ["a?b#c", "a%3Fb%23c"],
        ["...", "..."]
      ] as const
    ) {
      assert.deepStrictEqual(await follow(path), [302, `${storage}${expected}`], path)
    }
    const elsewhere = [
      "../internal/metrics",
      "a/../../internal/metrics",
      "a/..",
      ".",
      "./a",
      "",
      "/a",
      "a//b",
      "//evil.example",
      "..\\..\\x",
      "a\\b",
      "https://evil.example/",
      "javascript:alert(1)"
    ]
    for (const path of elsewhere) assert.deepStrictEqual(await follow(path), [404, null], path)
  })
})

describe("a revoked token", () => {
  it("ends a stream and a foreground call without the response", async () => {
    const client = await clientOf(service, "revoked")
    const stream = await client.responses.create({ model: "gpt-5", input: "stream", stream: true })
    const waiting = client.responses.create({ model: "gpt-5", input: "wait" })
    await eventually(
      async () => core.runs.filter(({ input: [item] }) => item?.text === "stream" || item?.text === "wait"),
      ({ length }) => length === 2
    )
    await service.call("POST", "/internal/tokens/revoke", internalToken, { token: client.apiKey })
    const types: Array<string> = []
    for await (const { type } of stream) types.push(type)
    assert.deepStrictEqual(types, ["response.created", "response.queued", "response.in_progress"])
    assert.isUndefined(await waiting.then(({ id }) => id, () => undefined))
    assert.deepStrictEqual(await refusal(client.models.list()), [401, "invalid_api_key", null])
  })
})
