/** The user of a call of the internal interface, checked as strictly as the claims of a token. */
import { Effect, Redacted } from "effect"
import { Digest } from "effect/crypto"
import { Headers } from "effect/http"
import { type Caller, isName, type Principal } from "../../../domain/Principal.ts"
import { StoreUnavailable } from "../../../domain/StoreUnavailable.ts"
import type { TokenRevocations } from "../../../services/tokens/TokenRevocations.ts"
import type { TokenVerifier } from "../../../services/tokens/TokenVerifier.ts"
import * as Errors from "../../contract/Errors.ts"
import { InvalidRequest, Unavailable } from "../../contract/rpc/RpcErrors.ts"
import { type BodyKind, bytesOf, decodeBytes } from "../body/JsonBody.ts"
import { fingerprintOf } from "../Fingerprint.ts"
import * as IdempotencyKey from "../IdempotencyKey.ts"
import type { Query } from "../Query.ts"

const callerHeader = "x-caller"

/** Headers that tell a handler whose token a call has. */
export const headersOf = (caller: string) => Headers.fromRecordUnsafe({ [callerHeader]: caller })

/** Who changes a task or revokes a token by a call. */
export const actorOf = (headers: Headers.Headers) => `rpc:${headers[callerHeader] ?? ""}`

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

const isOther = <E>(error: E): error is Exclude<E, StoreUnavailable> => !(error instanceof StoreUnavailable)

const unavailable = new Unavailable({ message: new StoreUnavailable({ cause: undefined }).message })

/** Refuses a call that needs the store during its outage. */
export const refuseOutage = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.mapError(effect, (error) => isOther(error) ? error : unavailable)

/** A limit refuses a create. */
export const refusedCreates = {
  CreateRefused: ({ message }: { readonly message: string }) => Effect.fail(invalid("body", message))
}

/** Returns a function that returns the same key as REST for the same header, path and body. */
export const makeKeyOf = Effect.map(
  Digest.Digest,
  (digest) =>
    Effect.fnUntraced(function*(key: string | undefined, path: string, body: Uint8Array) {
      if (key === undefined) return undefined
      const fingerprint = yield* fingerprintOf(digest, IdempotencyKey.operationOf("POST", path), body)
      return yield* Effect.mapError(IdempotencyKey.keyOf(key, fingerprint), asInvalidRequest)
    })
)

export const tokensUnknown = new Unavailable({ message: "Tokens cannot be checked at the moment. Try again soon." })

/** A user without a known token: only revocations of all tokens of the user apply. */
const principalOf = (sub: string): Principal => ({ sub, tokenId: "internal", issuedAt: null })

/** The principal for reads. The name is not checked: a name that no token can have owns no tasks. */
export const reader = (sub: string): Principal => principalOf(sub)

export const principal = (sub: string) =>
  isName(sub) ? Effect.succeed(principalOf(sub)) : Effect.fail(invalid("sub", "Expected a user's name"))

/** The user with the token that the core receives; a token of another user is refused. */
export const caller = Effect.fnUntraced(function*(
  { revocations, verifier }: {
    readonly verifier: TokenVerifier["Service"]
    readonly revocations: TokenRevocations["Service"]
  },
  { sub, user_token }: { readonly sub: string; readonly user_token?: string }
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
