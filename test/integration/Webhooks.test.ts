/** Webhooks as a receiver sees them: from a real process, over real sockets. */
import { Webhook } from "standardwebhooks"
import { afterEach, assert, describe, it, onTestFinished } from "vitest"
import { verifyWebhook } from "../../src/http/client/Webhooks.ts"
import { complete, interrupt, report, turnOf } from "../kit/ScriptedCore.ts"
import { WebhookTarget } from "../kit/ScriptedService.ts"
import { eventually, mint } from "../kit/Service.ts"
import { use } from "../kit/suite.ts"
import { startSystem } from "../kit/System.ts"

const target = await use(new WebhookTarget().listen())
const system = await use(startSystem({ WEBHOOK_ALLOW_PRIVATE: "true" }))
const { service } = system
const accept = target.script
afterEach(() => {
  target.script = accept
})

const secret = "canary-secret-7c1f"
const standard = new Webhook(new TextEncoder().encode(secret), { format: "raw" })

const create = async (token: string, more: object = {}) => {
  const created = await service.create(token, "x", {
    callback_url: `${target.url}/hook`,
    callback_secret: secret,
    ...more
  })
  const uuid = String(created.body.uuid)
  return { uuid, run: await system.runOf(uuid) }
}

const posted = (uuid: string, count: number) =>
  eventually(async () => target.postsOf(uuid), (posts) => posts.length >= count, 20_000)

const settled = async (token: string, uuid: string) => {
  const answer = await eventually(
    () => service.call("GET", `/api/tasks/${uuid}/deliveries`, token),
    ({ body }) => body.data.length > 0 && body.data.every(({ state }: { state: string }) => state !== "pending")
  )
  return answer.body.data
}

const rawGet = async (token: string, uuid: string) => (await service.get(token, uuid)).text

describe("a webhook", () => {
  it("reports each interrupt and the end, signed, with the bytes of a read", async () => {
    const token = await mint("hooked")
    const { run, uuid } = await create(token)
    await interrupt(run)
    const [first] = await posted(uuid, 1)
    assert.strictEqual(first!.body, await rawGet(token, uuid))
    await service.call("POST", `/api/tasks/${uuid}/tool-results`, token, {
      results: [{ tool_call_id: "c1", output: 1 }]
    })
    await report(await system.runOf(uuid, run), { type: "completed", turn: { ...turnOf("é done"), z: 1, a: 2 } })
    const [, second] = await posted(uuid, 2)
    assert.strictEqual(second!.body, await rawGet(token, uuid))
    for (const { body, headers } of [first!, second!]) {
      assert.strictEqual(headers["user-agent"], "async-task-service")
      assert.notProperty(headers, "traceparent")
      assert.notProperty(headers, "b3")
      assert.strictEqual((await verifyWebhook({ body, headers, secret })).taskId, uuid)
      standard.verify(body, Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, String(value)])))
    }
    const deliveries = await settled(token, uuid)
    assert.deepStrictEqual(deliveries.map(({ status }: { status: string }) => status), ["interrupted", "completed"])
    assert.deepStrictEqual(
      deliveries.map(({ id }: { id: string }) => id),
      [first!, second!].map(({ headers }) => headers["webhook-id"])
    )
    assert.deepInclude(deliveries[1].attempts[0], { number: 1, response_status: 204, error: null })
  })

  it("is retried, can be redelivered by hand, and leaves no secret in the database", async () => {
    const token = await mint("again")
    target.script = (_, response) => response.writeHead(500).end()
    const { run, uuid } = await create(token)
    await complete(run)
    await posted(uuid, 1)
    const list = () => service.call("GET", `/api/tasks/${uuid}/deliveries`, token)
    const waiting = await eventually(list, ({ body }) => body.data[0].next_attempt_at !== null)
    const [{ id, state }] = waiting.body.data
    assert.strictEqual(state, "pending")
    target.script = accept
    const again = (body?: object, as = token) =>
      service.call("POST", `/api/tasks/${uuid}/deliveries/${id}/redeliver`, as, body)
    const accepted = await again()
    assert.deepStrictEqual([accepted.status, accepted.body.id], [202, id])
    const [first, second] = await posted(uuid, 2)
    assert.strictEqual(second!.body, first!.body)
    const [delivery] = await settled(token, uuid)
    assert.strictEqual(delivery.state, "delivered")
    const [{ count }] = await system.database.query<{ count: number }>(
      "SELECT count(callback_secret)::int AS count FROM webhook_deliveries WHERE delivered_at IS NOT NULL"
    ) as [{ count: number }]
    assert.strictEqual(count, 0)
    assert.notInclude(service.output, secret)

    assert.strictEqual((await again()).status, 409)
    assert.deepStrictEqual(Object.keys((await again({ callback_secret: 1 })).body.errors), ["callback_secret"])
    assert.strictEqual((await again({}, await mint("again-stranger"))).status, 403)
    assert.strictEqual((await again({ callback_secret: secret })).status, 202)
    const [, , third] = await posted(uuid, 3)
    assert.strictEqual(third!.headers["x-signature"], first!.headers["x-signature"])
    assert.strictEqual(third!.headers["webhook-id"], id)
    await verifyWebhook({ body: third!.body, headers: third!.headers, secret })
    const missing = await service.call("POST", `/api/tasks/${uuid}/deliveries/${uuid}-99/redeliver`, token)
    assert.strictEqual(missing.status, 404)
    const begun = performance.now()
    const flood = await Promise.all(Array.from({ length: 80 }, () => again({ callback_secret: secret })))
    const refused = flood.find(({ status }) => status === 429)
    // One more for each second that passes.
    const allowed = 60 + Math.ceil((performance.now() - begun) / 1000)
    assert.isAtMost(flood.filter(({ status }) => status === 202).length, allowed)
    assert.isDefined(refused)
    assert.match(refused!.headers.get("retry-after") ?? "", /^\d+$/)
    assert.deepStrictEqual(Object.keys(refused!.body), ["message", "code"])
  })

  it("that is too large for its receiver says what helps, in the delivery log and in that of the service", async () => {
    const token = await mint("limited")
    target.script = (_, response) => response.writeHead(413).end()
    const { run, uuid } = await create(token)
    await complete(run)
    const { body: { data: [{ attempts }] } } = await eventually(
      () => service.call("GET", `/api/tasks/${uuid}/deliveries`, token),
      ({ body }) => body.data[0]?.attempts[0]?.response_status === 413
    )
    target.script = accept
    const help =
      /takes no body of this size. Raise the limit of its framework, and of the proxy in front of it, to 33 MiB/
    assert.strictEqual(attempts[0].error, "not_2xx")
    assert.match(attempts[0].hint, help)
    await service.logged(/webhook attempt 1: not_2xx 413\. /)
    await service.logged(help)
    const reference = await (await fetch(`${service.url}/llms.txt`)).text()
    assert.match(reference, /may have up to 33 MiB/)
    const document = await (await fetch(`${service.url}/openapi.json`)).text()
    assert.match(document, /The body may have 33 MiB/)
  })

  it("sends a large turn completely without storing it twice", async () => {
    const token = await mint("large")
    const { run, uuid } = await create(token)
    const turn = { ...turnOf("x".repeat(10_000_000)), metadata: { n: 1 } }
    await report(run, { type: "completed", turn })
    const [post] = await posted(uuid, 1)
    assert.strictEqual(post!.body, await rawGet(token, uuid))
    assert.isAbove(post!.body.length, 10_000_000)
    const [row] = await system.database.query<{ bytes: number }>(
      `SELECT max(pg_column_size(d.*))::int AS bytes FROM webhook_deliveries d WHERE task_uuid = '${uuid}'`
    )
    assert.isBelow(row!.bytes, 2000)
  })

  it("costs no statement for a task without a callback URL", async () => {
    const token = await mint("silent")
    const statements = async () => {
      const [row] = await system.database.query<{ calls: number }>(
        "SELECT coalesce(sum(calls), 0)::int AS calls FROM pg_stat_statements s JOIN pg_database d ON d.oid = s.dbid"
          + " WHERE datname = current_database() AND (query LIKE '%claimed AS%' OR query LIKE '%webhook_attempts a%')"
      )
      return row!.calls
    }
    await system.database.query("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
    const before = await statements()
    const start = performance.now()
    for (let count = 0; count < 40; count++) {
      const { run } = await create(token, { callback_url: null })
      await complete(run)
    }
    // The only statements are the node's polls, one each second for tasks and one for endpoints.
    const passes = Math.ceil((performance.now() - start) / 1000) + 1
    assert.isAtMost(await statements() - before, 2 * passes)
    // The patterns match the statement of a delivery.
    const { run } = await create(token, { callback_url: `${target.url}/hook` })
    const polled = await statements()
    await complete(run)
    await eventually(statements, (calls) => calls > polled)
  })

  it("reaches a private address only if the operator lists it", async () => {
    const strict = await use(startSystem(), onTestFinished)
    const guarded = await use(new WebhookTarget().listen(), onTestFinished)
    const token = await mint("private")
    const callback_url = `${guarded.url.replace("127.0.0.1", "localhost")}/hook`
    const { uuid } = (await strict.service.create(token, "x", { callback_url })).body
    await complete(await strict.runOf(uuid))
    const answer = await eventually(
      () => strict.service.call("GET", `/api/tasks/${uuid}/deliveries`, token),
      ({ body }) => (body.data[0]?.attempts[0]?.error ?? null) !== null
    )
    assert.strictEqual(answer.body.data[0].attempts[0].error, "address_refused")
    assert.isEmpty(guarded.received)
  })
})
