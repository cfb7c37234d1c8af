/** What endpoints receive when nodes die and when receivers hang. */
import { randomBytes, randomUUID } from "node:crypto"
import { assert, describe, it, onTestFinished } from "vitest"
import { verifyWebhook } from "../../../src/http/client/Webhooks.ts"
import { Proxy } from "../../chaos/Proxy.ts"
import { startCluster } from "../../kit/ClusterSystem.ts"
import { openDatabase } from "../../kit/databases.ts"
import { pause } from "../../kit/pause.ts"
import { complete } from "../../kit/ScriptedCore.ts"
import { WebhookTarget } from "../../kit/ScriptedService.ts"
import { eventually, internalToken, mint, Service } from "../../kit/Service.ts"
import { use } from "../../kit/suite.ts"
import { startSystem, type System } from "../../kit/System.ts"

const base = "/internal/webhook-endpoints"
const register = async (service: Service, url: string, more: object = {}) => {
  const { body, status } = await service.call("POST", base, internalToken, { url, ...more })
  assert.strictEqual(status, 201, JSON.stringify(body))
  return body
}

const uuidOf = ({ body }: { readonly body: string }) => String(JSON.parse(body).data.task.uuid)

/** Ends a task at a node, by a report that is repeated until it has an answer. */
const end = async (system: System, node: Service, token: string) => {
  const { body, status } = await node.create(token, "x")
  assert.strictEqual(status, 201)
  const run = { ...await system.runOf(body.uuid), events_url: `${node.url}/internal/core/events` }
  await eventually(() => complete(run).then(({ status }) => status, () => 503), (status) => status < 500)
}

/** Waits until each change that the database has was sent to each endpoint, with the same bytes each time, and the store knows it. */
const expectAll = async (
  { database }: System,
  target: WebhookTarget,
  endpoints: ReadonlyArray<{ readonly url: string }>
) => {
  const changes = await database.query<{ readonly task_uuid: string; readonly revision: number }>(
    "SELECT task_uuid, revision FROM task_events WHERE status IN ('completed', 'failed', 'canceled', 'interrupted')"
  )
  const expected = changes.map(({ revision, task_uuid }) => `evt_${task_uuid}-${revision}`)
  const paths = endpoints.map(({ url }) => new URL(url).pathname)
  for (const path of paths) {
    const idsNow = () =>
      new Set(target.received.filter((post) => post.path === path).map(({ headers }) => headers["webhook-id"]))
    // What was in flight waits for its lease: 1 s of timeout, and what a node and its pauses may take.
    await eventually(async () => idsNow(), (ids) => expected.every((id) => ids.has(id)), 60_000)
  }
  const bodies = new Map<string, string>()
  for (const { body, headers, path } of target.received) {
    const key = `${path} ${String(headers["webhook-id"])}`
    assert.strictEqual(bodies.get(key) ?? body, body, "the same bytes each time")
    bodies.set(key, body)
  }
  const left = () =>
    database.query<{ readonly left: number }>(
      "SELECT count(*)::int AS left FROM webhook_endpoint_deliveries WHERE delivered_at IS NULL OR due_at IS NOT NULL"
    )
  await eventually(left, ([row]) => row?.left === 0, 60_000)
  return expected
}

const settings = { WEBHOOK_ALLOW_PRIVATE: "true", WEBHOOK_TIMEOUT: "1 second", MAX_ACTIVE_TASKS: "1000" }
const accept: WebhookTarget["script"] = (_, response) => response.writeHead(204).end()

describe("a node that is killed", () => {
  it("has sent each event, or the next one sends it, whatever it was doing", async () => {
    const target = await use(new WebhookTarget().listen(), onTestFinished)
    const system = await use(startSystem(settings), onTestFinished)
    const endpoints = [
      await register(system.service, `${target.url}/one`),
      await register(system.service, `${target.url}/two`, { format: "full" })
    ]
    const token = await mint(`killed-${randomUUID()}`)
    // Half of the attempts hang when the node dies: nobody knows whether they arrived.
    target.script = (request, response, number) => number % 2 === 0 ? undefined : accept(request, response, number)
    let ended = 0
    const load = Promise.allSettled(
      Array.from({ length: 60 }, () => end(system, system.service, token).then(() => ended++))
    )
    await eventually(async () => ended, (count) => count >= 20)
    await system.service.stop("SIGKILL")
    await load
    target.script = accept
    const next = await use(Service.start(system.settings), onTestFinished)
    for (let count = 0; count < 5; count++) await end(system, next, token)
    assert.isAtLeast((await expectAll(system, target, endpoints)).length, ended)
  }, 120_000)
})

describe("two nodes", () => {
  it(
    "send each event once, and when one is stopped in the middle (SIGSTOP) the other sends what it had begun",
    async () => {
      const target = await use(new WebhookTarget().listen(), onTestFinished)
      const system = await use(startCluster(settings), onTestFinished)
      const other = await use(system.startNode(), onTestFinished)
      const endpoints = [
        await register(system.service, `${target.url}/one`),
        await register(other, `${target.url}/two`, { format: "thin" })
      ]
      const token = await mint(`stopped-${randomUUID()}`)
      await Promise.all(
        Array.from({ length: 100 }, (_, index) => end(system, index % 2 === 0 ? system.service : other, token))
      )
      assert.lengthOf(await expectAll(system, target, endpoints), 100)
      // Beside load a receiver may answer too late: only then an event is sent again.
      const [{ attempts = 0, failed = 0 } = {}] = await system.database.query<{
        readonly attempts: number
        readonly failed: number
      }>(
        `SELECT sum(attempts)::int AS attempts, sum((
          SELECT count(*) FROM jsonb_array_elements(log) AS a WHERE a ->> 'error' IS NOT NULL
        ))::int AS failed FROM webhook_endpoint_deliveries`
      )
      assert.strictEqual(attempts - failed, 200)
      assert.isAtMost(target.received.length, attempts)

      target.script = () => undefined
      await Promise.all(
        Array.from({ length: 20 }, (_, index) => end(system, index % 2 === 0 ? system.service : other, token))
      )
      await eventually(async () => target.received.length, (count) => count > attempts + 10)
      system.service.signal("SIGSTOP")
      onTestFinished(() => system.service.signal("SIGCONT"))
      target.script = accept
      // Attempts of the stopped node are lost: the other one has ended its own by now.
      await pause(3000)
      const [{ held = 0 } = {}] = await system.database.query<{ readonly held: number }>(
        "SELECT count(*)::int AS held FROM webhook_endpoint_deliveries WHERE sending"
      )
      assert.isAbove(held, 0)
      assert.lengthOf(await expectAll(system, target, endpoints), 120)
      // What the stopped node learns now is too late to change anything.
      system.service.signal("SIGCONT")
      await eventually(
        () => fetch(`${system.service.url}/readyz`).then(({ status }) => status, () => 0),
        (status) => status === 200,
        30_000
      )
      await end(system, other, token)
      assert.lengthOf(await expectAll(system, target, endpoints), 121)
    },
    180_000
  )
})

describe("lost replies of the database, to COMMIT too", () => {
  it("lose no event", async () => {
    const target = await use(new WebhookTarget().listen(), onTestFinished)
    const database = await use(openDatabase(), onTestFinished)
    const proxy = await use(Proxy.before(database.url), onTestFinished)
    const system = {
      ...await use(startSystem({ ...settings, DATABASE_URL: proxy.urlOf(database.url) }), onTestFinished),
      database
    }
    const endpoints = [
      await register(system.service, `${target.url}/one`),
      await register(system.service, `${target.url}/two`, { format: "full" })
    ]
    const token = await mint(`lost-${randomUUID()}`)
    const load = { isOver: false }
    // A report whose reply was lost is repeated by the core.
    const ends = Promise.all(Array.from({ length: 8 }, async () => {
      while (!load.isOver) await end(system, system.service, token).catch(() => pause(50))
    }))
    for (let round = 0; round < 5; round++) {
      await pause(400)
      proxy.weather = "losing replies"
      await pause(150)
      proxy.weather = "fair"
    }
    await pause(500)
    load.isOver = true
    await ends
    await end(system, system.service, token)
    assert.isAbove((await expectAll(system, target, endpoints)).length, 20)
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
