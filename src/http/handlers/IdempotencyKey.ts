/** The `Idempotency-Key` of a request (CONTRACT 2), with what tells the request from another that has the same key. */
import { Effect } from "effect"
import { Digest } from "effect/crypto"
import { type HttpServerRequest, HttpServerResponse } from "effect/http"
import * as Limits from "../../domain/Limits.ts"
import type { IdempotencyClaim } from "../../services/TaskRepository.ts"
import { invalid, type ValidationFailed } from "../contract/Errors.ts"

const header = "Idempotency-Key"

const visibleAscii = new RegExp(`^[\\x21-\\x7e]{1,${Limits.idempotencyKeyLength}}$`)

const encoder = new TextEncoder()

export const reused = invalid(header, "This key was used for another request within the last 24 hours")

/** Blanks and line breaks between its parts do not make another body. */
const normalized = (body: string) => body === "" ? "" : JSON.stringify(JSON.parse(body))

/** A reader of claims; `body` has been read and found to be JSON, or empty. */
export const reader = Effect.map(Digest.Digest, (digest) =>
  Effect.fnUntraced(function*(
    request: HttpServerRequest.HttpServerRequest
  ): Effect.fn.Return<IdempotencyClaim | undefined, ValidationFailed> {
    const key = request.headers[header.toLowerCase()]
    if (key === undefined) return undefined
    if (!visibleAscii.test(key)) {
      return yield* invalid(header, `Expected 1 to ${Limits.idempotencyKeyLength} visible ASCII characters`)
    }
    const body = yield* Effect.orDie(request.text)
    const path = request.url.split("?", 1)[0]
    const fingerprint = yield* Effect.orDie(
      digest.digestHex(Digest.sha256, encoder.encode(`${request.method} ${path}\n${normalized(body)}`))
    )
    return { key, fingerprint }
  }))

/** Tells a client that nothing was done now: the answer is that of the first request. */
export const markReplay = (isReplay: boolean) => (response: HttpServerResponse.HttpServerResponse) =>
  isReplay ? HttpServerResponse.setHeader(response, "idempotent-replayed", "true") : response
