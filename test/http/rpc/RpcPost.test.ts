import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { HttpServerRequest, HttpServerResponse } from "effect/http"
import * as RpcConnections from "../../../src/http/rpc/RpcConnections.ts"
import { RpcMemory } from "../../../src/http/rpc/RpcMemory.ts"
import * as RpcPost from "../../../src/http/rpc/RpcPost.ts"

const body = `${JSON.stringify({ _tag: "Request", id: "1", tag: "Operations.stats", payload: null })}\n`

const request = HttpServerRequest.fromWeb(
  new Request("http://localhost/rpc", { method: "POST", headers: { "content-length": `${body.length}` }, body })
)

describe("RpcPost", () => {
  it.effect("responds with an empty body when a connection ends without a line", () =>
    Effect.gen(function*() {
      const connections = yield* RpcConnections.make({ isDuplex: false })
      const handle = yield* RpcPost.make({
        ...connections,
        open: (writer) =>
          Effect.map(connections.open(writer), (connection) => ({ ...connection, begin: () => writer.end }))
      })
      const response = HttpServerResponse.toWeb(yield* handle(request))
      assert.strictEqual(response.status, 200)
      assert.strictEqual(yield* Effect.promise(() => response.text()), "")
    }).pipe(Effect.provide(RpcMemory.layer)), 5_000)
})
