/** Webhook endpoints over REST, as operators and receivers see them: a real process, Postgres and sockets. */
import { type CloudEvent, HTTP } from "cloudevents"
import { randomUUID } from "node:crypto"
import { Webhook } from "standardwebhooks"
import { afterEach, assert, describe, it, onTestFinished } from "vitest"
import { complete, interrupt, report, turnOf } from "../../kit/ScriptedCore.ts"
import { WebhookTarget } from "../../kit/ScriptedService.ts"
import { eventually, internalToken, mint } from "../../kit/Service.ts"
import { use } from "../../kit/suite.ts"
import { startSystem } from "../../kit/System.ts"

const readToken = "a read token of the operators of the tests"
const target = await use(new WebhookTarget().listen())
const system = await use(startSystem({ WEBHOOK_ALLOW_PRIVATE: "true", OPERATOR_READ_TOKENS: readToken }))
const { runOf, service } = system
const accept = target.script
afterEach(() => {
  target.script = accept
})

const base = "/internal/webhook-endpoints"
const call = (method: string, path: string, body?: unknown, token: string = internalToken) =>
  service.call(method, `${base}${path}`, token, body)

const register = async (more: object = {}) => {
  const { body, status } = await call("POST", "", { url: `${target.url}/${randomUUID()}`, ...more })
  assert.strictEqual(status, 201, JSON.stringify(body))
  onTestFinished(async () => {
    await call("DELETE", `/${body.id}`)
  })
  return body
}

const postsNow = ({ url }: { readonly url: string }) => target.received.filter(({ path }) => url.endsWith(path))
const postsTo = (endpoint: { readonly url: string }, count: number) =>
  eventually(async () => postsNow(endpoint), (posts) => posts.length >= count)

const begin = async (more: object = {}) => {
  const token = await mint(`endpoints-${randomUUID()}`)
  const { body } = await service.create(token, "Hello", more)
  return { uuid: String(body.uuid), token, run: await runOf(body.uuid) }
}

const end = async (more: object = {}) => {
  const task = await begin(more)
  await complete(task.run)
  return task
}

type Post = (typeof target.received)[number]
const verify = (secret: string, { body, headers }: Post) =>
  new Webhook(secret).verify(body, headers as Record<string, string>)

const logOf = async ({ id }: { readonly id: string }, query = "") =>
  (await call("GET", `/${id}/deliveries${query}`)).body.data

const settled = ({ id }: { readonly id: string }, count: number) =>
  eventually(
    () => logOf({ id }),
    (log) => log.length >= count && log.every(({ state }: { readonly state: string }) => state !== "pending")
  )

describe("a webhook endpoint", () => {
  it("is the target of the line in the audit about its creation", async () => {
    const { id } = await register()
    const { body } = await service.call("GET", "/internal/operator/audit?action=endpoint_create&limit=1", internalToken)
    assert.strictEqual(body.data[0].target, id)
  })

  it("receives interrupts and ends of all tasks, signed, with the task of a read", async () => {
    const endpoint = await register()
    assert.match(endpoint.id, /^whe_/)
    assert.strictEqual(Buffer.from(endpoint.secret.replace("whsec_", ""), "base64").length, 32)
    const { run, token, uuid } = await begin({ metadata: { a: "1" } })
    await interrupt(run)
    const readTask = async () => {
      const { turn: _, ...task } = (await service.call("GET", `/api/tasks/${uuid}`, token)).body
      return task
    }
    const [first] = await postsTo(endpoint, 1)
    const expected = (post: Post, type: string, task: object) => ({
      id: post.headers["webhook-id"],
      type,
      created_at: JSON.parse(post.body).created_at,
      data: { task }
    })
    const interrupted = await readTask()
    assert.strictEqual(interrupted.status, "interrupted")
    assert.deepStrictEqual(JSON.parse(first!.body), expected(first!, "task.interrupted", interrupted))
    await service.call("POST", `/api/tasks/${uuid}/cancel`, token, { reason: "é \"quoted\" \\ \u0007" })
    const [, second] = await postsTo(endpoint, 2)
    assert.deepStrictEqual(JSON.parse(second!.body), expected(second!, "task.canceled", await readTask()))
    for (const post of [first!, second!]) {
      verify(endpoint.secret, post)
      assert.strictEqual(post.headers["content-type"], "application/json")
      assert.notProperty(post.headers, "traceparent")
    }
    const log = await settled(endpoint, 2)
    assert.deepStrictEqual(
      log.map(({ id, state, type }: Record<string, string>) => ({ id, state, type })),
      [
        { id: second!.headers["webhook-id"], state: "delivered", type: "task.canceled" },
        { id: first!.headers["webhook-id"], state: "delivered", type: "task.interrupted" }
      ]
    )
    assert.deepInclude(log[0].attempts[0], { number: 1, response_status: 204, error: null })
    const { body: shown } = await call("GET", `/${endpoint.id}`)
    assert.notProperty(shown, "secret")
    assert.match(shown.last_success_at, /Z$/)
  })

  it("receives only what all of its filters select", async () => {
    const failures = await register({ events: ["task.failed"] })
    const mine = await register({ metadata: { project: randomUUID(), team: "a" } })
    const ofSeven = await register({ assistant_ids: [7, 8] })
    const both = await register({ assistant_ids: [7], metadata: mine.metadata, events: ["task.completed"] })
    const matching = await end({ assistant_id: 7, metadata: { ...mine.metadata, more: "x" } })
    const other = await end({ assistant_id: 7, metadata: { ...mine.metadata, team: "b" } })
    const failed = await begin({ assistant_id: 9 })
    await report(failed.run, { type: "failed", code: "internal" })
    const of = async (endpoint: { readonly url: string }, count: number) =>
      (await postsTo(endpoint, count)).map(({ body }) => JSON.parse(body).data.task.uuid).toSorted()
    assert.deepStrictEqual(await of(failures, 1), [failed.uuid])
    assert.deepStrictEqual(await of(ofSeven, 2), [matching.uuid, other.uuid].toSorted())
    assert.deepStrictEqual(await of(mine, 1), [matching.uuid])
    assert.deepStrictEqual(await of(both, 1), [matching.uuid])
  })

  it("receives the format that it asks for, and thin bodies of large tasks", async () => {
    const [full, thin, cloud] = await Promise.all(["full", "thin", "cloudevents"].map((format) => register({ format })))
    const { token, uuid } = await end({ metadata: { a: "b" } })
    const { body: task } = await service.call("GET", `/api/tasks/${uuid}`, token)
    const [ofFull] = await postsTo(full, 1)
    assert.deepStrictEqual(JSON.parse(ofFull!.body).data.task, task)
    const [ofThin] = await postsTo(thin, 1)
    const sub = JSON.parse(Buffer.from(token.split(".")[1]!, "base64url").toString()).sub
    assert.deepStrictEqual(JSON.parse(ofThin!.body).data.task, { uuid, sub, status: "completed", metadata: { a: "b" } })
    const [ofCloud] = await postsTo(cloud, 1)
    verify(cloud.secret, ofCloud!)
    const event = HTTP.toEvent({ headers: ofCloud!.headers, body: ofCloud!.body }) as CloudEvent<unknown>
    assert.isTrue(event.validate())
    const { turn: _, ...summary } = task
    assert.deepStrictEqual(event.data, { task: summary })
    assert.strictEqual(event.type, "task.completed")
    assert.strictEqual(event.subject, uuid)
    assert.strictEqual(event.id, ofFull!.headers["webhook-id"])
    assert.strictEqual(event.source, service.url)
    const large = await begin()
    await report(large.run, { type: "completed", turn: turnOf("x".repeat(1024 * 1024)) })
    const [, ofLarge] = await postsTo(full, 2)
    assert.hasAllKeys(JSON.parse(ofLarge!.body).data.task, ["uuid", "sub", "status", "metadata"])
  })

  it("keeps the old secret signing while it is rotated", async () => {
    const endpoint = await register()
    const rotated = (await call("POST", `/${endpoint.id}/rotate-secret`)).body
    assert.notStrictEqual(rotated.secret, endpoint.secret)
    await end()
    const [both] = await postsTo(endpoint, 1)
    assert.lengthOf(String(both!.headers["webhook-signature"]).split(" "), 2)
    verify(endpoint.secret, both!)
    verify(rotated.secret, both!)
    const until = Date.parse(rotated.old_secret_until) - Date.now()
    assert.isAtMost(Math.abs(until - 86_400_000), 60_000)
    const last = (await call("POST", `/${endpoint.id}/rotate-secret`, { keep_old_for: 0 })).body
    await end()
    const [, one] = await postsTo(endpoint, 2)
    assert.lengthOf(String(one!.headers["webhook-signature"]).split(" "), 1)
    verify(last.secret, one!)
    assert.throws(() => verify(rotated.secret, one!))
  })

  it("is retried with the same bytes, disabled by 410 at once, and goes on once it is enabled", async () => {
    const endpoint = await register()
    target.script = (_, response) => response.writeHead(503).end()
    const first = await end()
    const [failed] = await postsTo(endpoint, 1)
    target.script = (_, response) => response.writeHead(410).end()
    const [, retried] = await eventually(async () => postsNow(endpoint), (posts) => posts.length >= 2, 15_000)
    assert.strictEqual(retried!.body, failed!.body)
    assert.isAtLeast(retried!.at - failed!.at, 5000)
    const { body: disabled } = await eventually(() => call("GET", `/${endpoint.id}`), ({ body }) => body.disabled)
    assert.strictEqual(disabled.disabled_reason, "gone")
    await service.logged(/a webhook endpoint was disabled/)
    target.script = accept
    const second = await end()
    const log = await eventually(() => logOf(endpoint), (log) => log.length === 2)
    assert.deepStrictEqual(log.map(({ state }: { state: string }) => state), ["pending", "pending"])
    assert.lengthOf(postsNow(endpoint), 2)
    const { body: enabled } = await call("PATCH", `/${endpoint.id}`, { disabled: false })
    assert.deepInclude(enabled, { disabled: false, disabled_reason: null, failing_since: null })
    const posts = await postsTo(endpoint, 4)
    assert.deepStrictEqual(
      posts.slice(2).map(({ body }) => JSON.parse(body).data.task.uuid).toSorted(),
      [first.uuid, second.uuid].toSorted()
    )
    assert.strictEqual(posts.find(({ body }, index) => index > 1 && body === failed!.body)?.body, failed!.body)
  }, 40_000)

  it("is sent a delivery again by hand, and a range of them by a replay", async () => {
    const endpoint = await register()
    const from = new Date(Date.now() - 1000).toISOString()
    await end()
    await end()
    const [first, second] = await postsTo(endpoint, 2)
    await settled(endpoint, 2)
    const again = await call("POST", `/${endpoint.id}/deliveries/${first!.headers["webhook-id"]}/redeliver`)
    assert.strictEqual(again.status, 202)
    assert.deepInclude(again.body, { id: first!.headers["webhook-id"], state: "pending" })
    const [, , third] = await postsTo(endpoint, 3)
    assert.strictEqual(third!.body, first!.body)
    await settled(endpoint, 2)
    const to = new Date(Date.now() + 1000).toISOString()
    const replay = { from, to }
    const nothing = await call("POST", `/${endpoint.id}/replay`, { ...replay, failed_only: true })
    assert.deepStrictEqual(nothing.body, { enqueued: 0, left: 0 })
    const all = await call("POST", `/${endpoint.id}/replay`, replay)
    assert.strictEqual(all.status, 202)
    assert.deepStrictEqual(all.body, { enqueued: 2, left: 0 })
    const posts = await postsTo(endpoint, 5)
    assert.sameMembers(posts.slice(3).map(({ body }) => body), [first!.body, second!.body])
    const missing = await call("POST", `/${endpoint.id}/deliveries/evt_${randomUUID()}-1/redeliver`)
    assert.deepInclude(missing.body, { code: "delivery_not_found" })
  })

  it("goes on with the attempts of a delivery as planned after another one by hand", async () => {
    const endpoint = await register()
    target.script = (_, response) => response.writeHead(503).end()
    await end()
    const [first] = await postsTo(endpoint, 1)
    const [failed] = await eventually(() => logOf(endpoint), ([log]) => log?.next_attempt_at != null)
    const redelivery = `/${endpoint.id}/deliveries/${first!.headers["webhook-id"]}/redeliver`
    assert.strictEqual((await call("POST", redelivery)).status, 202)
    const [again] = await eventually(
      () => logOf(endpoint),
      ([log]) => log?.attempts.length === 2 && log.next_attempt_at !== null
    )
    const [begun, repeated] = again.attempts.map(({ started_at }: { started_at: string }) => Date.parse(started_at))
    // Less than the planned one would have taken: the first pause is 5 s, the second 25 s.
    assert.isBelow(repeated - begun, Date.parse(failed.next_attempt_at) - begun)
    assert.isBelow(Date.parse(again.next_attempt_at) - repeated, 15_000)
    const { body } = await call("PATCH", `/${endpoint.id}`, { disabled: true })
    assert.strictEqual(body.disabled, true)
    const [waiting] = await logOf(endpoint)
    assert.deepInclude(waiting, { state: "pending", next_attempt_at: null })
    assert.strictEqual((await call("PATCH", `/${endpoint.id}`, { disabled: null })).body.disabled, true)
    target.script = accept
  })

  it("is sent a sample on request, even while it is disabled, and the attempt is returned", async () => {
    const endpoint = await register({ disabled: true })
    const tested = await call("POST", `/${endpoint.id}/test`, { event: "task.interrupted" })
    assert.strictEqual(tested.status, 200)
    assert.deepInclude(tested.body, { type: "task.interrupted", number: 1, response_status: 204, error: null })
    const [sample] = await postsTo(endpoint, 1)
    verify(endpoint.secret, sample!)
    assert.strictEqual(sample!.headers["webhook-id"], tested.body.id)
    assert.strictEqual(JSON.parse(sample!.body).type, "task.interrupted")
    target.script = (_, response) => response.writeHead(500).end()
    const failed = await call("POST", `/${endpoint.id}/test`)
    assert.deepInclude(failed.body, { type: "task.completed", response_status: 500, error: "not_2xx" })
    assert.deepStrictEqual(
      (await logOf(endpoint)).map(({ state }: { state: string }) => state),
      ["failed", "delivered"]
    )
  })

  it("without a URL is read as a stream, from its beginning or behind an event", async () => {
    const endpoint = await register({ url: null })
    const first = await end()
    const read = async (count: number, lastEventId?: string) => {
      const abort = new AbortController()
      const response = await fetch(`${service.url}${base}/${endpoint.id}/events`, {
        headers: {
          authorization: `Bearer ${internalToken}`,
          ...(lastEventId === undefined ? {} : { "last-event-id": lastEventId })
        },
        signal: abort.signal
      })
      assert.strictEqual(response.headers.get("content-type"), "text/event-stream")
      let text = ""
      for await (const chunk of response.body!.pipeThrough(new TextDecoderStream())) {
        text += chunk
        if (text.split("\ndata: ").length > count) break
      }
      abort.abort()
      return [...text.matchAll(/id: (\d+)\nevent: (\S+)\ndata: (.*)\n/g)].map(([, id, event, data]) => ({
        id: id!,
        event,
        uuid: JSON.parse(data!).data.task.uuid
      }))
    }
    const [one] = await read(1)
    assert.deepInclude(one, { event: "task.completed", uuid: first.uuid })
    const second = read(1, one!.id)
    const later = await end()
    assert.deepInclude((await second)[0], { event: "task.completed", uuid: later.uuid })
    assert.deepStrictEqual((await read(2)).map(({ uuid }) => uuid), [first.uuid, later.uuid])
    const denied = await call("GET", `/${endpoint.id}/events`, undefined, readToken)
    assert.strictEqual(denied.status, 403)
    const sent = await register()
    assert.deepInclude((await call("GET", `/${sent.id}/events`)).body, { code: "endpoint_is_sent" })
    // A stream ends with the endpoint.
    const rest = read(Infinity, one!.id)
    await call("DELETE", `/${endpoint.id}`)
    assert.deepStrictEqual((await rest).map(({ uuid }) => uuid), [later.uuid])
  })
})

describe("the registry of webhook endpoints", () => {
  it.each([
    [{}, "url"],
    [{ url: "ftp://example.com" }, "url"],
    [{ url: "https://example.com/a b" }, "url"],
    [{ url: "http://10.0.0.1/hook" }, "url"],
    [{ url: "http://169.254.169.254/latest" }, "url"],
    [{ url: "http://[fd00::1]/" }, "url"],
    [{ url: 7 }, "url"],
    [{ url: null, events: [] }, "events"],
    [{ url: null, events: ["task.created"] }, "events.0"],
    [{ url: null, events: ["task.failed", "task.failed"] }, "events"],
    [{ url: null, assistant_ids: ["1"] }, "assistant_ids.0"],
    [{ url: null, assistant_ids: [0] }, "assistant_ids.0"],
    [{ url: null, metadata: { a: 1 } }, "metadata.a"],
    [{ url: null, format: "xml" }, "format"],
    [{ url: null, disabled: "yes" }, "disabled"],
    [{ url: null, description: "x".repeat(501) }, "description"],
    [{ url: null, description: "\0" }, "description"]
  ])("refuses %j, naming %s", async (body, field) => {
    const answer = await call("POST", "", body)
    assert.strictEqual(answer.status, 422, JSON.stringify(answer.body))
    assert.deepStrictEqual(Object.keys(answer.body.errors), [field])
  })

  it("refuses wrong values of other requests, naming their field", async () => {
    const { id } = await register({ url: null })
    const refuses = async (method: string, path: string, body: unknown, field: string) => {
      const answer = await call(method, `/${id}${path}`, body)
      assert.strictEqual(answer.status, 422, `${path} ${JSON.stringify(answer.body)}`)
      assert.include(Object.keys(answer.body.errors), field)
    }
    await refuses("PATCH", "", { url: "http://192.168.1.1/" }, "url")
    await refuses("PATCH", "", { format: 1 }, "format")
    await refuses("POST", "/rotate-secret", { keep_old_for: -1 }, "keep_old_for")
    await refuses("POST", "/test", { event: "task.created" }, "event")
    await refuses("POST", "/replay", {}, "from")
    await refuses("POST", "/replay", {}, "to")
    await refuses("POST", "/replay", { from: "yesterday", to: "now" }, "from")
    await refuses("POST", "/replay", { from: "2026-11-02T00:00:00Z", to: "2026-11-01T00:00:00Z" }, "from")
    await refuses("GET", "/deliveries?state=lost", undefined, "state")
    await refuses("GET", "/deliveries?limit=0", undefined, "limit")
    await refuses("GET", "/deliveries?cursor=x", undefined, "cursor")
    await refuses("GET", "/deliveries?page=1", undefined, "page")
    for (
      const [method, path] of [["GET", ""], ["PATCH", ""], ["DELETE", ""], ["POST", "/replay"], ["GET", "/events"]]
    ) {
      const answer = await call(method!, `/whe_${"0".repeat(32)}${path}`, method === "GET" ? undefined : { url: 1 })
      assert.strictEqual(answer.status, 404, `${method} ${path}`)
      assert.strictEqual(answer.body.code, "endpoint_not_found")
    }
  })

  it("lists pages, changes and deletes", async () => {
    const made = [await register({ url: null, description: "one" }), await register(), await register({ url: null })]
    const first = (await call("GET", "?limit=2")).body
    assert.deepStrictEqual(first.data.map(({ id }: { id: string }) => id), [made[2]!.id, made[1]!.id])
    const rest = (await call("GET", `?limit=2&cursor=${first.next}`)).body
    assert.strictEqual(rest.data[0].id, made[0]!.id)
    const changed = await call("PATCH", `/${made[0]!.id}`, {
      description: null,
      events: ["task.failed"],
      assistant_ids: [1],
      metadata: { a: "b" },
      format: "thin",
      disabled: true
    })
    assert.deepInclude(changed.body, { description: null, events: ["task.failed"], format: "thin", disabled: true })
    const reset = await call("PATCH", `/${made[0]!.id}`, {
      events: null,
      assistant_ids: null,
      metadata: null,
      format: null
    })
    assert.deepInclude(reset.body, { assistant_ids: null, metadata: null, format: "default", disabled: true })
    assert.lengthOf(reset.body.events, 4)
    assert.deepStrictEqual((await call("GET", `/${made[0]!.id}`)).body, reset.body)
    assert.strictEqual((await call("DELETE", `/${made[0]!.id}`)).status, 204)
    assert.strictEqual((await call("GET", `/${made[0]!.id}`)).status, 404)
  })

  it("lets read tokens read and change nothing", async () => {
    const { id } = await register({ url: null })
    for (const path of ["", `/${id}`, `/${id}/deliveries`]) {
      assert.strictEqual((await call("GET", path, undefined, readToken)).status, 200, path)
    }
    for (
      const [method, path] of [
        ["POST", ""],
        ["PATCH", `/${id}`],
        ["DELETE", `/${id}`],
        ["POST", `/${id}/rotate-secret`],
        ["POST", `/${id}/test`],
        ["POST", `/${id}/replay`],
        ["POST", `/${id}/deliveries/x/redeliver`]
      ]
    ) assert.strictEqual((await call(method!, path!, {}, readToken)).status, 403, `${method} ${path}`)
    assert.strictEqual((await call("GET", "", undefined, await mint("someone"))).status, 401)
  })

  it("takes the session of the console, whose changes need a header that other pages cannot set", async () => {
    const logIn = await fetch(`${service.url}/internal/operator/session`, {
      method: "POST",
      headers: { "content-type": "application/json", "x-console": "1" },
      body: JSON.stringify({ token: internalToken })
    })
    assert.strictEqual(logIn.status, 204)
    const [cookie = ""] = logIn.headers.getSetCookie()
    assert.include(cookie, "Path=/internal;")
    const send = (method: string, headers: object = {}) =>
      fetch(`${service.url}${base}`, {
        method,
        headers: { cookie: cookie.split(";")[0]!, "content-type": "application/json", ...headers },
        ...(method === "GET" ? {} : { body: JSON.stringify({ url: null }) })
      })
    assert.strictEqual((await send("GET")).status, 200)
    assert.strictEqual((await send("POST")).status, 403)
    const created = await send("POST", { "x-console": "1" })
    assert.strictEqual(created.status, 201)
    await call("DELETE", `/${JSON.parse(await created.text()).id}`)
  })

  it("holds at most a hundred, however many are registered at once", async () => {
    const before = (await call("GET", "?limit=100")).body.data.length
    const answers = await Promise.all(
      Array.from({ length: 110 - before }, () => call("POST", "", { url: null, disabled: true }))
    )
    const created = answers.filter(({ status }) => status === 201)
    onTestFinished(async () => {
      await Promise.all(created.map(({ body }) => call("DELETE", `/${body.id}`)))
    })
    assert.lengthOf(created, 100 - before)
    assert.strictEqual(answers.find(({ status }) => status !== 201)?.body.code, "too_many_endpoints")
  })
})
