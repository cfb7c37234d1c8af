/** Each operation of operators conforms to the OpenAPI document, and returns 503 while the database is away. */
import { assert, describe, it, onTestFinished } from "vitest"
import { Proxy } from "../../chaos/Proxy.ts"
import { complete } from "../../kit/ScriptedCore.ts"
import { internalToken, mint, Service } from "../../kit/Service.ts"
import { use } from "../../kit/suite.ts"
import { startSystem } from "../../kit/System.ts"
import { startValidatingProxy } from "../../kit/ValidatingProxy.ts"

const system = await use(startSystem({ OPERATOR_CONTENT: "on" }))
const { service } = system

describe("an operation of operators", () => {
  it("conforms to the document, according to a validating proxy", async () => {
    const { ok, paths, refused, untried } = await use(startValidatingProxy(service), onTestFinished)
    const token = await mint("documented")
    const { body: { uuid } } = await service.create(token, "x")
    await complete(await system.runOf(uuid))
    const operator = (path: string) => `/internal/operator/${path}`
    // Those of other extensions have tests of their own.
    const isOwn = (path: string) => path.startsWith(operator("")) && !/\/(schedules|usage)$/.test(path)
    const { id } = await ok(202, "POST", operator("bulk"), internalToken, {
      action: "delete",
      filter: { sub: "nobody" }
    })
    for (const path of Object.keys(paths).filter((path) => isOwn(path) && paths[path].get !== undefined)) {
      const read = path.replace("{uuid}", uuid).replace("{id}", id).replace("{sub}", "documented")
      await ok(200, "GET", read, internalToken)
      await refused(401, "GET", read, token)
    }
    await ok(200, "GET", operator("tasks?status=interrupted&limit=10"), internalToken)
    await ok(200, "GET", operator("history?step=300"), internalToken)
    await ok(200, "GET", operator("deliveries?state=failed"), internalToken)
    await refused(422, "GET", operator("tasks?limit=0"), internalToken)
    await ok(409, "POST", operator(`bulk/${id}/stop`), internalToken)
    await ok(200, "PUT", operator("users/documented/limits"), internalToken, { max_active_tasks: 7 })
    await ok(200, "PUT", operator("silences"), internalToken, { kind: "alert", key: "clocks_late 1", hours: 1 })
    await refused(422, "PUT", operator("silences"), internalToken, { kind: "alert", key: "clocks_late 1", hours: 0 })
    await ok(202, "POST", operator("users/other/erase"), internalToken, { confirm: "other" })
    await ok(409, "POST", operator(`tasks/${uuid}/cancel`), internalToken, { reason: "Stuck." })
    await ok(200, "POST", operator("deliveries/redeliver"), internalToken, { filter: {}, dry_run: true })
    await ok(204, "POST", operator("revocations"), internalToken, { jti: "one" })
    await ok(200, "PUT", operator("queue/assistants/7"), internalToken, { runs: 4, paused: false })
    await ok(422, "PUT", operator("queue/assistants/seven"), internalToken, { runs: 4 })
    const { members: [{ instance }] } = await ok(200, "GET", operator("cluster"), internalToken)
    await ok(202, "POST", operator(`nodes/${instance}/drain`), internalToken)
    await ok(202, "POST", operator(`nodes/${instance}/take-in`), internalToken)
    await ok(404, "POST", operator(`nodes/${uuid}/drain`), internalToken)
    assert.deepStrictEqual(untried(isOwn).filter((operation) => !operation.endsWith("/session")), [])
  })

  it("returns 503 during an outage of the database", async () => {
    const proxy = await use(Proxy.before(system.database.url), onTestFinished)
    const settings = { ...system.settings, DATABASE_URL: proxy.urlOf(system.database.url) }
    const cut = await use(Service.start(settings), onTestFinished)
    await proxy.refuse()
    const calls = [
      ["GET", "overview"],
      ["GET", "deliveries"],
      ["POST", "deliveries/redeliver", { filter: {} }],
      ["POST", `tasks/${crypto.randomUUID()}/cancel`]
    ] as const
    for (const [method, path, body] of calls) {
      const answer = await cut.call(method, `/internal/operator/${path}`, internalToken, body)
      const message = "The service cannot reach its database at the moment. Try again soon."
      assert.deepStrictEqual([answer.status, answer.body], [503, { message, code: "store_unavailable" }], path)
      assert.strictEqual(answer.headers.get("retry-after"), "5")
    }
  })
})
