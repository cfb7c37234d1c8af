/** Implements the authentication of `contract/Middleware`. */
import { Clock, Context, Duration, Effect, Function, Layer, Redacted } from "effect"
import { Mac } from "effect/crypto"
import type { HttpServerRequest } from "effect/http"
import type { Caller } from "../../domain/Principal.ts"
import type { TokenKeysUnavailable } from "../../services/tokens/JwksKeys.ts"
import { type RevocationsUnknown, TokenIsRevoked, TokenRevocations } from "../../services/tokens/TokenRevocations.ts"
import { InvalidToken, TokenVerifier } from "../../services/tokens/TokenVerifier.ts"
import { WrongTokens } from "../../services/tokens/WrongTokens.ts"
import { ServiceUnavailable, Unauthorized } from "../contract/Errors.ts"
import {
  Authorization,
  CoreAuthorization,
  CurrentCaller,
  InternalAuthorization,
  InternalTokenName,
  MetricsAuthorization
} from "../contract/Middleware.ts"
import { CurrentToken } from "./CurrentToken.ts"

const longestSleep = Duration.toMillis(Duration.days(1))

const message = "The token is missing, invalid, expired or revoked."

export const unauthorized = new Unauthorized({ message })

const notAJwt = "Send it as `Authorization: Bearer <JWT>`."

/** The remedy for each reason why a token is invalid. */
const ways: Readonly<Record<string, string>> = {
  malformed: notAJwt,
  ERR_JWT_INVALID: notAJwt,
  ERR_JWS_INVALID: notAJwt,
  sub: "`sub` is required: the user, 1 to 255 characters.",
  exp: "`exp` is required: a later moment in seconds since 1970.",
  iat: "`iat` is not a past moment in seconds since 1970.",
  alg: "The algorithm does not fit the service's key.",
  "no key": "The service has no key of this `kid`.",
  ERR_JWS_SIGNATURE_VERIFICATION_FAILED: "The signature does not match the service's key.",
  ERR_JWT_CLAIM_VALIDATION_FAILED: "`iss`, `aud` or `nbf` does not fit the service's settings and clock."
}

const refusals: ReadonlyMap<string, Unauthorized> = new Map(
  Object.entries(ways).map(([reason, way]) => [reason, new Unauthorized({ message: `${message} ${way}` })])
)

/** The response to a token that is refused or cannot be checked. */
export const refusal = (error: InvalidToken | TokenIsRevoked | TokenKeysUnavailable | RevocationsUnknown) =>
  error instanceof InvalidToken
    ? refusals.get(error.reason) ?? unauthorized
    : error instanceof TokenIsRevoked
    ? unauthorized
    : new ServiceUnavailable({
      message: "Tokens cannot be checked at the moment. Try again soon.",
      code: "tokens_unavailable"
    })

/** Completes when the token expires. Sleeps in steps, because a timer holds at most 24.8 days. */
const expiry = ({ expiresAt }: Pick<Caller, "expiresAt">): Effect.Effect<void> =>
  Effect.flatMap(Clock.currentTimeMillis, (now) => {
    const left = expiresAt * 1000 - now
    if (left <= 0) return Effect.void
    return Effect.andThen(Effect.sleep(Math.min(left, longestSleep)), expiry({ expiresAt }))
  })

/** Returns a function that runs a handler with the user of a credential. */
export const makeAuthenticate = Effect.gen(function*() {
  const verifier = yield* TokenVerifier
  const revocations = yield* TokenRevocations
  return <A, E, R>(handler: Effect.Effect<A, E, R>, credential: Redacted.Redacted) => {
    const verified = verifier.verify(credential).pipe(
      Effect.tap(({ principal }) => revocations.check(principal)),
      Effect.mapError(refusal)
    )
    return Effect.flatMap(verified, (caller) =>
      handler.pipe(
        Effect.provideService(CurrentCaller, caller),
        Effect.provideService(CurrentToken, {
          holder: caller.principal.sub,
          check: Effect.asVoid(verified),
          ended: Effect.suspend(() => Effect.raceFirst(expiry(caller), revocations.awaitRevoked(caller.principal)))
        })
      ))
  }
})

export const layerUsers = Layer.effect(
  Authorization,
  Effect.map(
    makeAuthenticate,
    (authenticate) => Authorization.of({ jwt: (handler, { credential }) => authenticate(handler, credential) })
  )
)

/** The token in the `Authorization` header; empty without one. */
export const bearerOf = ({ headers }: Pick<HttpServerRequest.HttpServerRequest, "headers">): string =>
  /^bearer +(.+)$/i.exec(headers["authorization"] ?? "")?.[1] ?? ""

const encoder = new TextEncoder()

/** Each event of the core is compared with its tokens. */
const bytesOf = Function.memoize((tokens: ReadonlyArray<Redacted.Redacted>) =>
  tokens.map((token) => encoder.encode(Redacted.value(token)))
)

/** The place of a credential among the tokens, of which there may be several, so that they can be rotated; -1 if it is none. */
export const indexIn = (tokens: ReadonlyArray<Redacted.Redacted>, credential: string): number => {
  const given = encoder.encode(credential)
  return bytesOf(tokens).findIndex((token) => Mac.timingSafeEqual(token, given))
}

/** True if a credential is one of the tokens. */
export const isOneOf = (tokens: ReadonlyArray<Redacted.Redacted>, credential: string): boolean =>
  indexIn(tokens, credential) >= 0

/** The tokens of other services. */
export interface ServiceTokens {
  /** Accepted on the whole internal interface but the events of runs. */
  readonly internalTokens: ReadonlyArray<Redacted.Redacted>
  /** The name of each of them. */
  readonly internalTokenNames: ReadonlyArray<string>
  /** Accepted for the events of runs and nothing else. */
  readonly coreEventTokens: ReadonlyArray<Redacted.Redacted>
  /** Accepted for the metrics, in addition to the internal ones. */
  readonly readTokens: ReadonlyArray<Redacted.Redacted>
}

/** Fails with 401. A token that was given counts as a wrong one. */
export const makeRefuse = Effect.map(
  WrongTokens,
  ({ count }) => (credential: string, refused: Unauthorized = unauthorized) =>
    Effect.andThen(credential === "" ? Effect.void : count, Effect.fail(refused))
)

export const layerInternal = ({ coreEventTokens, internalTokenNames, internalTokens, readTokens }: ServiceTokens) =>
  Layer.effectContext(Effect.map(makeRefuse, (refuse) => {
    const only = (tokens: ReadonlyArray<Redacted.Redacted>, way: string) => {
      const refused = new Unauthorized({ message: `${message} ${way}` })
      return <A, E, R>(handler: Effect.Effect<A, E, R>, { credential }: { readonly credential: Redacted.Redacted }) =>
        isOneOf(tokens, Redacted.value(credential)) ? handler : refuse(Redacted.value(credential), refused)
    }
    const notInternal = new Unauthorized({ message: `${message} Send one of \`INTERNAL_TOKENS\`.` })
    const internal = <A, E, R>(
      handler: Effect.Effect<A, E, R | InternalTokenName>,
      { credential }: { readonly credential: Redacted.Redacted }
    ) => {
      const name = internalTokenNames[indexIn(internalTokens, Redacted.value(credential))]
      return name === undefined
        ? refuse(Redacted.value(credential), notInternal)
        : Effect.provideService(handler, InternalTokenName, name)
    }
    const ofCore = only(
      coreEventTokens,
      "Send one of `CORE_EVENT_TOKENS`, or of `INTERNAL_TOKENS` if these are not set."
    )
    const ofMetrics = only(
      [...internalTokens, ...readTokens],
      "Send one of `OPERATOR_READ_TOKENS` or of `INTERNAL_TOKENS`."
    )
    return Context.make(InternalAuthorization, { internalToken: internal }).pipe(
      Context.add(CoreAuthorization, { coreEventToken: ofCore }),
      Context.add(MetricsAuthorization, { metricsToken: ofMetrics })
    )
  })).pipe(Layer.provide(WrongTokens.layer))
