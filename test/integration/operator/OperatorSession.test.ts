/** Access to the operator interface: sessions of browsers, tokens, and the limits of a read token. */
import { createHash } from "node:crypto"
import { assert, describe, it, onTestFinished } from "vitest"
import { eventually, internalToken, mint, Service } from "../../kit/Service.ts"
import { use } from "../../kit/suite.ts"
import { startSystem } from "../../kit/System.ts"
import { operatorCalls } from "./operatorCalls.ts"
import { operatorPaths } from "./operatorPaths.ts"

const readToken = "operator-read-token-of-the-tests"
const system = await use(startSystem({ OPERATOR_READ_TOKENS: readToken, CORS_ORIGINS: "*" }))
const { service } = system
const user = await mint("ann")

const start = (settings: Readonly<Record<string, string>>) =>
  use(Service.start({ ...system.settings, ...settings }), onTestFinished)

const { get, post } = operatorCalls(service)

const fetchAs = (cookie: string, path: string, init: RequestInit = {}, at = service) =>
  fetch(`${at.url}/internal/operator${path}`, { ...init, headers: { cookie, ...Object(init.headers) } })

const logIn = (token: string, at = service, headers: Readonly<Record<string, string>> = { "x-console": "1" }) =>
  fetch(`${at.url}/internal/operator/session`, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: JSON.stringify({ token })
  })

const cookieOf = (response: Response) => (response.headers.get("set-cookie") ?? "").split(";")[0] ?? ""

const create = async () => ({ uuid: String((await service.create(user, "x")).body.uuid) })

describe("a session", () => {
  it("is a cookie that scripts and other sites cannot use", async () => {
    const opened = await logIn(internalToken)
    assert.strictEqual(opened.status, 204)
    const [value, ...flags] = (opened.headers.get("set-cookie") ?? "").split("; ")
    assert.match(value ?? "", /^operator=v2\.\w{8}\.[\w-]+\.[\w-]+$/)
    assert.deepStrictEqual(flags, ["Path=/internal", "HttpOnly", "SameSite=Strict"])
    const cookie = cookieOf(opened)
    const shown = await fetchAs(cookie, "/session")
    assert.strictEqual(shown.headers.get("cache-control"), "no-store")
    const { expires_at, role } = await shown.json()
    assert.strictEqual(role, "full")
    assert.approximately(Date.parse(expires_at) - Date.now(), 8 * 3_600_000, 60_000)
    assert.strictEqual((await fetchAs(cookie, "/overview")).status, 200)
    const closed = await fetchAs(cookie, "/session", { method: "DELETE", headers: { "x-console": "1" } })
    assert.strictEqual(closed.status, 204)
    assert.match(closed.headers.get("set-cookie") ?? "", /^operator=; .*Max-Age=0$/)
  })

  it("ends with the log-out on every node, also for a copy of its cookie", async () => {
    const other = await start({})
    const [cookie, another] = [cookieOf(await logIn(internalToken)), cookieOf(await logIn(internalToken))]
    assert.strictEqual((await fetchAs(cookie, "/overview", {}, other)).status, 200)
    const foreign = await fetchAs(cookie, "/session", { method: "DELETE" })
    assert.deepStrictEqual([foreign.status, foreign.headers.get("set-cookie")], [403, null])
    await fetchAs(cookie, "/session", { method: "DELETE", headers: { "x-console": "1" } })
    assert.strictEqual((await fetchAs(cookie, "/overview")).status, 401)
    await eventually(() => fetchAs(cookie, "/overview", {}, other), ({ status }) => status === 401, 10_000)
    assert.strictEqual((await fetchAs(another, "/overview")).status, 200)
    const again = await fetchAs(cookie, "/session", { method: "DELETE", headers: { "x-console": "1" } })
    assert.strictEqual(again.status, 204)
  })

  it("is for HTTPS only in production, whatever PUBLIC_URL is, unless a setting allows plain HTTP", async () => {
    const token = "rXw0cXq5u3Vd8tQp1nLk7yBz4mHs6jGf"
    const production = {
      NODE_ENV: "production",
      INTERNAL_TOKENS: token,
      CORE_URL: "http://core.internal",
      ASSISTANT_BACKEND_URL: "http://assistants.internal",
      JWT_SECRET: "a secret of the tests, long enough for HS256",
      ENCRYPTION_KEY: "1ufm9JqSlCnW7a7VYjGQDPBlEOWLJ5wA8gZ0vqvSjeE=",
      PUBLIC_URL: "http://tasks-internal"
    }
    const cookieIn = async (settings: Readonly<Record<string, string>>) =>
      (await logIn(token, await start({ ...production, ...settings }))).headers.get("set-cookie") ?? ""
    assert.match(await cookieIn({}), /^__Secure-operator=.*; Secure$/)
    assert.notInclude(await cookieIn({ OPERATOR_SECURE_COOKIE: "off" }), "ecure")
  })

  it("is for HTTPS only where the service is", async () => {
    const secure = await start({ PUBLIC_URL: "https://tasks.example" })
    const opened = await logIn(internalToken, secure)
    assert.match(opened.headers.get("set-cookie") ?? "", /^__Secure-operator=.*; Secure$/)
    assert.strictEqual((await fetchAs(cookieOf(opened), "/overview", {}, secure)).status, 200)
    assert.strictEqual((await fetchAs(cookieOf(opened).replace("__Secure-", ""), "/overview", {}, secure)).status, 401)
  })

  it("changes nothing for a page of another origin", async () => {
    const cookie = cookieOf(await logIn(internalToken))
    const { uuid } = await create()
    const cancel = (headers: Readonly<Record<string, string>>) =>
      fetchAs(cookie, `/tasks/${uuid}/cancel`, { method: "POST", headers })
    for (
      const headers of [
        {},
        { "x-console": "0" },
        { "x-console": "1", "sec-fetch-site": "cross-site" },
        { "x-console": "1", "sec-fetch-site": "same-site" },
        { "content-type": "application/x-www-form-urlencoded", "sec-fetch-site": "same-origin" },
        ...["https://evil.example", "null", "http://127.0.0.1", `${service.url}.evil.example`, `${service.url}1`]
          .map((origin) => ({ "x-console": "1", origin }))
      ]
    ) {
      assert.strictEqual((await cancel(headers)).status, 403, JSON.stringify(headers))
    }
    for (
      const headers of [{}, { "x-console": "1", origin: "https://evil.example" }, { "x-console": "1", origin: "null" }]
    ) {
      assert.strictEqual((await logIn(internalToken, service, headers)).status, 403)
    }
    const left = await fetchAs(cookie, "/session", { method: "DELETE", headers: { "x-console": "1", origin: "null" } })
    assert.strictEqual(left.status, 403)
    assert.strictEqual((await service.get(user, uuid)).body.status, "pending")
    assert.strictEqual((await cancel({ "x-console": "1", "sec-fetch-site": "same-origin" })).status, 200)
    for (const method of ["GET", "OPTIONS"]) {
      const answer = await fetchAs(cookie, "/overview", {
        method,
        headers: { origin: "https://app.example", "access-control-request-method": "GET" }
      })
      assert.isNull(answer.headers.get("access-control-allow-origin"))
    }
  })

  it("changes what a page of the host of the request or of PUBLIC_URL wants", async () => {
    const behind = await start({ PUBLIC_URL: "http://tasks.example" })
    const { host } = new URL(behind.url)
    for (const origin of [behind.url, `https://${host}`, "http://tasks.example"]) {
      assert.strictEqual((await logIn(internalToken, behind, { "x-console": "1", origin })).status, 204, origin)
    }
    const headers = { "x-console": "1", origin: service.url }
    assert.strictEqual((await logIn(internalToken, behind, headers)).status, 403)
    // A proxy may have changed the host; the browser knows where its page is from.
    const fromPage = { ...headers, "sec-fetch-site": "same-origin" }
    assert.strictEqual((await logIn(internalToken, behind, fromPage)).status, 204)
  })

  it("is refused after a second, and immediately after ten wrong tokens in a minute, but never with a right one", async () => {
    const guarded = await start({})
    const startedAt = performance.now()
    const answers = await Promise.all(Array.from({ length: 10 }, (_, index) => logIn(`wrong-${index}`, guarded)))
    assert.isAbove(performance.now() - startedAt, 950)
    assert.deepStrictEqual(answers.map(({ status }) => status), Array.from({ length: 10 }, () => 401))
    const refused = await logIn("wrong-10", guarded)
    assert.strictEqual(refused.status, 429)
    assert.strictEqual((await logIn(internalToken, guarded)).status, 204)
    assert.isNotNull(refused.headers.get("retry-after"))
    assert.notInclude(guarded.output, "wrong-")
  })

  it("is refused immediately after ten wrong tokens on other routes too", async () => {
    const guarded = await start({})
    const posts = ["/internal/tokens/revoke", "/internal/core/events", "/rpc"].map((path) => ["POST", path] as const)
    const routes = [...posts, ["GET", "/internal/metrics"], ["GET", "/internal/operator/overview"]] as const
    for (const [index, [method, path]] of [...routes, ...routes].entries()) {
      assert.strictEqual((await guarded.call(method, path, "")).status, 401)
      assert.strictEqual((await guarded.call(method, path, `wrong-${index}`)).status, 401, path)
    }
    await guarded.logged(/wrong tokens of operators: ten within a minute/)
    assert.strictEqual((await logIn("wrong-10", guarded)).status, 429)
    assert.strictEqual((await logIn(internalToken, guarded)).status, 204)
  })
})

describe("a callback secret", () => {
  it("is no session once it is sealed, although it says the same", async () => {
    const cookie = cookieOf(await logIn(internalToken))
    const now = Date.now() * 1000
    const token = createHash("sha256").update(internalToken).digest("hex").slice(0, 16)
    const forged = JSON.stringify({ purpose: "operator-session", role: "full", token, issuedAt: now, seenAt: now })
    const body = { callback_url: "https://client.example/hook", callback_secret: forged }
    const { uuid } = (await service.create(user, "x", body)).body
    const [row] = await system.database.query<{ readonly sealed: string }>(
      `SELECT callback_secret AS sealed FROM task_requests WHERE task_uuid = '${uuid}'`
    )
    assert.strictEqual(row?.sealed.split(".")[1], cookie.split(".")[1], "another key")
    assert.strictEqual((await fetchAs(cookie, "/overview")).status, 200)
    assert.strictEqual((await fetchAs(`operator=${row?.sealed}`, "/overview")).status, 401)
  })
})

describe("access", () => {
  it("names a node by an id with encoded characters", async () => {
    assert.include((await post("/nodes/a%20b%3A1/drain")).body.message, "this instance")
  })

  it("needs a token of an operator", async () => {
    for (const path of operatorPaths) {
      assert.strictEqual((await get(path, user)).status, 401, path)
      assert.strictEqual((await fetch(`${service.url}/internal/operator${path}`)).status, 401, path)
      assert.strictEqual((await fetchAs("operator=v2.00000000.AAAA.AAAA", path)).status, 401, path)
    }
  })

  it("is read only with a read token", async () => {
    const { uuid } = await create()
    for (const path of [...operatorPaths, `/tasks/${uuid}`]) {
      assert.strictEqual((await get(path, readToken)).status, 200, path)
    }
    const { body: { members: [{ instance }] } } = await get("/cluster", readToken)
    const changes = [
      `/tasks/${uuid}/cancel`,
      "/deliveries/redeliver",
      `/nodes/${instance}/drain`,
      `/nodes/${instance}/take-in`,
      "/revocations"
    ]
    for (const path of changes) assert.strictEqual((await post(path, {}, readToken)).status, 403, path)
    assert.strictEqual((await get(`/tasks/${uuid}/content`, readToken)).status, 403)
    assert.strictEqual((await service.call("GET", "/internal/metrics", readToken)).status, 200)
    const revocation = await service.call("POST", "/internal/tokens/revoke", readToken, { jti: "any" })
    assert.strictEqual(revocation.status, 401)
    const cookie = cookieOf(await logIn(readToken))
    const revoke = await fetchAs(cookie, "/revocations", {
      method: "POST",
      headers: { "x-console": "1", "content-type": "application/json" },
      body: JSON.stringify({ sub: "ann" })
    })
    assert.strictEqual(revoke.status, 403)
  })
})
