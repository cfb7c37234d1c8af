/** A token that grants the events of runs and nothing else. */
import { Effect } from "effect"
import { assert, describe, it } from "vitest"
import type * as RpcClient from "../../src/http/client/RpcClient.ts"
import { type Transport, useRpc } from "../kit/callRpc.ts"
import { internalToken, mint } from "../kit/Service.ts"
import { use } from "../kit/suite.ts"
import { startSystem } from "../kit/System.ts"

const [eventToken, rotated] = ["token-for-events", "next-token-for-events"]
const system = await use(startSystem({ CORE_EVENT_TOKENS: `${eventToken},${rotated}` }))
const { service } = system

const eventOf = async (user: string) => {
  const { uuid } = (await service.create(await mint(user), "Why?")).body
  const { run_id, task_id } = await system.runOf(uuid)
  return { type: "processing" as const, event_id: crypto.randomUUID(), run_id, task_id }
}

describe("CORE_EVENT_TOKENS", () => {
  it("are required for events by REST and open no other route", async () => {
    const event = await eventOf("rest")
    const statusOf = async (method: string, path: string, token: string, body?: unknown) =>
      (await service.call(method, path, token, body)).status
    for (const token of [internalToken, "", "wrong", await mint("rest")]) {
      assert.strictEqual(await statusOf("POST", "/internal/core/events", token, event), 401, token)
    }
    for (const token of [eventToken, rotated]) {
      assert.strictEqual(await statusOf("POST", "/internal/core/events", token, event), 200)
      assert.strictEqual(await statusOf("GET", "/internal/metrics", token), 401)
      assert.strictEqual(await statusOf("POST", "/internal/tokens/revoke", token, { jti: "x" }), 401)
      assert.strictEqual(await statusOf("GET", "/api/tasks", token), 401)
    }
    assert.strictEqual(await statusOf("GET", "/internal/metrics", internalToken), 200)
  })

  for (const transport of ["POST", "WebSocket"] satisfies ReadonlyArray<Transport>) {
    it(`are required for events by RPC over ${transport} and grant no other call`, async () => {
      const sub = `rpc-${transport}`
      const event = await eventOf(sub)
      const outcome = <A, E extends { readonly _tag: string }>(
        call: (client: RpcClient.InternalClient) => Effect.Effect<A, E>,
        token: string
      ) =>
        useRpc(
          service,
          (client) => Effect.match(call(client), { onFailure: ({ _tag }) => _tag, onSuccess: () => "success" }),
          transport,
          token
        )
      const report = (client: RpcClient.InternalClient) => client["Core.report"]({ event })
      const list = (client: RpcClient.InternalClient) => client["Tasks.list"]({ sub })
      const revoke = (client: RpcClient.InternalClient) => client["Tokens.revoke"]({ revocation: { jti: "x" } })
      assert.strictEqual(await outcome(report, internalToken), "Unauthorized")
      assert.strictEqual(await outcome(report, "wrong"), "Unauthorized")
      assert.strictEqual(await outcome(report, eventToken), "success")
      assert.strictEqual(await outcome(list, eventToken), "Unauthorized")
      assert.strictEqual(await outcome(revoke, eventToken), "Unauthorized")
      assert.strictEqual(await outcome(list, internalToken), "success")
    })
  }
})
