/** The responses of every operation that needs the database while it is away. */
import { assert, describe, it } from "vitest"
import { Proxy } from "../chaos/Proxy.ts"
import { openDatabase } from "../kit/databases.ts"
import { turnOf } from "../kit/ScriptedCore.ts"
import { internalToken, mint, Service } from "../kit/Service.ts"
import { use } from "../kit/suite.ts"

const message = "The service cannot reach its database at the moment. Try again soon."

const url = new URL((await use(openDatabase())).url)
const proxy = await use(new Proxy({ port: Number(url.port) }).listen())
url.port = String(proxy.port)
const service = await use(Service.start({ DATABASE_URL: url.href }))
const token = await mint("ann")
await proxy.refuse()

const uuid = crypto.randomUUID()
const task = { assistant_id: 1, input: [{ type: "text", text: "?" }] }
const results = { results: [{ tool_call_id: "c1", output: 1 }] }
const report = { task_id: uuid, run_id: uuid, event_id: "e", type: "completed", turn: turnOf("!") }

describe("during an outage of the database", () => {
  const ofTask = `/api/tasks/${uuid}`
  for (
    const [method, path, body] of [
      ["POST", "/api/tasks", task],
      ["GET", "/api/tasks"],
      ["GET", ofTask],
      ["GET", `${ofTask}?wait=5`],
      ["GET", `${ofTask}/events`],
      ["DELETE", ofTask],
      ["GET", `${ofTask}/deliveries`],
      ["POST", `${ofTask}/deliveries/${uuid}-1/redeliver`],
      ["POST", `${ofTask}/tool-results`, results],
      ["POST", `${ofTask}/cancel`],
      ["POST", `${ofTask}/rerun`],
      ["POST", "/api/tasks/cancel-interrupted"],
      ["POST", "/internal/core/events", report],
      ["POST", "/internal/tokens/revoke", { jti: "x" }]
    ] as const
  ) {
    it(`${method} ${path.replace(uuid, ":uuid")} returns 503`, async () => {
      const answer = await service.call(method, path, path.startsWith("/internal") ? internalToken : token, body)
      assert.deepStrictEqual([answer.status, answer.body], [503, { message }])
      assert.strictEqual(answer.headers.get("retry-after"), "5")
    })
  }

  const ofUser = { sub: "ann", uuid }
  for (
    const [tag, payload] of Object.entries({
      "Tasks.create": { sub: "ann", task },
      "Tasks.get": ofUser,
      "Tasks.list": { sub: "ann" },
      "Tasks.submitToolResults": { ...ofUser, body: results },
      "Tasks.cancel": ofUser,
      "Tasks.withdraw": ofUser,
      "Tasks.delete": ofUser,
      "Tasks.cancelInterrupted": { sub: "ann" },
      "Tasks.watch": ofUser,
      "Core.report": { event: report },
      "Tokens.revoke": { revocation: { jti: "x" } },
      "Operations.stats": null,
      "Operations.deliveries": {},
      "Operations.redeliver": { id: `${uuid}-1` },
      "Operations.redeliverFailed": {},
      "Operations.cancel": { uuid }
    })
  ) {
    it(`${tag} fails with Unavailable`, async () => {
      const call = JSON.stringify({ _tag: "Request", id: "1", tag, payload, headers: [] })
      const { body } = await service.call("POST", "/rpc", internalToken, call, { "content-type": "application/ndjson" })
      assert.deepStrictEqual(body.exit, {
        _tag: "Failure",
        cause: [{ _tag: "Fail", error: { _tag: "Unavailable", message } }]
      })
    })
  }
})
