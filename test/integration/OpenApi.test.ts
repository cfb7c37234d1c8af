/** Checks the OpenAPI document with a linter, and with a proxy that validates real requests and responses. */
import { createConfig, lintFromString } from "@redocly/openapi-core"
import { assert, describe, it, onTestFinished } from "vitest"
import { version } from "../../src/runtime/Version.ts"
import { operations, pathFor } from "../kit/operations.ts"
import { interrupt, report, turnOf } from "../kit/ScriptedCore.ts"
import { internalToken, mint } from "../kit/Service.ts"
import { use, useDirectory } from "../kit/suite.ts"
import { startSystem } from "../kit/System.ts"
import { documentAt, startValidatingProxy } from "../kit/ValidatingProxy.ts"

const { runOf, service } = await use(startSystem({ DATA_DIR: useDirectory() }))
const documents = [
  await documentAt(service, "/openapi.json"),
  await documentAt(service, "/internal/openapi.json")
] as const

describe.each(documents)("the document", (document) => {
  it("passes a strict linter", async () => {
    // The interface has no license, so the document names none.
    // Schedules are also at `by-key/{key}`, beside `{id}`, which is never the word.
    const rules = { "info-license": "off", "no-ambiguous-paths": "off" } as const
    const config = await createConfig({ extends: ["recommended-strict"], rules })
    const problems = await lintFromString({ source: JSON.stringify(document), config })
    assert.deepStrictEqual(problems.map(({ message, ruleId }) => `${ruleId}: ${message}`), [])
    assert.strictEqual(document["openapi"], "3.1.0")
  })
})

describe("the documents", () => {
  it("state the version of the service", () => {
    for (const { info } of documents) assert.strictEqual(info.version, version)
  })
})

describe("the live service", () => {
  it("conforms to the document, according to a validating proxy", async () => {
    const proxy = await use(startValidatingProxy(service), onTestFinished)
    const { examples, ok, refused } = proxy
    const token = await mint("documented")
    const stranger = await mint("stranger")
    const own = new Set(operations.map(({ path }) => path))
    /** Every read without parameters besides the task. */
    const reads = Object.keys(proxy.paths).filter((path) =>
      own.has(path) && proxy.paths[path].get !== undefined && !path.replace("{uuid}", "").includes("{")
    )
    // The service accepts every documented example of a request.
    const full = {
      ...Object(examples["createTask"]),
      callback_url: "https://client.example.com/webhooks/tasks",
      callback_secret: "a long random secret",
      client_tools: [{ type: "function", name: "get_calendar", parameters: { type: "object" } }]
    }
    const { uuid } = await ok(201, "POST", "/api/tasks", token, full, {
      "idempotency-key": "documented-1"
    })
    await ok(201, "POST", "/api/tasks", token, full, { "idempotency-key": "documented-1" })
    await refused(422, "POST", "/api/tasks", token, { assistant_id: "one", input: [] })
    await refused(401, "POST", "/api/tasks", undefined, examples["createTask"])
    await ok(200, "GET", `/api/tasks/${uuid}`, token)
    await ok(200, "GET", `/api/tasks/${uuid}?include=waiting_on&wait=1`, token)
    await ok(200, "GET", `/api/tasks/${uuid}?include=request,turn,metadata,waiting_on`, token)
    await refused(422, "GET", `/api/tasks/${uuid}?wait=0`, token)
    await ok(201, "POST", `/api/tasks/${uuid}/rerun`, token, examples["rerunTask"], {
      "idempotency-key": "documented-2"
    })
    await ok(201, "POST", `/api/tasks/${uuid}/rerun`, token)
    await refused(422, "POST", `/api/tasks/${uuid}/rerun`, token, { input: null })
    await ok(404, "GET", "/api/tasks/nothing", token)
    const run = await runOf(uuid)
    const calls = [{ id: "call_1", name: "get_calendar", arguments: {} }]
    await report(run, { type: "progress", turn: turnOf("so far") })
    await ok(200, "GET", `/api/tasks/${uuid}`, token)
    await interrupt(run, { state: { at: 1 }, tool_calls: calls })
    await ok(200, "GET", `/api/tasks/${uuid}`, token)
    await ok(200, "GET", "/api/tasks?status=interrupted,pending&page=1&per_page=100", token)
    await ok(200, "GET", "/api/tasks?metadata[customer]=4711&metadata[order]=7&include=metadata", token)
    await ok(
      200,
      "GET",
      "/api/tasks?q=4711&assistant_id=1&from=2026-01-01T00:00:00Z&include=excerpt,metadata,assistant",
      token
    )
    await refused(422, "GET", "/api/tasks?status=nonsense", token)
    await refused(422, "GET", "/api/tasks?q=", token)
    await refused(422, "POST", `/api/tasks/${uuid}/tool-results`, token, { results: [] })
    await ok(200, "POST", `/api/tasks/${uuid}/tool-results`, token, examples["submitToolResults"])
    await ok(409, "POST", `/api/tasks/${uuid}/tool-results`, token, examples["submitToolResults"])
    await ok(409, "POST", `/api/tasks/${uuid}/cancel`, token, examples["cancelTask"])
    const resumed = await runOf(uuid, run)
    const event = { task_id: uuid, run_id: resumed.run_id, event_id: "again" }
    const again = { ...event, type: "interrupted", tool_calls: calls }
    await ok(200, "POST", "/internal/core/events", internalToken, again)
    await ok(200, "POST", `/api/tasks/${uuid}/cancel`, token, examples["cancelTask"])
    const late = { ...event, event_id: "late", type: "completed", turn: turnOf("late") }
    await ok(409, "POST", "/internal/core/events", internalToken, late)
    await ok(404, "POST", "/internal/core/events", internalToken, examples["reportCoreEvent"])
    await refused(422, "POST", "/internal/core/events", internalToken, { type: "nonsense" })
    await refused(401, "POST", "/internal/core/events", "nobody", examples["reportCoreEvent"])
    await ok(204, "POST", "/internal/tokens/revoke", internalToken, examples["revokeTokens"])
    await refused(422, "POST", "/internal/tokens/revoke", internalToken, { jti: "one", sub: "two" })
    await refused(401, "POST", "/internal/tokens/revoke", "nobody", examples["revokeTokens"])
    // The task has ended, so its stream of events ends too.
    for (const path of reads.map((path) => path.replace("{uuid}", uuid))) {
      const isInternal = path.startsWith("/internal/")
      await ok(200, "GET", path, isInternal ? internalToken : token)
      await refused(401, "GET", path, isInternal ? token : undefined)
      if (!isInternal && path.includes(uuid)) await ok(403, "GET", path, stranger)
    }
    await ok(200, "GET", `/api/tasks/${uuid}/events?include=turn`, token)
    await refused(422, "GET", `/api/tasks/${uuid}/events?include=other`, token)
    const { data: [delivery] } = await ok(200, "GET", `/api/tasks/${uuid}/deliveries`, token)
    const redeliver = `/api/tasks/${uuid}/deliveries/${delivery.id}/redeliver`
    await ok(202, "POST", redeliver, token, examples["redeliverWebhook"])
    await ok(202, "POST", redeliver, token)
    await refused(422, "POST", redeliver, token, { callback_secret: 1 })
    await ok(404, "POST", `/api/tasks/${uuid}/deliveries/x/redeliver`, token)
    await ok(403, "DELETE", `/api/tasks/${uuid}`, stranger)
    await ok(204, "DELETE", `/api/tasks/${uuid}`, token)
    await ok(404, "DELETE", `/api/tasks/${uuid}`, token)
    await ok(200, "POST", "/api/tasks/cancel-interrupted", token)
    for (let count = 2; count < 5; count++) {
      const { uuid } = await ok(201, "POST", "/api/tasks", token, examples["createTask"])
      await ok(409, "DELETE", `/api/tasks/${uuid}`, token)
    }
    await ok(429, "POST", "/api/tasks", token, examples["createTask"])
    const form = new FormData()
    form.set("file", new File(["one two"], "note.txt", { type: "text/plain" }))
    await ok(201, "POST", "/api/files", token, form)
    const wrong = new FormData()
    wrong.set("file", new File(["MZ"], "program.exe"))
    await refused(422, "POST", "/api/files", token, wrong)

    // What is not tried above gets the example of its body.
    const untried = new Set(proxy.untried((path) => own.has(path)))
    for (const operation of operations.filter(({ method, path }) => untried.has(`${method} ${path}`))) {
      const { body, isInternal, method } = operation
      await proxy.answered(method, pathFor(operation, uuid), isInternal ? internalToken : token, body)
    }
    assert.deepStrictEqual(proxy.untried((path) => own.has(path)), [])
  })

  it("does not conform to a document with another required field", async () => {
    const proxy = await use(
      startValidatingProxy(service, ({ components }) => components["schemas"]["Task"]["required"].push("owner")),
      onTestFinished
    )
    const token = await mint("wrong-document")
    const { uuid } = (await service.create(token, "x")).body
    const answer = await proxy.call("GET", `/api/tasks/${uuid}`, token)
    assert.match(answer.violations.map(({ message }) => message).join(), /owner/)
  })
})
