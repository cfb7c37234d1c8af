/** The `Idempotency-Key` of a request, and the fingerprint that distinguishes it from other requests with the same key. */
import { Effect } from "effect"
import { type HttpServerRequest, HttpServerResponse } from "effect/http"
import * as Limits from "../../domain/Limits.ts"
import { IdempotencyKeyReused } from "../../domain/TaskErrors.ts"
import type { IdempotencyClaim } from "../../services/store/tasks/TaskStore.ts"
import { invalid, type ValidationFailed } from "../contract/Errors.ts"

const header = "Idempotency-Key"

const visibleAscii = new RegExp(`^[\\x21-\\x7e]{1,${Limits.idempotencyKeyLength}}$`)

export const reused = invalid(header, new IdempotencyKeyReused({}).message, "idempotency_key_reused")

/** Whether the request has a key, valid or not. */
export const isGiven = ({ headers }: HttpServerRequest.HttpServerRequest) => headers[header.toLowerCase()] !== undefined

/** Method and path. RPC calls use those of the equivalent REST operation. */
export const operationOf = ({ method, url }: HttpServerRequest.HttpServerRequest) => `${method} ${url.split("?", 1)[0]}`

/** A claim of a valid `key`. */
export const claimOf = (key: string, fingerprint: string): Effect.Effect<IdempotencyClaim, ValidationFailed> =>
  visibleAscii.test(key)
    ? Effect.succeed({ key, fingerprint })
    : Effect.fail(invalid(header, `Expected 1 to ${Limits.idempotencyKeyLength} visible ASCII characters`))

/** The claim of a request, or undefined without an `Idempotency-Key`. */
export const claimOfRequest = (
  { headers }: HttpServerRequest.HttpServerRequest,
  fingerprint: string | undefined
): Effect.Effect<IdempotencyClaim | undefined, ValidationFailed> => {
  const key = headers[header.toLowerCase()]
  return key === undefined || fingerprint === undefined ? Effect.undefined : claimOf(key, fingerprint)
}

/** Marks the response as a repetition of the first request's response. */
export const markReplay = (isReplay: boolean) => (response: HttpServerResponse.HttpServerResponse) =>
  isReplay ? HttpServerResponse.setHeader(response, "idempotent-replayed", "true") : response
