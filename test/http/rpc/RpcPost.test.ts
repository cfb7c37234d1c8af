import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect, Fiber } from "effect"
import { HttpServerRequest, HttpServerResponse } from "effect/http"
import { TestClock } from "effect/testing"
import * as RpcCodecs from "../../../src/http/rpc/RpcCodecs.ts"
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

const { decode } = RpcCodecs.make([])

describe("RpcPost", () => {
  it.effect("responds with an empty body when a connection ends without a line", () =>
    Effect.gen(function*() {
      const handle = yield* RpcPost.make({
        decode,
        open: ({ end }) => Effect.succeed({ ...connection, begin: () => end })
      }, new RpcMemory())
      const response = HttpServerResponse.toWeb(yield* handle(requestOf(1), { has: () => true, name: "token-1" }))
      assert.strictEqual(response.status, 200)
      assert.strictEqual(yield* Effect.promise(() => response.text()), "")
    }))

  it.effect(
    "sends an empty line every 15 s, also before the first result, so that no proxy ends the response",
    () =>
      Effect.gen(function*() {
        let send: (line: string) => Effect.Effect<unknown> = () => Effect.void
        const handle = yield* RpcPost.make({
          decode,
          open: ({ write }) => {
            send = write
            return Effect.succeed(connection)
          }
        }, new RpcMemory())
        const handled = yield* Effect.forkChild(handle(requestOf(2), { has: () => true, name: "token-1" }), {
          startImmediately: true
        })
        // The body has been read when the call has begun.
        yield* Effect.promise(() => new Promise(setImmediate))
        yield* TestClock.adjust(Duration.seconds(15))
        const context = yield* Effect.context<never>()
        const { body } = HttpServerResponse.toWeb(yield* Fiber.join(handled), { context })
        const reader = body!.getReader()
        const next = async () => new TextDecoder().decode((await reader.read()).value)
        for (const line of ["\n", "{}\n", "\n"]) {
          const read = next()
          yield* Effect.promise(() => new Promise(setImmediate))
          yield* line === "\n" ? TestClock.adjust(Duration.seconds(15)) : send(line)
          assert.strictEqual(yield* Effect.promise(() => read), line)
        }
      })
  )

  it.effect("ends the calls of a client that disconnects without reading their results", () =>
    Effect.gen(function*() {
      const calls: Array<Fiber.Fiber<void>> = []
      const handle = yield* RpcPost.make({
        decode,
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
      yield* Effect.scoped(handle(requestOf(40), { has: () => true, name: "token-1" }))
      yield* Fiber.awaitAll(calls)
    }))
})
