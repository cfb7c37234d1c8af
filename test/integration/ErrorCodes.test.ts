import { randomUUID } from "node:crypto"
import { readdirSync, readFileSync } from "node:fs"
import { assert, describe, it } from "vitest"
import { codeOfTag, type ErrorCodes, errorCodes } from "../../src/http/contract/ErrorCodes.ts"
import { extensions } from "../../src/runtime/loadedExtensions.ts"
import { RawClient, requestHead } from "../kit/RawClient.ts"
import { complete } from "../kit/ScriptedCore.ts"
import { internalToken, mint } from "../kit/Service.ts"
import { expectQuiet, use } from "../kit/suite.ts"
import { startSystem } from "../kit/System.ts"

const { runOf, service } = await use(startSystem({ MAX_ACTIVE_TASKS: "2" }))
expectQuiet(service)
const ann = await mint("ann")
const bob = await mint("bob")
const body = { assistant_id: 1, input: [{ type: "text", text: "hello" }] }
const create = async (token = ann, headers = {}) =>
  (await service.call("POST", "/api/tasks", token, body, headers)).body.uuid as string

const known: ErrorCodes = Object.assign({}, errorCodes, ...extensions.map(({ routes }) => routes.errorCodes))

const running = await create()
const ended = await create()
await complete(await runOf(ended))
await service.call("GET", `/api/tasks/${ended}?wait=20`, ann)

/** Each with the call that is refused. */
const refused: ReadonlyArray<
  readonly [
    code: string,
    method: string,
    path: string,
    token?: string,
    body?: unknown,
    headers?: Record<string, string>
  ]
> = [
  ["unauthorized", "GET", "/api/tasks", "nonsense"],
  ["unauthorized", "GET", "/internal/metrics", "nonsense"],
  ["task_belongs_to_another", "GET", `/api/tasks/${running}`, bob],
  ["not_found", "GET", "/api/nothing"],
  ["task_not_found", "GET", `/api/tasks/${randomUUID()}`],
  ["task_not_found", "GET", "/api/tasks/no-uuid"],
  ["delivery_not_found", "POST", `/api/tasks/${ended}/deliveries/${randomUUID()}/redeliver`, ann, {}],
  ["method_not_allowed", "PATCH", "/api/tasks"],
  ["task_not_interrupted", "POST", `/api/tasks/${running}/cancel`, ann, {}],
  ["task_not_interrupted", "POST", `/api/tasks/${ended}/tool-results`, ann, {
    results: [{ tool_call_id: "c1", output: 1 }]
  }],
  ["task_not_ended", "DELETE", `/api/tasks/${running}`],
  ["payload_too_large", "POST", "/api/tasks", ann, `"${"x".repeat(17 * 1024 ** 2)}"`],
  ["unsupported_media_type", "POST", "/api/tasks", ann, body, { "content-encoding": "gzip" }],
  ["validation_failed", "POST", "/api/tasks", ann, { ...body, assistant_id: 0 }],
  ["validation_failed", "POST", "/api/tasks", ann, "{"],
  ["validation_failed", "GET", "/api/tasks?page="],
  ["schedule_not_found", "GET", `/api/schedules/${randomUUID()}`],
  ["task_not_found", "POST", "/internal/core/events", internalToken, {
    task_id: randomUUID(),
    run_id: randomUUID(),
    event_id: "1",
    type: "processing"
  }],
  ["run_superseded", "POST", "/internal/core/events", internalToken, {
    task_id: ended,
    run_id: randomUUID(),
    event_id: "1",
    type: "processing"
  }]
]

describe("the code of an error", () => {
  for (const [code, method, path, token = ann, content, headers] of refused) {
    it(`${method} ${path.replaceAll(/[\w-]{36}/g, "…")}: ${code}`, async () => {
      const answer = await service.call(method, path, token, content, headers)
      assert.deepStrictEqual([answer.status, answer.body.code], [known[code]![0], code], JSON.stringify(answer.body))
    })
  }

  it("a key that is used for another request: idempotency_key_reused", async () => {
    const key = { "idempotency-key": randomUUID() }
    await service.call("POST", "/api/tasks/cancel-interrupted", ann)
    const first = await service.call("POST", `/api/tasks/${running}/rerun`, bob, {}, key)
    assert.strictEqual(first.body.code, "task_belongs_to_another")
    await create(bob, key)
    const other = await service.call("POST", "/api/tasks", bob, { ...body, assistant_id: 2 }, key)
    assert.deepStrictEqual([other.status, other.body.code], [422, "idempotency_key_reused"])
  })

  it("one task more than the maximum: too_many_active_tasks", async () => {
    const cat = await mint("cat")
    await create(cat)
    await create(cat)
    const third = await service.call("POST", "/api/tasks", cat, body)
    assert.deepStrictEqual([third.status, third.body.code], [429, "too_many_active_tasks"])
    assert.match(third.headers.get("retry-after") ?? "", /^\d+$/)
  })

  it("bytes that are no request: bad_request", async () => {
    const client = await RawClient.open(service.url)
    client.send("nonsense\r\n\r\n")
    const { body, status } = await client.answer()
    assert.deepStrictEqual([status, JSON.parse(body).code], [400, "bad_request"])
  })

  it("two hosts: bad_request", async () => {
    const client = await RawClient.open(service.url)
    client.send(requestHead("GET /healthz", "Host: y"))
    const { body, status } = await client.answer()
    assert.deepStrictEqual([status, JSON.parse(body).code], [400, "bad_request"])
  })

  it("is in the list of the reference, whoever makes the error", () => {
    const root = new URL("../../src/http/", import.meta.url)
    const files = readdirSync(root, { recursive: true, encoding: "utf8" }).filter((file) =>
      file.endsWith(".ts") && !/^(?:openai|a2a|mcp|facades|console|client)\//.test(file)
    )
    const used = files.flatMap((file) => {
      const text = readFileSync(new URL(file, root), "utf8")
      return [
        ...[...text.matchAll(/(\w+): as\(/g)].map(([, tag]) => codeOfTag(tag!)),
        ...[...text.matchAll(/code: "(\w+)"/g)].map(([, code]) => code!)
      ]
    })
    assert.isAbove(used.length, 30)
    assert.deepStrictEqual(used.filter((code) => known[code] === undefined), [])
  })
})
