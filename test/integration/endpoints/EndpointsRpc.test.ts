/** The group `Endpoints` of the internal interface. */
import { assert, describe, it } from "vitest"
import { callRpc } from "../../kit/callRpc.ts"
import { complete } from "../../kit/ScriptedCore.ts"
import { internalToken, mint } from "../../kit/Service.ts"
import { use } from "../../kit/suite.ts"
import { startSystem } from "../../kit/System.ts"

const { runOf, service } = await use(startSystem())
const rpc = (tag: string, payload: unknown) => callRpc(service, `Endpoints.${tag}`, payload)

/** The values of a stream until there are `count`. */
const streamed = async (payload: unknown, count: number) => {
  const abort = new AbortController()
  const response = await fetch(`${service.url}/rpc`, {
    method: "POST",
    headers: { authorization: `Bearer ${internalToken}`, "content-type": "application/ndjson" },
    body: `${JSON.stringify({ _tag: "Request", id: "1", tag: "Endpoints.events", payload, headers: [] })}\n`,
    signal: abort.signal
  })
  const values: Array<Record<string, unknown>> = []
  let text = ""
  for await (const chunk of response.body!.pipeThrough(new TextDecoderStream())) {
    text += chunk
    const lines = text.split("\n")
    text = lines.pop() ?? ""
    for (const line of lines) if (line.trim() !== "") values.push(...(JSON.parse(line).values ?? []))
    if (values.length >= count) break
  }
  abort.abort()
  return values
}

describe("Endpoints by RPC", () => {
  it("does what REST does, with typed errors", async () => {
    const created = await rpc("create", { endpoint: { url: null, description: "by RPC" } })
    assert.match(created.secret, /^whsec_/)
    const { id } = created
    const { secret: _, ...shown } = created
    assert.deepStrictEqual(await rpc("get", { id }), shown)
    assert.deepStrictEqual((await rpc("list", { limit: 1 })).data, [shown])
    const { body: { uuid } } = await service.create(await mint("rpc"), "x")
    await complete(await runOf(uuid))
    const [event] = await streamed({ id }, 1)
    assert.deepInclude(event, { type: "task.completed", position: 1 })
    assert.strictEqual(JSON.parse(String(event!["body"])).data.task.uuid, uuid)
    const { data: [delivery] } = await rpc("deliveries", { id, state: "delivered" })
    assert.strictEqual(delivery.id, event!["id"])
    assert.deepInclude(await rpc("redeliver", { id, delivery: delivery.id }), { state: "pending" })
    assert.deepInclude((await streamed({ id, after: 1 }, 1))[0], { id: delivery.id, position: 2 })
    const range = { from: "2026-01-01T00:00:00Z", to: "2126-01-01T00:00:00Z" }
    assert.deepStrictEqual(await rpc("replay", { id, ...range }), { enqueued: 1, left: 0 })
    assert.deepInclude(await rpc("test", { id, event: "task.failed" }), { type: "task.failed", number: 0 })
    assert.notStrictEqual((await rpc("rotateSecret", { id, keep_old_for: 60 })).secret, created.secret)
    assert.deepInclude(await rpc("update", { id, body: { disabled: true } }), { disabled_reason: "manual" })
    assert.deepInclude(await rpc("update", { id, body: { url: "http://127.0.0.1/" } }), { _tag: "InvalidRequest" })
    assert.deepInclude(await rpc("create", { endpoint: { format: "xml" } }), { _tag: "InvalidRequest" })
    await rpc("delete", { id })
    assert.deepStrictEqual(await rpc("get", { id }), { _tag: "EndpointNotFound" })
  })
})
