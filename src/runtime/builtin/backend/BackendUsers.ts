/** Who a token belongs to, as the built-in backend sees it: quotas and fairness are by user. */
import { Effect, Redacted } from "effect"
import * as jose from "jose"
import type { TokenVerifier } from "../../../services/tokens/TokenVerifier.ts"

/** Finds the `sub` of a token; undefined when the token is not accepted. */
export type FindUser = (token: string) => Effect.Effect<string | undefined>

/** For calls of this process alone, whose tokens the service has verified. */
export const trusted: FindUser = (token) =>
  Effect.sync(() => {
    try {
      return jose.decodeJwt(token).sub ?? token
    } catch {
      return token
    }
  })

/** For a backend on a port of its own: the service's rules apply there too, except that it knows no revocations. */
export const verified = (verifier: TokenVerifier["Service"]): FindUser => (token) =>
  verifier.verify(Redacted.make(token)).pipe(
    Effect.map(({ principal }) => principal.sub),
    Effect.tapError((error) =>
      Effect.logWarning("a user's token was refused: JWT_* has to be the same here and in the service", error)
    ),
    Effect.orElseSucceed(() => undefined)
  )
