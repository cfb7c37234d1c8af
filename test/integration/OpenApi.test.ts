/** Checks the OpenAPI document with a linter, and with a proxy that validates real requests and responses. */
import { createConfig, lintFromString } from "@redocly/openapi-core"
import { createLogger } from "@stoplight/prism-core"
import { getHttpOperationsFromSpec } from "@stoplight/prism-http"
import { createServer } from "@stoplight/prism-http-server"
import { assert, describe, it } from "vitest"
import { examples as documented } from "../../src/http/contract/Examples.ts"
import { version } from "../../src/runtime/Version.ts"
import { interrupt, report, turnOf } from "../kit/ScriptedCore.ts"
import { internalToken, mint } from "../kit/Service.ts"
import { use, useDirectory } from "../kit/suite.ts"
import { startSystem } from "../kit/System.ts"

// oxlint-disable-next-line typescript/no-explicit-any -- a document of any shape
type Node = Record<string, any>

const { runOf, service } = await use(startSystem({ DATA_DIR: useDirectory(), OPERATOR_CONTENT: "on" }))
const documentAt = async (path: string): Promise<Node> => (await fetch(service.url + path)).json()
const documents = [await documentAt("/openapi.json"), await documentAt("/internal/openapi.json")] as const
const [document, internal] = documents

describe.each(documents)("the document", (document) => {
  it("passes a strict linter", async () => {
    // The interface has no license, so the document names none.
    const config = await createConfig({ extends: ["recommended-strict"], rules: { "info-license": "off" } })
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

interface Violation {
  readonly location: ReadonlyArray<string>
  readonly message: string
}

/** A proxy in front of `upstream` that validates each request and response against `spec`. */
const validating = async (spec: Node, upstream: string) => {
  const server = createServer(await getHttpOperationsFromSpec(spec), {
    cors: false,
    components: { logger: createLogger("proxy", { enabled: false }) },
    config: {
      isProxy: true,
      upstream: new URL(upstream),
      mock: { dynamic: false },
      checkSecurity: true,
      validateRequest: true,
      validateResponse: true,
      errors: false,
      upstreamProxy: undefined
    }
  })
  const url = await server.listen(0, "127.0.0.1")
  const seen = new Set<string>()
  const call = async (method: string, path: string, token: string | undefined, body?: unknown, headers = {}) => {
    const response = await fetch(url + path, {
      method,
      headers: {
        ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
        ...(body === undefined || body instanceof FormData ? {} : { "content-type": "application/json" }),
        ...headers
      },
      ...(body === undefined ? {} : { body: body instanceof FormData ? body : JSON.stringify(body) })
    })
    const violations: ReadonlyArray<Violation> = JSON.parse(response.headers.get("sl-violations") ?? "[]")
    const text = await response.text()
    seen.add(`${method} ${path.replace(/[0-9a-f-]{36}/, "{uuid}").split("?")[0]} ${response.status}`)
    return { status: response.status, violations, body: text.startsWith("{") ? JSON.parse(text) : text }
  }
  return { call, seen, close: () => server.close() }
}

describe("the live service", () => {
  it("conforms to the document, according to a validating proxy", async () => {
    // One proxy for both: no path and no schema of one document differs in the other.
    const whole = {
      ...document,
      paths: { ...document["paths"], ...internal["paths"] },
      components: Object.fromEntries(
        Object.entries<Node>(document["components"]).map(([kind, named]) => [
          kind,
          { ...named, ...internal["components"][kind] }
        ])
      )
    }
    const proxy = await validating(whole, service.url)
    const token = await mint("documented")
    const stranger = await mint("stranger")
    /** Sends a valid request. Request and response must conform to the document. */
    const ok = async (status: number, ...[method, path, of, body, headers]: Parameters<typeof proxy.call>) => {
      const answer = await proxy.call(method, path, of, body, headers)
      assert.strictEqual(answer.status, status, `${method} ${path} ${JSON.stringify(answer.body)}`)
      assert.deepStrictEqual(answer.violations, [], `${method} ${path}`)
      return answer.body
    }
    /** Sends an invalid request. The response must conform to the document. */
    const refused = async (status: number, ...[method, path, of, body, headers]: Parameters<typeof proxy.call>) => {
      const answer = await proxy.call(method, path, of, body, headers)
      assert.strictEqual(answer.status, status, `${method} ${path} ${JSON.stringify(answer.body)}`)
      const violations = answer.violations.filter(({ location }) => location[0] === "response")
      assert.deepStrictEqual(violations, [], `${method} ${path}`)
    }
    const examples = Object.fromEntries(Object.entries(documented).map(([id, { request }]) => [id, request]))
    try {
      // The service accepts every documented example of a request.
      const full = {
        ...Object(examples["tasks.create"]),
        callback_url: "https://client.example.com/webhooks/tasks",
        callback_secret: "a long random secret",
        client_tools: [{ type: "function", name: "get_calendar", parameters: { type: "object" } }]
      }
      const { uuid } = await ok(201, "POST", "/api/tasks", token, full, {
        "idempotency-key": "documented-1"
      })
      await ok(201, "POST", "/api/tasks", token, full, { "idempotency-key": "documented-1" })
      await refused(422, "POST", "/api/tasks", token, { assistant_id: "one", input: [] })
      await refused(401, "POST", "/api/tasks", undefined, examples["tasks.create"])
      await ok(200, "GET", `/api/tasks/${uuid}`, token)
      await ok(200, "GET", `/api/tasks/${uuid}?include=waiting_on&wait=1`, token)
      await ok(200, "GET", `/api/tasks/${uuid}?include=request,turn,metadata,waiting_on`, token)
      await refused(422, "GET", `/api/tasks/${uuid}?wait=0`, token)
      await ok(201, "POST", `/api/tasks/${uuid}/rerun`, token, examples["tasks.rerun"], {
        "idempotency-key": "documented-2"
      })
      await ok(201, "POST", `/api/tasks/${uuid}/rerun`, token)
      await refused(422, "POST", `/api/tasks/${uuid}/rerun`, token, { input: null })
      await ok(403, "GET", `/api/tasks/${uuid}`, stranger)
      await ok(404, "GET", "/api/tasks/nothing", token)
      const run = await runOf(uuid)
      const calls = [{ id: "call_1", name: "get_calendar", arguments: {} }]
      await report(run, { type: "progress", turn: turnOf("so far") })
      await ok(200, "GET", `/api/tasks/${uuid}`, token)
      await interrupt(run, { state: { at: 1 }, tool_calls: calls })
      await ok(200, "GET", `/api/tasks/${uuid}`, token)
      await ok(200, "GET", "/api/tasks?status=interrupted,pending&page=1&per_page=100", token)
      await ok(200, "GET", "/api/tasks", token)
      await ok(200, "GET", "/api/tasks?metadata[customer]=4711&metadata[order]=7&include=metadata", token)
      await refused(422, "GET", "/api/tasks?status=nonsense", token)
      await refused(422, "POST", `/api/tasks/${uuid}/tool-results`, token, { results: [] })
      await ok(200, "POST", `/api/tasks/${uuid}/tool-results`, token, examples["tasks.submitToolResults"])
      await ok(409, "POST", `/api/tasks/${uuid}/tool-results`, token, examples["tasks.submitToolResults"])
      await ok(409, "POST", `/api/tasks/${uuid}/cancel`, token, examples["tasks.cancel"])
      const resumed = await runOf(uuid, run)
      const event = { task_id: uuid, run_id: resumed.run_id, event_id: "again" }
      const again = { ...event, type: "interrupted", tool_calls: calls }
      await ok(200, "POST", "/internal/core/events", internalToken, again)
      await ok(200, "POST", `/api/tasks/${uuid}/cancel`, token, examples["tasks.cancel"])
      const late = { ...event, event_id: "late", type: "completed", turn: turnOf("late") }
      await ok(409, "POST", "/internal/core/events", internalToken, late)
      await ok(404, "POST", "/internal/core/events", internalToken, examples["core.report"])
      await refused(422, "POST", "/internal/core/events", internalToken, { type: "nonsense" })
      await refused(401, "POST", "/internal/core/events", "nobody", examples["core.report"])
      await ok(204, "POST", "/internal/tokens/revoke", internalToken, examples["tokens.revoke"])
      await refused(422, "POST", "/internal/tokens/revoke", internalToken, { jti: "one", sub: "two" })
      await refused(401, "POST", "/internal/tokens/revoke", "nobody", examples["tokens.revoke"])
      await ok(200, "GET", "/internal/metrics", internalToken)
      const operator = (path: string) => `/internal/operator/${path}`
      for (
        const path of [
          "overview",
          "tasks?status=interrupted&limit=10",
          `tasks/${uuid}`,
          "errors",
          "clocks?limit=10",
          "history?step=300",
          "origins",
          "deliveries?state=failed",
          "cluster",
          "revocations"
        ]
      ) {
        await ok(200, "GET", operator(path), internalToken)
        await refused(401, "GET", operator(path), token)
      }
      await refused(422, "GET", operator("tasks?limit=0"), internalToken)
      await ok(200, "GET", operator(`tasks/${uuid}/content`), internalToken)
      await ok(409, "POST", operator(`tasks/${uuid}/cancel`), internalToken, { reason: "Stuck." })
      await ok(200, "POST", operator("deliveries/redeliver"), internalToken, { filter: {}, dry_run: true })
      await ok(204, "POST", operator("revocations"), internalToken, { jti: "one" })
      const { members: [{ instance }] } = await ok(200, "GET", operator("cluster"), internalToken)
      await ok(202, "POST", operator(`nodes/${instance}/drain`), internalToken)
      await ok(202, "POST", operator(`nodes/${instance}/take-in`), internalToken)
      await ok(404, "POST", operator(`nodes/${uuid}/drain`), internalToken)
      await refused(401, "GET", "/internal/metrics", token)
      await ok(200, "GET", `/api/tasks/${uuid}`, token)
      await ok(200, "GET", `/api/tasks/${uuid}/events`, token)
      await ok(200, "GET", `/api/tasks/${uuid}/events?include=turn`, token)
      await refused(422, "GET", `/api/tasks/${uuid}/events?include=other`, token)
      const { data: [delivery] } = await ok(200, "GET", `/api/tasks/${uuid}/deliveries`, token)
      const redeliver = `/api/tasks/${uuid}/deliveries/${delivery.id}/redeliver`
      await ok(202, "POST", redeliver, token, examples["tasks.redeliver"])
      await ok(202, "POST", redeliver, token)
      await refused(422, "POST", redeliver, token, { callback_secret: 1 })
      await ok(404, "POST", `/api/tasks/${uuid}/deliveries/x/redeliver`, token)
      await ok(403, "DELETE", `/api/tasks/${uuid}`, stranger)
      await ok(204, "DELETE", `/api/tasks/${uuid}`, token)
      await ok(404, "DELETE", `/api/tasks/${uuid}`, token)
      await ok(200, "POST", "/api/tasks/cancel-interrupted", token)
      for (let count = 2; count < 5; count++) {
        const { uuid } = await ok(201, "POST", "/api/tasks", token, examples["tasks.create"])
        await ok(409, "DELETE", `/api/tasks/${uuid}`, token)
      }
      await ok(429, "POST", "/api/tasks", token, examples["tasks.create"])
      const form = new FormData()
      form.set("file", new File(["one two"], "note.txt", { type: "text/plain" }))
      await ok(201, "POST", "/api/files", token, form)
      const wrong = new FormData()
      wrong.set("file", new File(["MZ"], "program.exe"))
      await refused(422, "POST", "/api/files", token, wrong)
      await ok(200, "GET", "/api/storage/base", token)

      const tried = [...proxy.seen].map((line) => line.replace(/ \d+$/, ""))
      for (const [path, methods] of Object.entries<Node>(whole.paths)) {
        for (const method of Object.keys(methods)) {
          const pattern = new RegExp(`^${method.toUpperCase()} ${path.replace(/\{\w+\}/g, "[^ /]+")}$`)
          assert.isTrue(tried.some((line) => pattern.test(line)), `${method} ${path} was not tried`)
        }
      }
    } finally {
      await proxy.close()
    }
  })

  it("does not conform to a document with another required field", async () => {
    const wrong = structuredClone(document)
    wrong["components"]["schemas"]["Task"]["required"].push("owner")
    const proxy = await validating(wrong, service.url)
    const token = await mint("wrong-document")
    const { uuid } = (await service.create(token, "x")).body
    const answer = await proxy.call("GET", `/api/tasks/${uuid}`, token)
    await proxy.close()
    assert.match(answer.violations.map(({ message }) => message).join(), /owner/)
  })
})
