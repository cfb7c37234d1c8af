/** Every secret is replaced on a running cluster, one node after another, while clients, the core and operators go on. */
import * as jose from "jose"
import { randomBytes } from "node:crypto"
import { assert, it } from "vitest"
import { startCluster } from "../kit/ClusterSystem.ts"
import { complete } from "../kit/ScriptedCore.ts"
import { eventually, freePort, internalToken, jwtSecret, Service } from "../kit/Service.ts"
import { use } from "../kit/suite.ts"

interface Secrets {
  readonly JWT_SECRET: string
  readonly CORE_TOKEN: string
  readonly CORE_EVENT_TOKENS: string
  readonly INTERNAL_TOKENS: string
  readonly ENCRYPTION_KEY: string
}

const token = () => randomBytes(32).toString("hex")
const old: Secrets = {
  JWT_SECRET: jwtSecret,
  CORE_TOKEN: token(),
  CORE_EVENT_TOKENS: token(),
  INTERNAL_TOKENS: internalToken,
  ENCRYPTION_KEY: randomBytes(32).toString("base64")
}
const next: Secrets = {
  JWT_SECRET: token(),
  CORE_TOKEN: token(),
  CORE_EVENT_TOKENS: token(),
  INTERNAL_TOKENS: token(),
  ENCRYPTION_KEY: randomBytes(32).toString("base64")
}
/** The secret of the tests has a comma. */
const inList = (secret: string) => secret.replaceAll(",", "%2C")
const both = (first: Secrets, second: Secrets): Secrets => ({
  JWT_SECRET: `${inList(first.JWT_SECRET)},${inList(second.JWT_SECRET)}`,
  CORE_TOKEN: `${first.CORE_TOKEN},${second.CORE_TOKEN}`,
  CORE_EVENT_TOKENS: `${first.CORE_EVENT_TOKENS},${second.CORE_EVENT_TOKENS}`,
  INTERNAL_TOKENS: `${first.INTERNAL_TOKENS},${second.INTERNAL_TOKENS}`,
  ENCRYPTION_KEY: `${first.ENCRYPTION_KEY},${second.ENCRYPTION_KEY}`
})

/** What the issuer, the core and the operators use. */
let used = old

const mint = (sub: string) =>
  new jose.SignJWT({ sub }).setProtectedHeader({ alg: "HS256" }).setExpirationTime("1 hour")
    .sign(new TextEncoder().encode(used.JWT_SECRET))

const system = await use(startCluster({ ...old, MAX_ACTIVE_TASKS: "100" }))
const { core } = system

/** The nodes to which a load balancer sends requests. */
let nodes: ReadonlyArray<Service> = [system.service, await system.startNode()]

const respond = core.respond
const traffic = { isOver: false, completed: 0, refused: 0 }
core.respond = (request, response) => {
  if (request.headers["authorization"] === `Bearer ${used.CORE_TOKEN}`) return respond(request, response)
  traffic.refused += 1
  return response.writeHead(401).end()
}
/** While shards move, the node that got a task and the new owner may both hand its run over: a core goes on with a run that it has. */
const known = new Set<string>()
core.onStart = (run) => {
  if (known.has(run.run_id)) return 202
  known.add(run.run_id)
  setTimeout(async () => {
    const events_url = `${nodes[0]?.url}/internal/core/events`
    const { status } = await complete({ ...run, events_url }, "done", {
      authorization: `Bearer ${used.CORE_EVENT_TOKENS}`
    })
    failures.push(...status === 200 ? [] : [`event: ${status}`])
  })
  return 202
}

const failures: Array<string> = []

/** Requests in flight of each node, for which a load balancer waits before the node stops. */
const inFlight = new Map<Service, number>()

const send = async (method: string, path: string, bearer: string, body?: unknown, expected = 200) => {
  const node = nodes[Math.floor(Math.random() * nodes.length)]!
  inFlight.set(node, (inFlight.get(node) ?? 0) + 1)
  const answer = await node.call(method, path, bearer, body)
  inFlight.set(node, (inFlight.get(node) ?? 0) - 1)
  assert.strictEqual(answer.status, expected, `${method} ${path}: ${JSON.stringify(answer.body)}`)
  return answer.body
}

const client = async (sub: string) => {
  while (!traffic.isOver) {
    // A session of the user begins with a token of the moment.
    const user = await mint(sub)
    const input = [{ type: "text", text: "Why?" }]
    const { uuid } = await send("POST", "/api/tasks", user, { assistant_id: 1, input }, 201)
    const task = await eventually(
      () => send("GET", `/api/tasks/${uuid}`, user),
      ({ status }) => status !== "pending" && status !== "processing",
      30_000
    )
    if (task.status !== "completed") failures.push(`${task.status}: ${task.error}`)
    await send("GET", "/internal/metrics", used.INTERNAL_TOKENS)
    traffic.completed += 1
  }
}

const replace = async (secrets: Secrets) => {
  for (const node of nodes) {
    const started = await Service.start({
      ...system.settings,
      ...secrets,
      CLUSTER_PORT: String(await freePort())
    })
    nodes = [...nodes.filter((other) => other !== node), started]
    await eventually(async () => inFlight.get(node) ?? 0, (count) => count === 0)
    await node.stop()
  }
  const before = traffic.completed
  await eventually(async () => traffic.completed, (count) => count >= before + 10, 30_000)
}

it("no request, event or run fails while all secrets are rotated", async () => {
  const clients = ["ann", "bea", "cid"].map((sub) => client(sub).catch((error) => failures.push(String(error))))
  // The core knows only one token, so the nodes try both.
  await replace({ ...both(old, next), CORE_TOKEN: `${next.CORE_TOKEN},${old.CORE_TOKEN}` })
  assert.isAbove(traffic.refused, 0)
  // Tokens of users end before their key is withdrawn.
  used = next
  await replace(both(next, old))
  await replace(next)
  traffic.isOver = true
  await Promise.all(clients)
  for (const node of nodes) await node.stop()
  assert.deepStrictEqual(failures, [])
  assert.isAbove(traffic.completed, 30)
}, 240_000)

it("afterwards the old secrets open nothing", async () => {
  const node = await use(
    Service.start({ ...system.settings, ...next, CLUSTER_PORT: String(await freePort()) })
      .then((service) => ({ ...service, service, close: () => service.stop() }))
  )
  used = old
  assert.strictEqual((await node.service.call("GET", "/api/tasks", await mint("ann"))).status, 401)
  assert.strictEqual((await node.service.call("GET", "/internal/metrics", old.INTERNAL_TOKENS)).status, 401)
})
