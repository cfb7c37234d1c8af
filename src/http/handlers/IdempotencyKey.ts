/** The `Idempotency-Key` of a request (CONTRACT 2), with what tells the request from another that has the same key. */
import { Effect } from "effect"
import { Digest } from "effect/crypto"
import { type HttpServerRequest, HttpServerResponse } from "effect/http"
import * as Limits from "../../domain/Limits.ts"
import { IdempotencyKeyReused } from "../../domain/TaskErrors.ts"
import type { IdempotencyClaim } from "../../services/TaskRepository.ts"
import { invalid, type ValidationFailed } from "../contract/Errors.ts"

const header = "Idempotency-Key"

const visibleAscii = new RegExp(`^[\\x21-\\x7e]{1,${Limits.idempotencyKeyLength}}$`)

const encoder = new TextEncoder()

export const reused = invalid(header, new IdempotencyKeyReused({}).message)

/** Blanks and line breaks between its parts do not make another body. */
const normalized = (body: string) => body === "" ? "" : JSON.stringify(JSON.parse(body))

/** The claim of `key` for an operation; REST and RPC name operations alike, by method and path. */
export const claim = Effect.fnUntraced(function*(
  digest: Digest.Digest["Service"],
  key: string | undefined,
  operation: string,
  body: string
): Effect.fn.Return<IdempotencyClaim | undefined, ValidationFailed> {
  if (key === undefined) return undefined
  if (!visibleAscii.test(key)) {
    return yield* invalid(header, `Expected 1 to ${Limits.idempotencyKeyLength} visible ASCII characters`)
  }
  const fingerprint = yield* Effect.orDie(
    digest.digestHex(Digest.sha256, encoder.encode(`${operation}\n${normalized(body)}`))
  )
  return { key, fingerprint }
})

/** A reader of claims; the body has been read and found to be JSON, or empty. */
export const reader = Effect.map(Digest.Digest, (digest) =>
  Effect.fnUntraced(function*(
    request: HttpServerRequest.HttpServerRequest
  ): Effect.fn.Return<IdempotencyClaim | undefined, ValidationFailed> {
    const key = request.headers[header.toLowerCase()]
    if (key === undefined) return undefined
    const body = yield* Effect.orDie(request.text)
    return yield* claim(digest, key, `${request.method} ${request.url.split("?", 1)[0]}`, body)
  }))

/** Tells a client that nothing was done now: the answer is that of the first request. */
export const markReplay = (isReplay: boolean) => (response: HttpServerResponse.HttpServerResponse) =>
  isReplay ? HttpServerResponse.setHeader(response, "idempotent-replayed", "true") : response
