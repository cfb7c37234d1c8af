/** The user of a call of the internal interface, checked as strictly as the claims of a token. */
import { Effect, Redacted } from "effect"
import { Headers } from "effect/http"
import { type Caller, isName, type Principal } from "../../../domain/Principal.ts"
import { StoreUnavailable } from "../../../domain/StoreUnavailable.ts"
import { CreateRefused } from "../../../domain/TaskErrors.ts"
import { TokenRevocations } from "../../../services/tokens/TokenRevocations.ts"
import { TokenVerifier } from "../../../services/tokens/TokenVerifier.ts"
import * as Errors from "../../contract/Errors.ts"
import { InvalidRequest, Unavailable } from "../../contract/rpc/RpcErrors.ts"
import { noBody } from "../body/BodyReader.ts"
import { type BodyKind, bytesOf, decodeBytes } from "../body/JsonBody.ts"
import type { Call } from "../Call.ts"
import { makeKeyOf } from "../IdempotencyKey.ts"
import type { Query } from "../Query.ts"

const callerHeader = "x-caller"

/** Headers that tell a handler whose token a call has. */
export const headersOf = (caller: string) => Headers.fromRecordUnsafe({ [callerHeader]: caller })

/** The author that changes a task or revokes a token by a call. */
export const authorOf = (headers: Headers.Headers) => `rpc:${headers[callerHeader] ?? ""}`

export const asInvalidRequest = ({ errors, message }: Errors.ValidationFailed) =>
  new InvalidRequest({ message, errors })

/** Decodes a body by the rules of REST. */
export const decode = <A>(kind: BodyKind<A>, body: unknown): Effect.Effect<A, InvalidRequest> =>
  Effect.suspend(() => Effect.mapError(decodeBytes(kind, bytesOf(body)), asInvalidRequest))

export const invalid = (field: string, message: string) => asInvalidRequest(Errors.invalid(field, message))

/** The parameters of a payload, as a query of REST has them. */
export const queryOf = (given: object): Query =>
  Object.fromEntries(
    Object.entries(given).flatMap(([name, value]) => {
      if (value === undefined) return []
      return [[name, typeof value === "string" || Array.isArray(value) ? value : JSON.stringify(value)]]
    })
  )

/** The failures of calls, in place of those that operations by REST and by RPC share. */
type Failure<E> = E extends StoreUnavailable | Errors.ServiceUnavailable ? Unavailable
  : E extends CreateRefused | Errors.ValidationFailed ? InvalidRequest
  : E

const failureOf = (error: unknown) => {
  if (error instanceof StoreUnavailable || error instanceof Errors.ServiceUnavailable) {
    return new Unavailable({ message: error.message })
  }
  if (error instanceof CreateRefused) return invalid("body", error.message)
  return error instanceof Errors.ValidationFailed ? asInvalidRequest(error) : error
}

/** Answers a call by an operation that REST has too. */
export const answer = <A, E, R>(operation: Effect.Effect<A, E, R>): Effect.Effect<A, Failure<E>, R> =>
  // `Failure` says which class of failure becomes which.
  Effect.mapError(operation, (error) => failureOf(error) as Failure<E>)

export const tokensUnknown = new Unavailable({ message: "Tokens cannot be checked at the moment. Try again soon." })

/** A user without a known token: only revocations of all tokens of the user apply. */
const principalOf = (sub: string): Principal => ({ sub, tokenId: "internal", issuedAt: null })

/** The principal for reads. The name is not checked: a name that no token can have owns no tasks. */
export const reader = (sub: string): Principal => principalOf(sub)

export const principal = (sub: string): Effect.Effect<Principal, InvalidRequest> =>
  isName(sub) ? Effect.succeed(principalOf(sub)) : Effect.fail(invalid("sub", "Expected a user's name"))

/** The user with the token that the core receives; a token of another user is refused. */
const callerOf = Effect.fnUntraced(function*(
  verifier: TokenVerifier["Service"],
  revocations: TokenRevocations["Service"],
  { sub, user_token }: Payload
): Effect.fn.Return<Caller, InvalidRequest | Unavailable> {
  const user = yield* principal(sub)
  if (user_token === undefined) return { principal: user, token: Redacted.make(""), expiresAt: 0 }
  const verified = yield* verifier.verify(Redacted.make(user_token)).pipe(
    Effect.tap(({ principal }) => revocations.check(principal)),
    Effect.mapError((error) =>
      error._tag === "InvalidToken" || error._tag === "TokenIsRevoked"
        ? invalid("user_token", "The token is invalid, expired or revoked")
        : tokensUnknown
    )
  )
  return verified.principal.sub === sub ? verified : yield* invalid("user_token", "The token is of another user")
})

export interface Payload {
  readonly sub: string
  readonly user_token?: string
  readonly idempotency_key?: string
  readonly body?: unknown
}

/** Returns a function that makes the call of a payload. `path` is that of REST's operation, so that a key is the same there and here. */
export const makeCall = Effect.gen(function*() {
  const keyOf = yield* makeKeyOf
  const verifier = yield* TokenVerifier
  const revocations = yield* TokenRevocations

  return (path: string, payload: Payload, headers?: Headers.Headers): Call<InvalidRequest | Unavailable, never> => ({
    principal: Effect.succeed(reader(payload.sub)),
    caller: Effect.suspend(() => callerOf(verifier, revocations, payload)),
    isInternal: true,
    ...(headers === undefined ? {} : { author: authorOf(headers) }),
    receive: (kind) => {
      const bytes = payload.body === undefined ? new Uint8Array() : bytesOf(payload.body)
      return Effect.mapError(
        Effect.all({
          body: payload.body === undefined ? kind.whenEmpty ?? Effect.fail(noBody) : decodeBytes(kind, bytes),
          key: keyOf(payload.idempotency_key, "POST", path, bytes)
        }),
        asInvalidRequest
      )
    }
  })
})
