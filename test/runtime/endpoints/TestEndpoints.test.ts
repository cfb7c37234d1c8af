/** Webhook endpoints in the test kit, whose clock the tests move: nights, days and a week of a receiver that is down. */
import { assert, describe, it } from "@effect/vitest"
import { createTestService } from "../../../src/runtime/testing/createTestService.ts"

const question = { assistant_id: 1, input: [{ type: "text", text: "Why?" }] } as const
const hour = 3_600_000

const start = async () => {
  const service = await createTestService()
  const call = async (method: string, path: string, body?: unknown) => {
    const response = await service.fetch(`${service.url}/internal/webhook-endpoints${path}`, {
      method,
      headers: { authorization: `Bearer ${service.internalToken}`, "content-type": "application/json" },
      ...(body === undefined ? {} : { body: JSON.stringify(body) })
    })
    const text = await response.text()
    return { status: response.status, body: text === "" ? undefined : JSON.parse(text) }
  }
  const { body: endpoint, status } = await call("POST", "", { url: "https://hooks.example/tasks" })
  assert.strictEqual(status, 201, JSON.stringify(endpoint))
  const end = async () => {
    const { uuid } = await service.client("ann").tasks.create(question)
    await service.core.complete(uuid, "done")
    return uuid
  }
  const shown = async () => (await call("GET", `/${endpoint.id}`)).body
  const log = async () => (await call("GET", `/${endpoint.id}/deliveries?limit=100`)).body.data
  return { service, call, end, shown, log, endpoint }
}

describe("a webhook endpoint in virtual time", () => {
  it("is sent an event at 0 s, 5 s, 30 s, 2 min, 10 min, 1 h, 3 h, 6 h, 12 h, then every 12 h up to 72 h, and then disabled", async () => {
    const { end, log, service, shown } = await start()
    service.webhooks.answerWith("down")
    await end()
    await service.advance("90 hours")
    const attempts = service.webhooks.received()
    const begun = Date.parse(attempts[0]!.at)
    const moments = [0, 5, 30, 120, 600, 3600, 10_800, 21_600, 43_200, 86_400, 129_600, 172_800, 216_000, 259_200]
    assert.lengthOf(attempts, moments.length)
    for (const [index, { at, body }] of attempts.entries()) {
      const after = (Date.parse(at) - begun) / 1000
      assert.isAtLeast(after, moments[index]!)
      assert.isAtMost(after, moments[index]! * 1.1 + 1)
      assert.strictEqual(body, attempts[0]!.body)
    }
    const { disabled, disabled_reason, failing_since } = await shown()
    assert.deepStrictEqual([disabled, disabled_reason], [true, "failing"])
    assert.strictEqual(Date.parse(failing_since), begun)
    const [delivery] = await log()
    assert.strictEqual(delivery.state, "failed")
    assert.lengthOf(delivery.attempts, moments.length)
    await service.close()
  })

  it("gets all that happened while it was down for 30 hours", async () => {
    const { end, log, service, shown } = await start()
    service.webhooks.answerWith("down")
    const uuids: Array<string> = []
    for (let hours = 0; hours < 30; hours++) {
      uuids.push(await end())
      await service.advance("1 hour")
    }
    const down = service.webhooks.received().length
    service.webhooks.answerWith(204)
    await service.advance("13 hours")
    const arrived = service.webhooks.received().slice(down)
    assert.sameMembers(arrived.map(({ task }) => task.uuid), uuids)
    assert.isTrue((await log()).every(({ state }: { readonly state: string }) => state === "delivered"))
    const { disabled, failing_since } = await shown()
    assert.deepStrictEqual([disabled, failing_since], [false, null])
    await service.close()
  })

  it("goes on, once it is enabled, with what is younger than 7 days", async () => {
    const { call, end, endpoint, log, service } = await start()
    service.webhooks.answerWith("down")
    const old = await end()
    await service.advance("80 hours")
    assert.isTrue((await call("GET", `/${endpoint.id}`)).body.disabled)
    const missed = await end()
    await service.advance("100 hours")
    service.webhooks.answerWith(204)
    const before = service.webhooks.received().length
    const { body: enabled } = await call("PATCH", `/${endpoint.id}`, { disabled: false })
    assert.deepInclude(enabled, { disabled: false, failing_since: null })
    await service.advance("1 minute")
    assert.deepStrictEqual(service.webhooks.received().slice(before).map(({ task }) => task.uuid), [missed])
    const states = Object.fromEntries(
      (await log()).map(({ state, task_uuid }: Record<string, string>) => [task_uuid, state])
    )
    assert.deepStrictEqual(states, { [old]: "failed", [missed]: "delivered" })
    await service.close()
  })

  it("keeps its log for 30 days", async () => {
    const { end, log, service } = await start()
    await end()
    await service.advance("29 days")
    assert.lengthOf(await log(), 1)
    await service.advance("4 days")
    assert.lengthOf(await log(), 0)
    await service.close()
  })

  it("signs with the old secret for 24 hours after a rotation", async () => {
    const { call, end, endpoint, service } = await start()
    await call("POST", `/${endpoint.id}/rotate-secret`)
    await service.advance(23.9 * hour)
    await end()
    await service.advance(0.2 * hour)
    await end()
    const counts = service.webhooks.received().map(({ headers }) => headers["webhook-signature"]?.split(" ").length)
    assert.deepStrictEqual(counts, [2, 1])
    await service.close()
  })
})
