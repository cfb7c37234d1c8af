/** The limit of files, by the bytes that arrive: a form may announce another length, or none. */
import { assert, describe, it } from "@effect/vitest"
import { Cause, Effect, Layer, type Pull, Redacted, Result, Stream } from "effect"
import { SecureRandom } from "effect/crypto"
import { HttpClient, HttpClientError, HttpClientResponse } from "effect/http"
import { AssistantBackend } from "../../../src/services/files/AssistantBackend.ts"

/** 1,024,000 KB. */
const limit = 1_048_576_000
const chunk = new Uint8Array(1024 * 1024).fill(0x61)

/** A file of `size` bytes in chunks of 1 MiB, which count when they are read. */
const contentOf = (size: number, onRead: (bytes: number) => void): Pull.Pull<readonly [Uint8Array]> => {
  let left = size
  return Effect.suspend((): Effect.Effect<readonly [Uint8Array], Cause.Done<void>> => {
    if (left === 0) return Cause.done()
    const next = chunk.subarray(0, Math.min(left, chunk.length))
    left -= next.length
    onRead(next.length)
    return Effect.succeed([next])
  })
}

const stored = (id: string) => `{"id":${id},"name":"a.txt","mime_type":"text/plain","provider_data":{"path":"1/a.txt"}}`

/** A backend that reads the form to its end. */
const backend = (onReceived: (bytes: number) => void, answer: string) =>
  Layer.succeed(
    HttpClient.HttpClient,
    HttpClient.make((request) =>
      Effect.gen(function*() {
        const { body } = request
        if (body._tag === "Stream") {
          yield* Effect.mapError(
            Stream.runForEach(body.stream, (bytes) => Effect.sync(() => onReceived(bytes.length))),
            (cause) =>
              new HttpClientError.HttpClientError({ reason: new HttpClientError.EncodeError({ request, cause }) })
          )
        }
        return HttpClientResponse.fromWeb(request, new Response(answer, { status: 201 }))
      })
    )
  )

const upload = Effect.fnUntraced(function*(size: number, answer = stored("\"1\"")) {
  let [read, received] = [0, 0]
  const file = { name: "a.txt", mimeType: "text/plain", content: contentOf(size, (bytes) => read += bytes) }
  const result = yield* AssistantBackend.pipe(
    Effect.flatMap((service) => Effect.result(service.upload(Redacted.make("token"), file))),
    Effect.provide(
      AssistantBackend.layer("http://backend.test").pipe(
        Layer.provide([backend((bytes) => received += bytes, answer), SecureRandom.layerWebCrypto])
      )
    )
  )
  return { result, read, received }
})

describe("a file that is streamed", () => {
  it.effect("may have 1,024,000 KB", () =>
    Effect.gen(function*() {
      const { received, result } = yield* upload(limit)
      assert.isTrue(Result.isSuccess(result))
      assert.isAbove(received, limit)
    }))

  it.effect("is refused at the first byte above, and no byte of it goes on", () =>
    Effect.gen(function*() {
      const { read, received, result } = yield* upload(limit + 10 * chunk.length)
      assert.isTrue(Result.isFailure(result) && result.failure._tag === "FileRefused")
      assert.isAtMost(read, limit + chunk.length)
      assert.isAtMost(received, limit + 1024)
      const { result: above } = yield* upload(limit + 1)
      assert.isTrue(Result.isFailure(above) && above.failure._tag === "FileRefused")
    }))
})

describe("the id of a stored file", () => {
  it.effect("keeps its digits when it is a number", () =>
    Effect.gen(function*() {
      for (
        const [id, expected] of [["9007199254740993", "9007199254740993"], ["\"\\u0031é\"", "1é"], [
          "-7",
          "-7"
        ]] as const
      ) {
        const { result } = yield* upload(1, stored(id))
        assert.strictEqual(Result.getOrThrow(result).file.id, expected)
      }
    }))

  it.effect("makes the answer unusable when no request could have it, like the other texts of the file", () =>
    Effect.gen(function*() {
      const whole = stored("\"1\"")
      for (const unusual of ["a\\u0000b", "\\ud800", "\\udc00x"]) {
        for (const text of ["\"1\"", "a.txt", "text/plain", "1/a.txt"]) {
          const answer = whole.replace(text, () => text === "\"1\"" ? `"${unusual}"` : unusual)
          const { result } = yield* upload(1, answer)
          assert.isTrue(Result.isFailure(result) && result.failure._tag === "BackendUnavailable", answer)
        }
      }
    }))

  it.effect("is missing when it is neither a text nor an integer", () =>
    Effect.gen(function*() {
      for (const id of ["1.5", "1e3", "null", "{}", "[1]", "1,\"id\":true"]) {
        const { result } = yield* upload(1, stored(id))
        assert.isTrue(Result.isFailure(result) && result.failure._tag === "BackendUnavailable", id)
      }
    }))
})
