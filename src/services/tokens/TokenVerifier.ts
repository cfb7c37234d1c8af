/** Verifies bearer tokens (JWT, with jose). The kind of the key pins the accepted algorithms. */
import { Clock, Context, DateTime, Effect, Layer, Predicate, Redacted, Schema } from "effect"
import { Digest } from "effect/crypto"
import * as jose from "jose"
import { type Caller, isName } from "../../domain/Principal.ts"
import { maxSeconds } from "../../domain/Timestamp.ts"
import * as JwksKeys from "./JwksKeys.ts"

/** The token is malformed, expired or not signed by the issuer. */
export class InvalidToken extends Schema.TaggedError<InvalidToken>()("InvalidToken", { reason: Schema.String }) {}

export interface TokenRules {
  /** Keys with the algorithms that each allows, or a JWKS URL. */
  readonly keys: ReadonlyArray<{ readonly key: JwksKeys.Key; readonly algorithms: ReadonlyArray<string> }> | URL
  readonly algorithms: ReadonlyArray<string>
  readonly issuer: string | undefined
  readonly audience: string | undefined
}

const maxTokenLength = 8192
const cacheSize = 10_000

/** Seconds that an issuer's clock may be ahead of ours. The tolerance does not extend `exp`. */
const maxSkew = 60

const isMoment = (seconds: unknown): seconds is number =>
  Predicate.isNumber(seconds) && seconds >= 0 && seconds <= maxSeconds

/** The claim that makes a token invalid regardless of its signature; undefined when all are valid. */
const refusedClaim = ({ exp, iat, jti, sub }: jose.JWTPayload, nowSeconds: number): string | undefined => {
  if (!isName(sub)) return "sub"
  if (jti !== undefined && !isName(jti)) return "jti"
  // Reject a future `iat`: it would escape the revocation of all tokens issued before now.
  if (iat !== undefined && !(isMoment(iat) && iat <= nowSeconds + maxSkew)) return "iat"
  return isMoment(exp) && exp > nowSeconds ? undefined : "exp"
}

/** The `Principal.tokenId` of a token with this `jti`. */
export const idOfJti = (jti: string): string => `jti:${jti}`

const invalid = (error: unknown) =>
  new InvalidToken({ reason: error instanceof jose.errors.JOSEError ? error.code : "malformed" })

const encoder = new TextEncoder()

/** Reads header and claims without verifying the signature. */
const read = (token: Redacted.Redacted) => {
  const text = Redacted.value(token)
  return text.length > maxTokenLength
    ? Effect.fail(new InvalidToken({ reason: "too long" }))
    : Effect.try({
      try: () => ({ text, header: jose.decodeProtectedHeader(text), claims: jose.decodeJwt(text) }),
      catch: invalid
    })
}

const idOf = (digest: Digest.Digest["Service"], token: string, jti: string | undefined) =>
  jti !== undefined
    ? Effect.succeed(idOfJti(jti))
    : Effect.map(
      digest.digestHex(Digest.sha256, encoder.encode(token.slice(0, token.lastIndexOf(".")))),
      (hash) => `sha256:${hash}`
    )

/** Verifies tokens that are not cached. Checks everything that needs no key before it looks up the key. */
const verifierOf = ({ algorithms, audience, issuer }: TokenRules, keys: JwksKeys.TokenKeys) => {
  const options: Omit<jose.JWTVerifyOptions, "currentDate"> = {
    algorithms: [...algorithms],
    requiredClaims: ["exp", "sub"],
    clockTolerance: maxSkew,
    ...(issuer === undefined ? {} : { issuer }),
    ...(audience === undefined ? {} : { audience })
  }
  return Effect.fnUntraced(function*(token: Redacted.Redacted) {
    const { claims, header, text } = yield* read(token)
    const now = yield* DateTime.now
    if (!algorithms.includes(header.alg ?? "")) return yield* new InvalidToken({ reason: "alg" })
    if (header.kid !== undefined && !isName(header.kid)) return yield* new InvalidToken({ reason: "kid" })
    const reason = refusedClaim(claims, now.epochMilliseconds / 1000)
    if (reason !== undefined) return yield* new InvalidToken({ reason })
    const currentDate = DateTime.toDate(now)
    const attempts = (yield* keys.find(header)).map((candidate) =>
      Effect.tryPromise({ try: () => jose.jwtVerify(text, candidate, { ...options, currentDate }), catch: invalid })
    )
    return (yield* Effect.firstSuccessOf([Effect.fail(new InvalidToken({ reason: "no key" })), ...attempts])).payload
  })
}

export class TokenVerifier extends Context.Service<TokenVerifier, {
  readonly verify: (token: Redacted.Redacted) => Effect.Effect<Caller, InvalidToken | JwksKeys.TokenKeysUnavailable>
  /** Reads the claims that identify a token for its revocation, without verifying signature or expiry. */
  readonly identify: (
    token: Redacted.Redacted
  ) => Effect.Effect<{
    readonly tokenId: string
    readonly sub: string | null
    readonly issuedAt: number | null
    readonly expiresAt: number | null
  }, InvalidToken>
}>()("async-task-service/services/tokens/TokenVerifier") {
  static readonly layer = (rules: TokenRules) =>
    Layer.effect(
      TokenVerifier,
      Effect.gen(function*() {
        const digest = yield* Digest.Digest
        /** Verified tokens until they expire or the keys change, oldest use first. */
        const cache = new Map<string, Caller>()
        let cachedGeneration = 0
        const { keys: given } = rules
        const keys: JwksKeys.TokenKeys = given instanceof URL
          ? yield* JwksKeys.make(given.href)
          : {
            find: ({ alg = "" }) =>
              Effect.succeed(given.filter(({ algorithms }) => algorithms.includes(alg)).map(({ key }) => key)),
            generation: () => 0
          }
        const verifySignature = verifierOf(rules, keys)

        const identify = Effect.fnUntraced(function*(token: Redacted.Redacted) {
          const { claims: { exp, iat, jti, sub }, text } = yield* read(token)
          if (jti !== undefined && !isName(jti)) return yield* new InvalidToken({ reason: "jti" })
          return {
            tokenId: yield* idOf(digest, text, jti),
            sub: isName(sub) ? sub : null,
            issuedAt: isMoment(iat) ? iat : null,
            expiresAt: isMoment(exp) ? exp : null
          }
        })

        /** A cached caller whose token is still valid becomes the newest of the cache. */
        const recall = (text: string, generation: number, nowSeconds: number): Caller | undefined => {
          if (generation !== cachedGeneration) cache.clear()
          cachedGeneration = generation
          const known = cache.get(text)
          if (known === undefined) return undefined
          cache.delete(text)
          if (known.expiresAt <= nowSeconds) return undefined
          cache.set(text, known)
          return known
        }

        const verifyNew = Effect.fnUntraced(function*(token: Redacted.Redacted, generation: number) {
          const text = Redacted.value(token)
          const { exp = 0, iat = null, jti, sub = "" } = yield* verifySignature(token)
          const principal = { sub, tokenId: yield* idOf(digest, text, jti), issuedAt: iat }
          const caller: Caller = { principal, token, expiresAt: exp }
          // The keys may have changed while the signature was verified.
          if (keys.generation(yield* Clock.currentTimeMillis) === generation) cache.set(text, caller)
          if (cache.size > cacheSize) cache.delete(cache.keys().next().value ?? "")
          return caller
        })

        const verify = (token: Redacted.Redacted) =>
          Clock.clockWith((clock) => {
            const at = clock.currentTimeMillisUnsafe()
            const generation = keys.generation(at)
            const known = recall(Redacted.value(token), generation, at / 1000)
            return known === undefined ? verifyNew(token, generation) : Effect.succeed(known)
          })

        return TokenVerifier.of({ verify, identify })
      })
    ).pipe(Layer.provide(Digest.layerWebCrypto))
}
