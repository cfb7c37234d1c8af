/** Each change by operators has its line in the audit: a change of the document without a case here fails. */
import { assert, describe, it } from "vitest"
import { complete, interrupt } from "../../kit/ScriptedCore.ts"
import { internalToken, mint } from "../../kit/Service.ts"
import { use } from "../../kit/suite.ts"
import { startSystem } from "../../kit/System.ts"

const system = await use(
  startSystem({ INTERNAL_TOKEN_NAMES: "ana", OPERATOR_CONTENT: "on", WEBHOOK_ALLOW_PRIVATE: "true" })
)
const { service } = system

const call = (method: string, path: string, body?: unknown) => service.call(method, path, internalToken, body)

const create = async () => {
  const { body } = await service.create(await mint("audited"), "x", { callback_url: "http://127.0.0.1:9/" })
  return { uuid: String(body.uuid), run: await system.runOf(body.uuid) }
}

const missing = "019ac5d2-8001-7b10-a5f3-90b1c2d3e4f5"
const base = "/internal/operator"

/** Makes each change of the document; the action of its line, and how it ends. */
const changes: Readonly<Record<string, readonly [action: string, outcome: string, make: () => Promise<unknown>]>> = {
  [`POST ${base}/tasks/{uuid}/cancel`]: ["cancel", "done", async () => {
    const { uuid } = await create()
    await call("POST", `${base}/tasks/${uuid}/cancel`, { reason: "stuck" })
  }],
  [`POST ${base}/deliveries/redeliver`]: ["redeliver", "done", async () => {
    const { run, uuid } = await create()
    await complete(run)
    await call("POST", `${base}/deliveries/redeliver`, { ids: [`${uuid}-1`] })
  }],
  [`POST ${base}/nodes/{instance}/drain`]: ["drain", "refused", () => call("POST", `${base}/nodes/${missing}/drain`)],
  [`POST ${base}/nodes/{instance}/take-in`]: [
    "take_in",
    "refused",
    () => call("POST", `${base}/nodes/${missing}/take-in`)
  ],
  [`POST ${base}/revocations`]: ["revoke", "done", () => call("POST", `${base}/revocations`, { jti: "audited" })],
  [`POST ${base}/bulk`]: [
    "bulk_delete",
    "done",
    () => call("POST", `${base}/bulk`, { action: "delete", filter: { sub: "nobody" } })
  ],
  [`POST ${base}/bulk/{id}/stop`]: ["bulk_stop", "done", async () => {
    const { run } = await create()
    await interrupt(run)
    await create()
    const { body: { id } } = await call("POST", `${base}/bulk`, {
      action: "cancel",
      filter: { sub: "audited" },
      rate: 1
    })
    assert.strictEqual((await call("POST", `${base}/bulk/${id}/stop`)).status, 200)
  }],
  [`PUT ${base}/users/{sub}/limits`]: [
    "limits",
    "done",
    () => call("PUT", `${base}/users/audited/limits`, { max_active_tasks: 9 })
  ],
  [`POST ${base}/users/{sub}/erase`]: [
    "erase",
    "done",
    () => call("POST", `${base}/users/gone/erase`, { confirm: "gone" })
  ],
  [`PUT ${base}/silences`]: [
    "silence",
    "done",
    () => call("PUT", `${base}/silences`, { kind: "cause", key: "Model … is overloaded", hours: 24 })
  ],
  [`PUT ${base}/queue/assistants/{id}`]: [
    "queue",
    "done",
    () => call("PUT", `${base}/queue/assistants/7`, { paused: true })
  ]
}

/** Reads of what tasks say. */
const reads: typeof changes = {
  [`GET ${base}/tasks/{uuid}/content`]: ["content", "done", async () => {
    const { uuid } = await create()
    await call("GET", `${base}/tasks/${uuid}/content`)
  }],
  [`GET ${base}/users/{sub}/export`]: ["export", "done", async () => {
    const headers = { authorization: `Bearer ${internalToken}` }
    assert.match(await (await fetch(`${service.url}${base}/users/audited/export`, { headers })).text(), /"end"/)
  }]
}

const { body: document } = await call("GET", "/internal/openapi.json")
const documented = Object.entries<object>(document.paths).flatMap(([path, methods]) =>
  path.startsWith(`${base}/`)
    ? Object.keys(methods).filter((method) => method !== "get").map((method) => `${method.toUpperCase()} ${path}`)
    : []
)

describe("the audit", () => {
  it("knows every change by operators that the document has", () => {
    // Those of other extensions have their tests there.
    const own = documented.filter((change) => !change.endsWith("/usage"))
    assert.deepStrictEqual(own.toSorted(), Object.keys(changes).toSorted())
  })

  it.each(Object.entries({ ...changes, ...reads }))("has a line for %s", async (_, [action, outcome, make]) => {
    await make()
    const { body: { data: [line] } } = await call("GET", `${base}/audit?action=${action}&limit=1`)
    assert.deepStrictEqual([line.action, line.outcome, line.operator, line.via], [action, outcome, "ana", "api"])
  })

  it("makes no change without its line", async () => {
    const { uuid } = await create()
    await system.database.query("ALTER TABLE operator_actions RENAME TO operator_actions_away")
    assert.isAtLeast((await call("POST", `${base}/tasks/${uuid}/cancel`)).status, 500)
    await system.database.query("ALTER TABLE operator_actions_away RENAME TO operator_actions")
    assert.strictEqual((await call("GET", `${base}/tasks/${uuid}`)).body.status, "pending")
  })
})
