import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { HttpServerRequest, HttpServerResponse } from "effect/http"
import { RpcMemory } from "../../../src/http/rpc/RpcMemory.ts"
import * as RpcPost from "../../../src/http/rpc/RpcPost.ts"

const body = `${JSON.stringify({ _tag: "Request", id: "1", tag: "Operations.stats", payload: null })}\n`

const request = HttpServerRequest.fromWeb(
  new Request("http://localhost/rpc", { method: "POST", headers: { "content-length": `${body.length}` }, body })
)

describe("RpcPost", () => {
  it.effect("responds with an empty body when a connection ends without a line", () =>
    Effect.gen(function*() {
      const handle = yield* RpcPost.make({
        open: ({ end }) =>
          Effect.succeed({
            isInFlight: () => false,
            inFlight: () => 0,
            begin: () => end,
            control: () => Effect.void,
            fail: () => Effect.void,
            reportError: () => Effect.void,
            finish: Effect.void
          })
      })
      const response = HttpServerResponse.toWeb(yield* handle(request))
      assert.strictEqual(response.status, 200)
      assert.strictEqual(yield* Effect.promise(() => response.text()), "")
    }).pipe(Effect.provide(RpcMemory.layer)), 5_000)
})
