import { assert, it } from "@effect/vitest"
import { Effect, Fiber, Queue, Stream } from "effect"
import { HttpClientRequest, HttpClientResponse } from "effect/http"
import { TestClock } from "effect/testing"
import { maxSilence, streamParts } from "../../../../src/runtime/builtin/backend/OpenAiStream.ts"

const event = (choice: object) => new TextEncoder().encode(`data: ${JSON.stringify({ choices: [choice] })}\n\n`)
const word = (content: string) => event({ delta: { content } })
const stop = event({ delta: {}, finish_reason: "stop" })

const join = (...events: ReadonlyArray<Uint8Array>) => Buffer.concat(events)

/** A provider's response, and the types and texts of the parts that it has become so far. */
const respond = Effect.gen(function*() {
  const body = new TransformStream<Uint8Array, Uint8Array>()
  const writer = body.writable.getWriter()
  const response = HttpClientResponse.fromWeb(HttpClientRequest.get("http://model"), new Response(body.readable))
  const parts = yield* Queue.unbounded<string>()
  const reading = yield* streamParts(response).pipe(
    Stream.runForEach((part) => Queue.offer(parts, part.type === "text-delta" ? part.delta : part.type)),
    Effect.forkChild
  )
  assert.strictEqual(yield* Queue.take(parts), "text-start")
  return {
    parts,
    reading,
    send: (...chunks: ReadonlyArray<Uint8Array>) =>
      Effect.promise(async () => {
        for (const chunk of chunks) await writer.write(chunk)
      }),
    end: Effect.promise(() => writer.close())
  }
})

it.effect("text that arrives together is one part", () =>
  Effect.gen(function*() {
    const { end, parts, send } = yield* respond
    yield* send(join(word("a "), word("b "), word("c ")))
    assert.strictEqual(yield* Queue.take(parts), "a b c ")
    yield* send(join(word("d "), word("e"), stop))
    yield* end
    assert.deepStrictEqual(yield* Queue.takeN(parts, 3), ["d e", "text-end", "finish"])
  }))

it.effect("other work runs while a large chunk is read", () =>
  Effect.gen(function*() {
    const { parts, send } = yield* respond
    let turns = 0
    yield* Effect.forkChild(Effect.forever(Effect.andThen(Effect.yieldNow, Effect.sync(() => turns++))))
    yield* Effect.forkChild(send(join(...Array.from({ length: 2000 }, () => word("word "))), stop))
    yield* Queue.takeN(parts, 4)
    assert.isAtLeast(turns, 3)
  }))

it.effect("a response fails after five minutes of silence, not before", () =>
  Effect.gen(function*() {
    const { parts, reading, send } = yield* respond
    yield* TestClock.adjust("4 minutes")
    yield* send(word("a"))
    yield* TestClock.adjust("4 minutes")
    assert.strictEqual(yield* Queue.take(parts), "a")
    assert.isUndefined(reading.pollUnsafe())
    yield* TestClock.adjust(maxSilence)
    assert.include(String(yield* Effect.flip(Fiber.join(reading))), "silence")
  }))
