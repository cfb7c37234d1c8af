/** Webhooks as their receiver meets them: from a real process, over real sockets. */
import { afterAll, afterEach, assert, beforeAll, describe, it } from "vitest"
import { verifyWebhook } from "../../src/http/client/Webhooks.ts"
import { report, type ScriptedCore, turnOf } from "../kit/ScriptedCore.ts"
import { eventually, mint, Service } from "../kit/Service.ts"
import { startSystem, type System } from "../kit/System.ts"
import { WebhookTarget } from "../kit/WebhookTarget.ts"

let system: System
let core: ScriptedCore
let target: WebhookTarget
let service: Service
const answerWell = new WebhookTarget().onPost

beforeAll(async () => {
  target = await new WebhookTarget().listen()
  system = await startSystem({ WEBHOOK_ALLOW_PRIVATE: "true" })
  ;({ core, service } = system)
})

afterEach(() => {
  target.onPost = answerWell
})

afterAll(async () => {
  await system.close()
  await target.close()
})

const secret = "canary-secret-7c1f"

const create = async (token: string, more: object = {}) => {
  const created = await service.create(token, "x", {
    callback_url: `${target.origin}/hook`,
    callback_secret: secret,
    ...more
  })
  const uuid = String(created.body.uuid)
  const run = await eventually(async () => core.runOf(uuid), (found) => found !== undefined)
  return { uuid, run: run! }
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

const rawGet = async (token: string, uuid: string) => {
  const response = await fetch(`${service.url}/api/tasks/${uuid}`, { headers: { authorization: `Bearer ${token}` } })
  return response.text()
}

describe("a webhook", () => {
  it("tells each interrupt and the end, with the bytes of a read, signed", async () => {
    const token = await mint("hooked")
    const { run, uuid } = await create(token)
    await report(run, { type: "interrupted", state: null, tool_calls: [{ id: "c1", name: "look", arguments: {} }] })
    const [first] = await posted(uuid, 1)
    assert.strictEqual(first!.body, await rawGet(token, uuid))
    await service.call("POST", `/api/tasks/${uuid}/tool-results`, token, {
      results: [{ tool_call_id: "c1", output: 1 }]
    })
    const resumed = await eventually(async () => core.runOf(uuid), (found) => found?.run_id !== run.run_id)
    await report(resumed!, { type: "completed", turn: { ...turnOf("é done"), z: 1, a: 2 } })
    const [, second] = await posted(uuid, 2)
    assert.strictEqual(second!.body, await rawGet(token, uuid))
    for (const { body, headers } of [first!, second!]) {
      assert.strictEqual(headers["user-agent"], "async-task-service")
      assert.notProperty(headers, "traceparent")
      assert.notProperty(headers, "b3")
      assert.strictEqual((await verifyWebhook({ body, headers, secret })).taskId, uuid)
    }
    const deliveries = await settled(token, uuid)
    assert.deepStrictEqual(deliveries.map(({ status }: { status: string }) => status), ["interrupted", "completed"])
    assert.deepStrictEqual(
      deliveries.map(({ id }: { id: string }) => id),
      [first!, second!].map(({ headers }) => headers["webhook-id"])
    )
    assert.deepInclude(deliveries[1].attempts[0], { number: 1, response_status: 204, error: null })
  })

  it("is tried again, can be sent again by hand, and leaves no secret behind", async () => {
    const token = await mint("again")
    target.onPost = (_, response) => response.writeHead(500).end()
    const { run, uuid } = await create(token)
    await report(run, { type: "completed", turn: turnOf("done") })
    await posted(uuid, 1)
    const list = () => service.call("GET", `/api/tasks/${uuid}/deliveries`, token)
    const waiting = await eventually(list, ({ body }) => body.data[0].next_attempt_at !== null)
    const [{ id, state }] = waiting.body.data
    assert.strictEqual(state, "pending")
    target.onPost = answerWell
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
    const flood = await Promise.all(Array.from({ length: 80 }, () => again({ callback_secret: secret })))
    const refused = flood.find(({ status }) => status === 429)
    assert.isAtMost(flood.filter(({ status }) => status === 202).length, 75)
    assert.isDefined(refused)
    assert.match(refused!.headers.get("retry-after") ?? "", /^\d+$/)
    assert.deepStrictEqual(Object.keys(refused!.body), ["message"])
  })

  it("does not store a large turn twice, and sends all of it", async () => {
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

  it("costs a task without a callback URL no statement", async () => {
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
      await report(run, { type: "completed", turn: turnOf("done") })
    }
    // The look that every node takes each second is all that there was.
    const passes = Math.ceil((performance.now() - start) / 1000) + 1
    assert.isAtMost(await statements() - before, passes)
  })

  it("reaches no private address unless the operator lists it", async () => {
    const strict = await Service.start({ DATABASE_URL: system.database.url, CORE_URL: core.url })
    const token = await mint("private")
    const guarded = await new WebhookTarget().listen()
    await service.stop()
    try {
      const url = `${guarded.origin.replace("127.0.0.1", "localhost")}/hook`
      const { uuid } = (await strict.create(token, "x", { callback_url: url })).body
      const run = await eventually(async () => core.runOf(uuid), (found) => found !== undefined)
      await report(run!, { type: "completed", turn: turnOf("done") })
      const answer = await eventually(
        () => strict.call("GET", `/api/tasks/${uuid}/deliveries`, token),
        ({ body }) => body.data[0]?.attempts[0]?.error !== null && body.data[0]?.attempts[0] !== undefined
      )
      assert.strictEqual(answer.body.data[0].attempts[0].error, "address_refused")
      assert.deepStrictEqual(guarded.posts, [])
    } finally {
      await strict.stop()
      await guarded.close()
      service = await Service.start({
        DATABASE_URL: system.database.url,
        CORE_URL: core.url,
        WEBHOOK_ALLOW_PRIVATE: "true"
      })
    }
  })
})
