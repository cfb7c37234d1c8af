import { assert, it } from "@effect/vitest"
import { Effect, Stream } from "effect"
import { HttpClient } from "effect/http"
import * as ModelClient from "../../../../src/runtime/builtin/backend/ModelClient.ts"
import { streamParts } from "../../../../src/runtime/builtin/backend/OpenAiStream.ts"
import { LoopbackServer } from "../../../kit/LoopbackServer.ts"

const event = (content: string) => `data: ${JSON.stringify({ choices: [{ delta: { content } }] })}\n\n`

it.live("the text of a stream is delivered when the provider resets the connection", () =>
  Effect.gen(function*() {
    const server = new LoopbackServer((_, response) => {
      response.writeHead(200, { "content-type": "text/event-stream" })
      for (const word of ["one ", "two ", "three"]) response.write(event(word))
      setTimeout(() => response.socket?.resetAndDestroy(), 50)
    })
    yield* Effect.acquireRelease(Effect.promise(() => server.listen()), () => Effect.promise(() => server.close()))
    const response = yield* HttpClient.get(server.url)
    let text = ""
    yield* streamParts(response).pipe(
      Stream.runForEach((part) => Effect.sync(() => text += part.type === "text-delta" ? part.delta : "")),
      Effect.flip
    )
    assert.strictEqual(text, "one two three")
  }).pipe(Effect.scoped, Effect.provide(ModelClient.layer)))
