/** The `Idempotency-Key` of a request, and the fingerprint that distinguishes it from other requests with the same key. */
import { Effect } from "effect"
import { type HttpServerRequest, HttpServerResponse } from "effect/http"
import * as Limits from "../../domain/Limits.ts"
import { IdempotencyKeyReused } from "../../domain/TaskErrors.ts"
import type { RequestKey } from "../../services/store/tasks/TaskStore.ts"
import { invalid, type ValidationFailed } from "../contract/Errors.ts"
import { canonicalPath } from "../Routes.ts"

const header = "Idempotency-Key"

const visibleAscii = new RegExp(`^[\\x21-\\x7e]{1,${Limits.idempotencyKeyLength}}$`)

export const reused = invalid(header, new IdempotencyKeyReused({}).message, "idempotency_key_reused")

/** True if the request has a key, valid or not. */
export const isGiven = ({ headers }: HttpServerRequest.HttpServerRequest) => headers[header.toLowerCase()] !== undefined

/** Method and path. RPC calls use those of the equivalent REST operation. */
export const operationOf = (method: string, path: string) => `${method} ${canonicalPath(path)}`

/** The key of a request, from a valid `value`. */
export const keyOf = (value: string, fingerprint: string): Effect.Effect<RequestKey, ValidationFailed> =>
  visibleAscii.test(value)
    ? Effect.succeed({ value, fingerprint })
    : Effect.fail(invalid(header, `Expected 1 to ${Limits.idempotencyKeyLength} visible ASCII characters`))

/** The key of a request, or undefined without an `Idempotency-Key`. */
export const keyOfRequest = (
  { headers }: HttpServerRequest.HttpServerRequest,
  fingerprint: string | undefined
): Effect.Effect<RequestKey | undefined, ValidationFailed> => {
  const value = headers[header.toLowerCase()]
  return value === undefined || fingerprint === undefined ? Effect.undefined : keyOf(value, fingerprint)
}

/** Marks the response as a repetition of the first request's response. */
export const markReplay = (isReplay: boolean) => (response: HttpServerResponse.HttpServerResponse) =>
  isReplay ? HttpServerResponse.setHeader(response, "idempotent-replayed", "true") : response
