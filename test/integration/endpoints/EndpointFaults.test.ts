/** What endpoints receive when nodes die and when receivers hang. */
import { randomBytes, randomUUID } from "node:crypto"
import { assert, describe, it, onTestFinished } from "vitest"
import { verifyWebhook } from "../../../src/http/client/Webhooks.ts"
import { complete } from "../../kit/ScriptedCore.ts"
import { WebhookTarget } from "../../kit/ScriptedService.ts"
import { eventually, internalToken, mint, Service } from "../../kit/Service.ts"
import { use } from "../../kit/suite.ts"
import { startSystem } from "../../kit/System.ts"

const base = "/internal/webhook-endpoints"
const register = async (service: Service, url: string, more: object = {}) => {
  const { body, status } = await service.call("POST", base, internalToken, { url, ...more })
  assert.strictEqual(status, 201, JSON.stringify(body))
  return body
}

const uuidOf = ({ body }: { readonly body: string }) => String(JSON.parse(body).data.task.uuid)

describe("a node that is killed", () => {
  it("has sent each event, or the next one sends it, whatever it was doing", async () => {
    const target = await use(new WebhookTarget().listen(), onTestFinished)
    const settings = { WEBHOOK_ALLOW_PRIVATE: "true", WEBHOOK_TIMEOUT: "1 second", MAX_ACTIVE_TASKS: "1000" }
    const system = await use(startSystem(settings), onTestFinished)
    const endpoints = [
      await register(system.service, `${target.url}/one`),
      await register(system.service, `${target.url}/two`, { format: "full" })
    ]
    const token = await mint(`killed-${randomUUID()}`)
    // Half of the attempts hang when the node dies: nobody knows whether they arrived.
    target.script = (_, response, number) => number % 2 === 0 ? undefined : response.writeHead(204).end()
    const ended: Array<string> = []
    const end = async (service: Service) => {
      const { body } = await service.create(token, "x")
      await complete(await system.runOf(body.uuid))
      ended.push(String(body.uuid))
    }
    const load = Promise.allSettled(Array.from({ length: 60 }, () => end(system.service)))
    await eventually(async () => ended.length, (count) => count >= 20)
    await system.service.stop("SIGKILL")
    await load
    target.script = (_, response) => response.writeHead(204).end()
    const next = await use(Service.start(system.settings), onTestFinished)
    for (let count = 0; count < 5; count++) await end(next)
    const changes = await system.database.query<{ readonly task_uuid: string; readonly revision: number }>(
      "SELECT task_uuid, revision FROM task_events WHERE status IN ('completed', 'failed', 'canceled', 'interrupted')"
    )
    assert.isAtLeast(changes.length, ended.length)
    const expected = changes.map(({ revision, task_uuid }) => `evt_${task_uuid}-${revision}`)
    for (const { url } of endpoints) {
      const path = new URL(url).pathname
      const idsNow = () =>
        new Set(target.received.filter((post) => post.path === path).map(({ headers }) => headers["webhook-id"]))
      // What was in flight waits for its lease: 1 s of timeout, and what a node and its pauses may take.
      await eventually(async () => idsNow(), (ids) => expected.every((id) => ids.has(id)), 40_000)
      const bodies = new Map<unknown, string>()
      for (const { body, headers, path: to } of target.received) {
        if (to !== path) continue
        const known = bodies.get(headers["webhook-id"])
        assert.isTrue(known === undefined || known === body, "the same bytes each time")
        bodies.set(headers["webhook-id"], body)
      }
    }
    const states = () =>
      system.database.query<{ readonly left: number }>(
        "SELECT count(*)::int AS left FROM webhook_endpoint_deliveries WHERE due_at IS NOT NULL"
      )
    await eventually(states, ([row]) => row?.left === 0, 40_000)
  }, 120_000)
})

describe("a key that is rotated out", () => {
  it("is not needed once a node has started with the new one first", async () => {
    const target = await use(new WebhookTarget().listen(), onTestFinished)
    const [old, next] = [randomBytes(32).toString("base64"), randomBytes(32).toString("base64")]
    const settings = { WEBHOOK_ALLOW_PRIVATE: "true", ENCRYPTION_KEY: old }
    const system = await use(startSystem(settings), onTestFinished)
    const endpoint = await register(system.service, `${target.url}/kept`)
    const { body: rotated } = await system.service.call("POST", `${base}/${endpoint.id}/rotate-secret`, internalToken)
    await system.service.stop()
    const sealed = () =>
      system.database.query<{ readonly secret: string; readonly old_secret: string }>(
        "SELECT secret, old_secret FROM webhook_endpoints"
      )
    const [before] = await sealed()
    const second = await Service.start({ ...system.settings, ENCRYPTION_KEY: `${next},${old}` })
    await eventually(
      sealed,
      ([row]) => row?.secret !== before?.secret && row?.old_secret !== before?.old_secret
    )
    await second.stop()
    const third = await use(Service.start({ ...system.settings, ENCRYPTION_KEY: next }), onTestFinished)
    const { body } = await third.create(await mint("rotated"), "x")
    await complete(await system.runOf(body.uuid))
    const [post] = await eventually(async () => target.received, (posts) => posts.length > 0)
    for (const secret of [endpoint.secret, rotated.secret]) {
      assert.strictEqual((await verifyWebhook({ ...post!, secret })).taskId, body.uuid)
    }
  }, 60_000)
})

describe("an endpoint that hangs", () => {
  it("delays neither another endpoint nor a callback_url", async () => {
    const [dead, alive] = [
      await use(new WebhookTarget().listen(), onTestFinished),
      await use(new WebhookTarget().listen(), onTestFinished)
    ]
    dead.script = () => undefined
    const system = await use(startSystem({ WEBHOOK_ALLOW_PRIVATE: "true", MAX_ACTIVE_TASKS: "1000" }), onTestFinished)
    await register(system.service, `${dead.url}/dead`)
    await register(system.service, `${alive.url}/alive`)
    const token = await mint(`beside-${randomUUID()}`)
    const ends = new Map<string, number>()
    for (let batch = 0; batch < 10; batch++) {
      await Promise.all(Array.from({ length: 30 }, async () => {
        const { body } = await system.service.create(token, "x", { callback_url: `${alive.url}/callback` })
        await complete(await system.runOf(body.uuid))
        ends.set(String(body.uuid), performance.now())
      }))
    }
    const arrived = (path: string) => alive.received.filter((post) => post.path === path)
    await eventually(
      async () => arrived("/alive").length + arrived("/callback").length,
      (count) => count >= 600,
      20_000
    )
    const lateness = (path: string, of: (post: (typeof alive.received)[number]) => string) =>
      arrived(path).map((post) => post.at - (ends.get(of(post)) ?? 0)).toSorted((one, other) => one - other)
    const ofEndpoint = lateness("/alive", uuidOf)
    const ofCallback = lateness("/callback", ({ headers }) => String(headers["x-task-uuid"]))
    // The dead one has 300 events and 8 attempts in flight; each holds its permit for 15 s.
    assert.isAtLeast(dead.received.length, 8)
    assert.isAtMost(dead.received.length, 24)
    for (const times of [ofEndpoint, ofCallback]) assert.isBelow(times[Math.floor(times.length * 0.99)]!, 4000)
  }, 90_000)
})
