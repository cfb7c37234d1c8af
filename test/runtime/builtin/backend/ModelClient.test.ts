import type { Dispatcher } from "@effect/platform-node/Undici"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Stream } from "effect"
import { HttpClient } from "effect/http"
import { once } from "node:events"
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

const never = 3_600_000

const controller: Dispatcher.DispatchController = {
  aborted: false,
  paused: false,
  reason: null,
  abort: () => {},
  pause: () => {},
  resume: () => {}
}

/** A response, and what has passed of it. */
const respond = (interval: number, passed: (text: string) => void = () => {}) => {
  const texts: Array<string> = []
  const add = (text: string) => {
    texts.push(text)
    passed(text)
  }
  let joiner: Dispatcher.DispatchHandler = {}
  ModelClient.joinChunks({ interval, maxBytes: 8, urgent: /END/ })((_, handler) => {
    joiner = handler
    return true
  })({ path: "/", method: "GET" }, {
    onResponseData: (_, chunk) => add(chunk.toString()),
    onResponseEnd: () => add("end"),
    onResponseError: (_, { message }) => add(message)
  })
  joiner.onResponseStart?.(controller, 200, { "content-length": "9" })
  return {
    texts,
    send: (...chunks: ReadonlyArray<string>) => {
      for (const chunk of chunks) joiner.onResponseData?.(controller, Buffer.from(chunk))
    },
    end: () => joiner.onResponseEnd?.(controller, {}),
    fail: () => joiner.onResponseError?.(controller, new Error("reset"))
  }
}

describe("the chunks of a response", () => {
  it("pass together when they have waited", async () => {
    const events = new EventTarget()
    const { send, texts } = respond(1, () => events.dispatchEvent(new Event("passed")))
    for (const chunks of [["a", "b"], ["c"]]) {
      const passed = once(events, "passed")
      send(...chunks)
      await passed
    }
    assert.deepStrictEqual(texts, ["ab", "c"])
  })

  it("pass together when there is an urgent one", () => {
    const { send, texts } = respond(never)
    send("a", "b")
    assert.deepStrictEqual(texts, [])
    send("END", "c")
    assert.deepStrictEqual(texts, ["abEND"])
  })

  it("never wait in a larger number than the maximum of bytes", () => {
    const { send, texts } = respond(never)
    send("1234", "5678", "9", "a long one", "0")
    assert.deepStrictEqual(texts, ["12345678", "9", "a long one"])
  })

  it("pass before the end and before an error", () => {
    const [ended, failed] = [respond(never), respond(never)]
    ended.send("a", "b")
    ended.end()
    failed.send("a", "b")
    failed.fail()
    assert.deepStrictEqual([ended.texts, failed.texts], [["ab", "end"], ["ab", "reset"]])
  })
})
