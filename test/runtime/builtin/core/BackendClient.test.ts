import { assert, it } from "@effect/vitest"
import { Duration, Effect, Fiber } from "effect"
import { HttpClient, HttpClientResponse } from "effect/http"
import { TestClock } from "effect/testing"
import * as BackendClient from "../../../../src/runtime/builtin/core/BackendClient.ts"

const url = "http://backend.test/v1"
const caller = { sub: "ann", token: "token" }

/** A client of a backend that responds to every call with this chat, and the paths of the calls. */
const makeClient = Effect.fnUntraced(function*(id: unknown) {
  const paths: Array<string> = []
  const http = HttpClient.make((request, { pathname }) =>
    Effect.sync(() => {
      paths.push(pathname)
      return HttpClientResponse.fromWeb(request, Response.json({ id }, { status: 201 }))
    })
  )
  return { backend: yield* Effect.provideService(BackendClient.make(url), HttpClient.HttpClient, http), paths }
})

it.effect("the id of a chat is one segment of the path of its turns", () =>
  Effect.gen(function*() {
    for (
      const [id, segment] of [["a/../b?c#d", "a%2F..%2Fb%3Fc%23d"], ["...", "..."], ["é", "%C3%A9"], [7, "7"]] as const
    ) {
      const { backend, paths } = yield* makeClient(id)
      const chatId = yield* backend.createChat(caller, { assistant_id: 1 })
      yield* Effect.scoped(backend.createTurn(caller, chatId, { input: [], turns: [], client_tools: [] }))
      assert.deepStrictEqual(paths, ["/v1/chats", `/v1/chats/${segment}/turns`])
    }
  }))

it.effect("an id of a chat that cannot be a segment of a path is an invalid response", () =>
  Effect.gen(function*() {
    for (const id of ["", ".", "..", "\ud800", "a\0", null]) {
      const { backend } = yield* makeClient(id)
      const outcome = yield* Effect.match(backend.createChat(caller, { assistant_id: 1 }), {
        onFailure: ({ _tag }) => _tag,
        onSuccess: () => "accepted"
      })
      assert.strictEqual(outcome, "BackendFailed", JSON.stringify(id))
    }
  }))

it.effect("a chat or a transcription that gets no response fails by its own clock", () =>
  Effect.gen(function*() {
    const silent = HttpClient.make(() => Effect.never)
    const backend = yield* Effect.provideService(BackendClient.make(url), HttpClient.HttpClient, silent)
    const calls: ReadonlyArray<readonly [Effect.Effect<unknown, { readonly _tag: string }>, number]> = [
      [backend.createChat(caller, { assistant_id: 1 }), 30],
      [backend.transcribe(caller, { id: "1" }), 300]
    ]
    for (const [call, seconds] of calls) {
      const fiber = yield* Effect.forkChild(Effect.flip(call))
      yield* TestClock.adjust(Duration.seconds(seconds - 1))
      assert.isUndefined(fiber.pollUnsafe())
      yield* TestClock.adjust("1 second")
      assert.strictEqual((yield* Fiber.join(fiber))._tag, "BackendFailed")
    }
  }))
