/** The wire of the MCP façade: versions, headers, errors and tokens. */
import { assert, describe, it, onTestFinished } from "vitest"
import { mint, Service } from "../../kit/Service.ts"
import { expectQuiet, use } from "../../kit/suite.ts"
import { startSystem } from "../../kit/System.ts"

const system = await use(startSystem({ CORS_ORIGINS: "https://app.example" }))
const { service } = system
expectQuiet(service)

const token = await mint("wire")
const current = "2026-07-28"
const versions = ["2025-03-26", "2025-06-18", "2025-11-25", current]

type Headers = Record<string, string>
const post = (body: unknown, headers: Headers = {}) => service.call("POST", "/mcp", token, body, headers)

const metaOf = (more: object = {}) => ({
  _meta: {
    "io.modelcontextprotocol/protocolVersion": current,
    "io.modelcontextprotocol/clientCapabilities": {},
    ...more
  }
})

/** A request of the current revision; `headers` replaces some of those that it has. */
const request = (method: string, params: object = {}, headers: Headers = {}, meta: object = {}) =>
  post({ jsonrpc: "2.0", id: "a", method, params: { ...metaOf(meta), ...params } }, {
    "mcp-protocol-version": current,
    "mcp-method": method,
    ...headers
  })

const codeOf = async (answer: ReturnType<typeof post>) => {
  const { body, status } = await answer
  assert.strictEqual(body.jsonrpc, "2.0")
  return [status, body.error?.code, body.id]
}

describe("the revisions with a handshake", () => {
  const call = (method: string, params?: object, headers?: Headers) =>
    post({ jsonrpc: "2.0", id: 1, method, ...(params && { params }) }, headers)

  it.each([...versions.slice(0, 3).map((version) => [version, version]), [current, "2025-11-25"], ["1", "2025-11-25"]])(
    "answer an offer of %s with %s, without a session",
    async (offered, version) => {
      const { body, headers } = await call("initialize", { protocolVersion: offered, capabilities: {}, clientInfo: {} })
      assert.strictEqual(body.result.protocolVersion, version)
      assert.deepStrictEqual(body.result.capabilities, { tools: {} })
      assert.strictEqual(body.result.serverInfo.name, "async-task-service")
      assert.isNull(headers.get("mcp-session-id"))
    }
  )

  it("answer ping and tools/list, with and without a version, and accept notifications", async () => {
    assert.deepStrictEqual((await call("ping")).body, { jsonrpc: "2.0", id: 1, result: {} })
    for (const version of [undefined, ...versions.slice(0, 3)]) {
      const { body } = await call("tools/list", {}, version === undefined ? {} : { "mcp-protocol-version": version })
      assert.hasAllKeys(body.result, ["tools"])
    }
    const answers = [
      { method: "notifications/initialized" },
      { id: 1, result: {} },
      { id: "a", result: null },
      { id: 1, error: { code: 1, message: "x" } },
      { id: null, error: { code: -32700, message: "x" } },
      { error: { code: -32700, message: "x" } }
    ]
    for (const answer of answers) {
      const { body, status } = await post({ jsonrpc: "2.0", ...answer })
      assert.deepStrictEqual([status, body], [202, ""], JSON.stringify(answer))
    }
  })

  it("refuse other methods, tools and versions", async () => {
    for (const method of ["server/discover", "tasks/get", "prompts/list"]) {
      assert.deepStrictEqual(await codeOf(call(method)), [200, -32601, 1])
    }
    assert.deepStrictEqual(await codeOf(call("tools/call", { name: "none" })), [200, -32602, 1])
    const { body, status } = await call("ping", {}, { "mcp-protocol-version": "2024-11-05" })
    assert.deepStrictEqual([status, body.error.code, body.error.data], [400, -32022, {
      supported: versions,
      requested: "2024-11-05"
    }])
  })
})

describe("the current revision", () => {
  it("describes the server, and marks every result as complete", async () => {
    const { body } = await request("server/discover")
    assert.deepInclude(body.result, {
      resultType: "complete",
      supportedVersions: versions,
      capabilities: { tools: {}, extensions: { "io.modelcontextprotocol/tasks": {} } },
      ttlMs: 3_600_000,
      cacheScope: "private"
    })
    assert.hasAllKeys(body.result._meta, ["io.modelcontextprotocol/serverInfo"])
    const { body: { result } } = await request("tools/list")
    assert.deepInclude(result, { resultType: "complete", ttlMs: 3_600_000, cacheScope: "private" })
    const listed = await request("tools/call", { name: "list_tasks" }, { "mcp-name": "list_tasks" })
    assert.deepInclude(listed.body.result, { resultType: "complete", isError: false })
    const encoded = { "mcp-name": `=?base64?${Buffer.from("list_tasks").toString("base64")}?=` }
    assert.isDefined((await request("tools/call", { name: "list_tasks" }, encoded)).body.result)
  })

  it("requires headers that equal the body, and judges them before the version", async () => {
    const call = { name: "list_tasks" }
    const wrong: ReadonlyArray<readonly [string, object, Headers]> = [
      ["ping", {}, { "mcp-method": "tools/list" }],
      ["tools/list", {}, { "mcp-protocol-version": "2025-11-25" }],
      ["tools/call", call, {}],
      ["tools/call", call, { "mcp-name": "get_task" }],
      ["tools/call", call, { "mcp-name": "=?base64?!?=" }]
    ]
    for (const given of wrong) assert.deepStrictEqual(await codeOf(request(...given)), [400, -32020, "a"])
    const other = { "io.modelcontextprotocol/protocolVersion": "2030-01-01" }
    assert.deepStrictEqual(await codeOf(request("tools/list", {}, {}, other)), [400, -32020, "a"])
    const named = { "mcp-protocol-version": "2030-01-01" }
    assert.deepStrictEqual(await codeOf(request("tools/list", {}, named, other)), [400, -32022, "a"])
  })

  it("requires the version and the capabilities of the client in every request", async () => {
    const absent = { "io.modelcontextprotocol/protocolVersion": undefined }
    assert.deepStrictEqual(await codeOf(request("tools/list", {}, {}, absent)), [400, -32602, "a"])
    const none = { "io.modelcontextprotocol/clientCapabilities": undefined }
    assert.deepStrictEqual(await codeOf(request("tools/list", {}, {}, none)), [400, -32602, "a"])
    for (const method of ["initialize", "ping", "subscriptions/listen", "tasks/list"]) {
      assert.deepStrictEqual(await codeOf(request(method)), [404, -32601, "a"])
    }
  })
})

describe("a request", () => {
  it("that is no message is refused", async () => {
    const bodies: ReadonlyArray<readonly [unknown, number, number, string | null]> = [
      ["{", 400, -32700, null],
      ["", 400, -32700, null],
      [`${"[".repeat(2000)}${"]".repeat(2000)}`, 400, -32700, null],
      [[{ jsonrpc: "2.0", id: 1, method: "ping" }], 400, -32600, null],
      ["1", 400, -32600, null],
      [{ id: 1, method: "ping" }, 400, -32600, null],
      [{ jsonrpc: "2.0", id: {}, method: "ping" }, 400, -32600, null],
      [{ jsonrpc: "2.0", id: 1, method: 1 }, 400, -32600, null],
      [{ jsonrpc: "2.0", id: null, method: "ping" }, 400, -32600, null],
      [{ jsonrpc: "2.0", id: 1.5, method: "ping" }, 400, -32600, null],
      [{ jsonrpc: "2.0", id: true, method: "ping" }, 400, -32600, null],
      [{ jsonrpc: "2.0", method: 1 }, 400, -32600, null],
      [{ jsonrpc: "2.0", method: null }, 400, -32600, null],
      [{ jsonrpc: "2.0", id: 1, method: null }, 400, -32600, null],
      [{ jsonrpc: "2.0", method: { a: 1 }, result: {} }, 400, -32600, null],
      [{ jsonrpc: "2.0" }, 400, -32600, null],
      [{ jsonrpc: "2.0", id: 1 }, 400, -32600, null],
      [{ jsonrpc: "2.0", id: "a", params: {} }, 400, -32600, null],
      [{ jsonrpc: "2.0", result: {} }, 400, -32600, null],
      [{ jsonrpc: "2.0", id: 1.5, result: {} }, 400, -32600, null],
      [{ jsonrpc: "2.0", id: 1, result: {}, error: { code: 1, message: "x" } }, 400, -32600, null],
      [{ jsonrpc: 2, id: 1, method: "ping" }, 400, -32600, null],
      [[], 400, -32600, null],
      [{ jsonrpc: "2.0", id: "x".repeat(300), method: "ping" }, 400, -32600, null],
      [{ jsonrpc: "2.0", id: "b", method: "tools/call", params: 1 }, 200, -32602, "b"],
      [{ jsonrpc: "2.0", id: "b", method: `x${"\u0000".repeat(100)}` }, 200, -32601, "b"]
    ]
    for (const [body, ...expected] of bodies) {
      assert.deepStrictEqual(await codeOf(post(body)), expected, JSON.stringify(body).slice(0, 100))
    }
    const large = { jsonrpc: "2.0", id: 1, method: "tools/call", params: { arguments: "x".repeat(17_000_000) } }
    assert.deepStrictEqual(await codeOf(post(large)), [413, -32600, null])
  })

  it("gets its id back digit by digit", async () => {
    for (const id of ["9007199254740993", "-1", "1.0", "1e3", "\"\\u0061\"", "\"\""]) {
      const { text } = await service.call("POST", "/mcp", token, `{"jsonrpc":"2.0","id":${id},"method":"ping"}`)
      assert.strictEqual(text, `{"jsonrpc":"2.0","id":${id === "\"\\u0061\"" ? "\"a\"" : id},"result":{}}`)
    }
  })

  it("gets what it accepts: JSON, or events", async () => {
    const params = { name: "get_task", arguments: { task_id: "none", wait_seconds: 0 } }
    const call = (more: object, accept?: string) =>
      post({ jsonrpc: "2.0", id: 1, method: "tools/call", params: { ...params, ...more } }, accept ? { accept } : {})
    const [json, events] = ["application/json", "text/event-stream"]
    const token = { _meta: { progressToken: "p" } }
    const cases = [
      [{}, undefined, json],
      [{}, `${json}, ${events}`, json],
      [{}, events, events],
      [{}, `${json};q=0, */*`, events],
      [{}, "text/*", events],
      [{}, "text/html", json],
      [token, undefined, events],
      [token, `${json}, ${events}`, events],
      [token, `${json};q=0.9, TEXT/Event-Stream; q=0.1`, events],
      [token, "*/*", events],
      [token, json, json],
      [token, "Application/JSON; charset=utf-8", json],
      [token, "application/*", json],
      [token, `${json}, ${events};q=0`, json],
      [token, `*/*, ${events};q=0.0`, json],
      [token, `${events}, ${json};q=0`, events]
    ] as const
    for (const [more, accept, expected] of cases) {
      const { body: answered, headers, status } = await call(more, accept)
      assert.deepStrictEqual([status, headers.get("content-type")], [200, expected], accept)
      const body = expected === json
        ? answered
        : JSON.parse(/^event: message\ndata: (.*)\n\n$/.exec(answered)?.[1] ?? "")
      assert.deepInclude(body.result, { isError: true }, accept)
    }
    const list = { jsonrpc: "2.0", id: 1, method: "tools/list" }
    assert.strictEqual((await post(list, { accept: events })).headers.get("content-type"), events)
    assert.strictEqual((await post({ ...list, params: token }, { accept: json })).headers.get("content-type"), json)
    // So do errors with status 200. Another status is no event's.
    const wrong = [
      { ...list, method: "tools/call", params: { name: "none" } },
      { ...list, method: "none" }
    ]
    for (const message of wrong) {
      for (const [accept, expected] of [[events, events], [`${json}, ${events}`, json], [json, json]] as const) {
        const { body, headers, status } = await post(message, { accept })
        assert.deepStrictEqual([status, headers.get("content-type")], [200, expected], accept)
        const answer = typeof body === "string"
          ? JSON.parse(/^event: message\ndata: (.*)\n\n$/.exec(body)?.[1] ?? "")
          : body
        assert.deepInclude(answer, { id: 1, jsonrpc: "2.0" })
        assert.include([-32601, -32602], answer.error.code)
      }
    }
    assert.deepStrictEqual(await codeOf(post({ ...list, jsonrpc: "1" }, { accept: events })), [400, -32600, null])
  })

  it("by another method than POST is refused", async () => {
    for (const method of ["GET", "DELETE"]) {
      const { headers, status } = await service.call(method, "/mcp", token)
      assert.deepStrictEqual([status, headers.get("allow")], [405, "POST"])
    }
  })

  it("of a web page is accepted from this origin and from CORS_ORIGINS only", async () => {
    const ping = { jsonrpc: "2.0", id: 1, method: "ping" }
    for (const origin of [service.url, "https://app.example"]) {
      assert.strictEqual((await post(ping, { origin })).status, 200)
    }
    for (const origin of ["https://evil.example", "null", "http://127.0.0.1"]) {
      assert.deepStrictEqual(await codeOf(post(ping, { origin })), [403, -32600, null])
    }
  })

  it("without a valid token is refused before its body is read", async () => {
    const { body, headers, status } = await service.call("POST", "/mcp", "wrong", "{")
    assert.deepStrictEqual([status, body.error.code, headers.get("www-authenticate")], [401, -32600, "Bearer"])
    const { status: found } = await service.call("GET", "/.well-known/oauth-protected-resource/mcp", "")
    assert.strictEqual(found, 404)
  })
})

describe("with an issuer and an audience", () => {
  it("only tokens for this server are accepted, and a refusal says where to get one", async () => {
    const issuer = "https://login.example"
    const settings = { ...system.settings, JWT_ISSUER: issuer, MCP_AUDIENCE: "https://tasks.example/mcp" }
    const own = await use(Service.start(settings), onTestFinished)
    const ping = { jsonrpc: "2.0", id: 1, method: "ping" }
    const statusOf = async (claims: object) =>
      (await own.call("POST", "/mcp", await mint("aud", { iss: issuer, ...claims }), ping)).status
    assert.strictEqual(await statusOf({ aud: "https://tasks.example/mcp" }), 200)
    assert.strictEqual(await statusOf({ aud: ["other", "https://tasks.example/mcp"] }), 200)
    assert.strictEqual(await statusOf({ aud: "other" }), 401)
    assert.strictEqual(await statusOf({}), 401)
    assert.strictEqual((await own.call("GET", "/api/tasks", await mint("aud", { iss: issuer }))).status, 200)
    const { headers } = await own.call("POST", "/mcp", "", ping)
    const address = /resource_metadata="([^"]+)"/.exec(headers.get("www-authenticate") ?? "")?.[1] ?? ""
    assert.strictEqual(address, `${own.url}/.well-known/oauth-protected-resource/mcp`)
    for (const found of [address, address.slice(0, -4)]) {
      assert.deepStrictEqual(await (await fetch(found)).json(), {
        resource: `${own.url}/mcp`,
        authorization_servers: [issuer]
      })
    }
  })

  it("nothing is served while FACADES lacks mcp", async () => {
    const off = await use(Service.start({ ...system.settings, FACADES: "openai" }), onTestFinished)
    for (const method of ["GET", "POST"]) assert.strictEqual((await off.call(method, "/mcp", token)).status, 404)
  })
})
