/** The checks behind `contract/Middleware`. */
import { Effect, Layer, Redacted } from "effect"
import type { TokenKeysUnavailable } from "../../services/RemoteKeys.ts"
import { type RevocationsUnknown, TokenIsRevoked, TokenRevocations } from "../../services/TokenRevocations.ts"
import { InvalidToken, TokenVerifier } from "../../services/TokenVerifier.ts"
import { ServiceUnavailable, Unauthorized } from "../contract/Errors.ts"
import { Authorization, CurrentCaller, InternalAuthorization } from "../contract/Middleware.ts"

export const unauthorized = new Unauthorized({ message: "The token is missing, invalid, expired or revoked." })

/** What a token that was not taken is answered. */
export const refusal = (error: InvalidToken | TokenIsRevoked | TokenKeysUnavailable | RevocationsUnknown) =>
  error instanceof InvalidToken || error instanceof TokenIsRevoked
    ? unauthorized
    : new ServiceUnavailable({ message: "Tokens cannot be checked at the moment. Try again soon." })

export const layerUsers = Layer.effect(
  Authorization,
  Effect.gen(function*() {
    const verifier = yield* TokenVerifier
    const revocations = yield* TokenRevocations
    return Authorization.of({
      jwt: (handler, { credential }) =>
        verifier.verify(credential).pipe(
          Effect.tap(({ principal }) => revocations.check(principal)),
          Effect.mapError(refusal),
          Effect.flatMap((caller) => Effect.provideService(handler, CurrentCaller, caller))
        )
    })
  })
)

/** Compares without telling by its time where two texts differ. */
const isSame = (a: string, b: string): boolean => {
  let difference = a.length ^ b.length
  for (let i = 0; i < a.length; i++) difference |= a.charCodeAt(i) ^ b.charCodeAt(i % (b.length || 1))
  return difference === 0
}

export const layerInternal = (tokens: ReadonlyArray<Redacted.Redacted>) =>
  Layer.succeed(
    InternalAuthorization,
    InternalAuthorization.of({
      internalToken: (handler, { credential }) =>
        tokens.some((token) => isSame(Redacted.value(token), Redacted.value(credential)))
          ? handler
          : Effect.fail(unauthorized)
    })
  )
