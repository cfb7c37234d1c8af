import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import { HttpClient, HttpClientResponse } from "effect/http"
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
