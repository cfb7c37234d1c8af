/** The checks behind `contract/Middleware`. */
import { Effect, Layer, Redacted } from "effect"
import { InvalidToken, TokenVerifier } from "../../services/TokenVerifier.ts"
import { ServiceUnavailable, Unauthorized } from "../contract/Errors.ts"
import { Authorization, CurrentCaller, InternalAuthorization } from "../contract/Middleware.ts"

export const unauthorized = new Unauthorized({ message: "The token is missing, invalid, expired or revoked." })

export const layerUsers = Layer.effect(
  Authorization,
  Effect.gen(function*() {
    const verifier = yield* TokenVerifier
    return Authorization.of({
      jwt: (handler, { credential }) =>
        verifier.verify(credential).pipe(
          Effect.mapError((error) =>
            error instanceof InvalidToken
              ? unauthorized
              : new ServiceUnavailable({ message: "Tokens cannot be checked at the moment. Try again soon." })
          ),
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

/** Whether a credential is one of the tokens that hold at present; more than one, so that they can be rotated. */
export const isOneOf = (tokens: ReadonlyArray<Redacted.Redacted>, credential: string): boolean =>
  tokens.some((token) => isSame(Redacted.value(token), credential))

export const layerInternal = (tokens: ReadonlyArray<Redacted.Redacted>) =>
  Layer.succeed(
    InternalAuthorization,
    InternalAuthorization.of({
      internalToken: (handler, { credential }) =>
        isOneOf(tokens, Redacted.value(credential)) ? handler : Effect.fail(unauthorized)
    })
  )
