import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import { HttpServerRequest, HttpServerResponse } from "effect/http"
import { RpcMemory } from "../../../src/http/rpc/RpcMemory.ts"
import * as RpcPost from "../../../src/http/rpc/RpcPost.ts"

/** A POST of calls. */
const requestOf = (count: number) => {
  const call = { _tag: "Request", tag: "Tasks.list", payload: { sub: "ann" } }
  const body = Array.from({ length: count }, (_, id) => `${JSON.stringify({ ...call, id })}\n`).join("")
  return HttpServerRequest.fromWeb(
    new Request("http://localhost/rpc", { method: "POST", headers: { "content-length": `${body.length}` }, body })
  )
}

const connection = {
  isInFlight: () => false,
  inFlight: () => 0,
  begin: () => Effect.void,
  control: () => Effect.void,
  fail: () => Effect.void,
  reportError: () => Effect.void,
  finish: Effect.void
}

describe("RpcPost", () => {
  it.effect("responds with an empty body when a connection ends without a line", () =>
    Effect.gen(function*() {
      const handle = yield* RpcPost.make({
        open: ({ end }) => Effect.succeed({ ...connection, begin: () => end })
      }, new RpcMemory())
      const response = HttpServerResponse.toWeb(yield* handle(requestOf(1), () => true))
      assert.strictEqual(response.status, 200)
      assert.strictEqual(yield* Effect.promise(() => response.text()), "")
    }), 5_000)

  it.effect("ends the calls of a client that disconnects without reading their results", () =>
    Effect.gen(function*() {
      const calls: Array<Fiber.Fiber<void>> = []
      const handle = yield* RpcPost.make({
        open: ({ write }) =>
          Effect.succeed({
            ...connection,
            // The RPC server writes a result when its call can no longer be interrupted.
            begin: (_, release) =>
              write("result\n").pipe(
                Effect.ensuring(release),
                Effect.uninterruptible,
                Effect.forkDetach({ startImmediately: true }),
                Effect.map((call) => void calls.push(call))
              )
          })
      }, new RpcMemory())
      yield* Effect.scoped(handle(requestOf(40), () => true))
      yield* Fiber.awaitAll(calls)
    }), 5_000)
})
