/** Finds the user of a token for the built-in backend, which has quotas and fairness per user. */
import { Effect, Redacted } from "effect"
import * as jose from "jose"
import type { TokenVerifier } from "../../../services/tokens/TokenVerifier.ts"

/** Finds the `sub` of a token; undefined when the token is not accepted. */
export type FindUser = (token: string) => Effect.Effect<string | undefined>

/** Does not verify tokens: only for calls within this process, whose tokens the service has verified. */
export const trusted: FindUser = (token) =>
  Effect.sync(() => {
    try {
      return jose.decodeJwt(token).sub ?? token
    } catch {
      return token
    }
  })

/** Verifies tokens by the service's rules, but does not check revocations: for a backend that is served alone. */
export const verified = (verifier: TokenVerifier["Service"]): FindUser => (token) =>
  verifier.verify(Redacted.make(token)).pipe(
    Effect.map(({ principal }) => principal.sub),
    Effect.tapError((error) =>
      Effect.logWarning("a user's token was refused: JWT_* has to be the same here and in the service", error)
    ),
    Effect.orElseSucceed(() => undefined)
  )
