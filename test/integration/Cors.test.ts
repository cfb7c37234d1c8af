import { assert, describe, it, onTestFinished } from "vitest"
import { diagnose } from "../kit/runToEnd.ts"
import { mint, Service } from "../kit/Service.ts"
import { use, useDirectory } from "../kit/suite.ts"
import { sharedSystem } from "../kit/System.ts"

const [app, admin, stranger] = ["https://app.example", "http://localhost:5173", "https://stranger.example"]
const system = await sharedSystem()
const directory = useDirectory()
const token = await mint("cors")

const start = (CORS_ORIGINS: string, more = {}) => Service.start({ ...system.settings, CORS_ORIGINS, ...more })

const usual = "authorization,content-type,idempotency-key"

const preflight = (service: Service, origin: string, headers = usual, path = "/api/tasks") =>
  fetch(service.url + path, {
    method: "OPTIONS",
    headers: {
      origin,
      "access-control-request-method": "POST",
      "access-control-request-headers": headers
    }
  })

const list = (header: string | null) => header?.split(",").map((name) => name.trim().toLowerCase()) ?? []

const corsHeaders = (headers: Headers) => [...headers.keys()].filter((name) => name.startsWith("access-control-"))

describe("CORS", () => {
  it("is off by default: no response has CORS headers", async () => {
    const { service } = system
    const answers = [
      await service.call("GET", "/api/tasks", token, undefined, { origin: app }),
      await service.call("GET", "/api/tasks", "nobody", undefined, { origin: app }),
      await preflight(service, app)
    ]
    assert.deepStrictEqual(answers.map(({ status }) => status), [200, 401, 405])
    for (const { headers } of answers) assert.deepStrictEqual(corsHeaders(headers), [])
  })

  it("allows the configured origins to read responses, headers and errors", async () => {
    const service = await use(start(`${app}, ${admin}`), onTestFinished)
    for (const origin of [app, admin]) {
      const asked = await preflight(service, origin)
      assert.strictEqual(asked.status, 204)
      assert.strictEqual(asked.headers.get("access-control-allow-origin"), origin)
      assert.includeMembers(list(asked.headers.get("access-control-allow-methods")), ["get", "post", "delete"])
      assert.includeMembers(
        list(asked.headers.get("access-control-allow-headers")),
        ["authorization", "content-type", "idempotency-key", "if-none-match", "last-event-id"]
      )
      assert.isNotNull(asked.headers.get("x-request-id"))
      const body = { assistant_id: 1, input: [{ type: "text", text: "x" }] }
      for (
        const [method, path, bearer, sent, expected] of [
          ["POST", "/api/tasks", token, body, 201],
          ["GET", "/api/tasks/00000000-0000-4000-8000-000000000000", token, undefined, 404],
          ["GET", "/api/tasks", "nobody", undefined, 401],
          ["POST", "/api/tasks", token, {}, 422],
          ["GET", "/nowhere", token, undefined, 404]
        ] as const
      ) {
        const { headers, status } = await service.call(method, path, bearer, sent, { origin })
        assert.strictEqual(status, expected)
        assert.strictEqual(headers.get("access-control-allow-origin"), origin, path)
        assert.includeMembers(
          list(headers.get("access-control-expose-headers")),
          ["etag", "location", "x-request-id", "x-should-retry", "retry-after", "idempotent-replayed"]
        )
        assert.include(list(headers.get("vary")), "origin")
        assert.isNull(headers.get("access-control-allow-credentials"))
      }
    }
    for (const origin of [stranger, "null", `${app}.evil.example`, app.toUpperCase()]) {
      assert.isNull((await preflight(service, origin)).headers.get("access-control-allow-origin"), origin)
      const { headers } = await service.call("GET", "/api/tasks", token, undefined, { origin })
      assert.isNull(headers.get("access-control-allow-origin"), origin)
      assert.include(list(headers.get("vary")), "origin")
    }
  })

  it("allows each header that a page asks for, and those of all protocols without being asked", async () => {
    const service = await use(start(app), onTestFinished)
    const sent = [
      ["traceparent", "baggage", "sentry-trace", "x-b3-traceid", "x-datadog-trace-id", "uber-trace-id"],
      ["uberctx-user", "ot-baggage-user", "x-posthog-session-id", "x-highlight-request", "eagleeye-traceid"],
      ["expires", "if-modified-since", "x-tenant", "X-App_Version", "!#$%&'+.^`|~"]
    ].flat()
    const own = ["last-event-id", "if-none-match", "mcp-protocol-version", "a2a-version", "x-stainless-lang"]
    const allowedOf = async (names: ReadonlyArray<string>) => {
      const answer = await preflight(service, app, names.join(","))
      assert.strictEqual(answer.status, 204)
      return list(answer.headers.get("access-control-allow-headers"))
    }
    const allowed = await allowedOf([...usual.split(","), ...sent])
    assert.includeMembers(allowed, [...usual.split(","), ...own, ...sent.map((name) => name.toLowerCase())])
    // Whatever is no name is left out, and the answer to one page has nothing of another.
    const plain = await allowedOf([])
    assert.includeMembers(plain, own)
    assert.deepStrictEqual(await allowedOf(["*", "a b", "a:b", "\u00e9", " ", ",,"]), plain)
    assert.lengthOf(await allowedOf(Array.from({ length: 1000 }, (_, index) => `x-${index}`)), plain.length + 1000)
    // Nothing of the console and the operators' paths, where a cookie is accepted.
    for (const path of ["/console", "/internal/operator/tasks"]) {
      assert.isEmpty(corsHeaders((await preflight(service, app, "x-console", path)).headers), path)
    }
    const traced = {
      origin: app,
      traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
      baggage: "userId=alice,broken;;",
      b3: "nonsense",
      "x-datadog-trace-id": "1"
    }
    assert.strictEqual((await service.call("GET", "/api/tasks", token, undefined, traced)).status, 200)
    const { headers } = await service.call("GET", "/api/tasks", "nobody", undefined, { origin: app })
    assert.include(list(headers.get("access-control-expose-headers")), "www-authenticate")
  })

  it("allows all origins with *", async () => {
    const service = await use(start("*"), onTestFinished)
    assert.strictEqual((await preflight(service, stranger)).headers.get("access-control-allow-origin"), "*")
    const { headers } = await service.call("GET", "/api/tasks", token, undefined, { origin: stranger })
    assert.strictEqual(headers.get("access-control-allow-origin"), "*")
  })

  it("refuses settings that contain something other than an origin", async () => {
    for (const wrong of ["https://app.example/", "app.example", "*, https://app.example", "https://app.example/path"]) {
      const problem = await diagnose({ ...system.settings, DATA_DIR: directory, CORS_ORIGINS: wrong }, "settings")
      assert.match(problem, /CORS_ORIGINS: .* is no origin/, wrong)
    }
  })
})
