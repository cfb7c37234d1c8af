/**
 * The keys of a JWKS URL, refreshed every minute, so that a withdrawn key is rejected within a minute. While the URL does
 * not respond, known keys stay valid for a day. Unknown keys cause at most one request per cooldown over all callers. Their tokens
 * are invalid while the last response was a key set; otherwise there is no verdict, because the next one may have the key.
 */
import { Cause, Clock, Duration, Effect, Fiber, Predicate, Result, Schema, Stream } from "effect"
import { HttpClient, HttpClientResponse } from "effect/http"
import * as jose from "jose"
import { encode } from "../../domain/json/OpaqueJson.ts"
import { read } from "../../domain/json/Reader.ts"
import * as BoundedBody from "../limits/BoundedBody.ts"
import { rootCauseMessage } from "../telemetry/RootCause.ts"
import * as Worker from "../timing/Worker.ts"

/** The token's key is unknown, and the JWKS cannot be fetched now. */
export class TokenKeysUnavailable extends Schema.TaggedError<TokenKeysUnavailable>()("TokenKeysUnavailable", {}) {}

export type Key = jose.CryptoKey | jose.KeyObject | Uint8Array

export interface TokenKeys {
  /** The keys that match a token header; empty when none does. */
  readonly find: (header: jose.JWSHeaderParameters) => Effect.Effect<ReadonlyArray<Key>, TokenKeysUnavailable>
  /** Changes when cached tokens must be verified again, because the keys changed or became stale. `at` is in milliseconds. */
  readonly generation: (at: number) => number
}

const refreshInterval = Duration.minutes(1)
/** After a failed request. */
const retryInterval = Duration.seconds(10)
/** Milliseconds. */
const staleAfter = 86_400_000
/** Minimum milliseconds between requests that unknown keys cause. */
const cooldown = 30_000
/** For the whole response. */
const timeout = Duration.seconds(5)

/** Parsing this many bytes of the most expensive JSON takes less than 30 ms. */
const maxBytes = 512 * 1024
const maxKeys = 100
/** Characters of one key as JSON, certificates included. */
const maxKeyLength = 16_384
/** Characters in base64url of 8192 and of 64 bits. Verification with a larger RSA key would be slow. */
const maxModulusLength = 1366
const maxExponentLength = 11

type KeySet = ReturnType<typeof jose.createLocalJWKSet>

interface Known {
  readonly keys: KeySet
  readonly text: string
  readonly fetchedAt: number
  readonly generation: number
}

/** The response is not a JWKS or has too many keys. */
class UnusableKeySet extends Schema.TaggedError<UnusableKeySet>()("UnusableKeySet", { message: Schema.String }) {}

const fits = (part: unknown, maxLength: number) => !Predicate.isString(part) || part.length <= maxLength

const isUsable = (key: unknown) =>
  Predicate.isObject(key) && JSON.stringify(key).length <= maxKeyLength &&
  fits(key["n"], maxModulusLength) && fits(key["e"], maxExponentLength)

/** Returns the usable keys of a set and skips keys that are broken or too large. */
const parse = (text: string): Result.Result<{ readonly keys: Array<jose.JWK> }, UnusableKeySet> => {
  const body: unknown = Result.getOrUndefined(read(encode(text)))
  const keys: unknown = Predicate.isObject(body) ? body["keys"] : undefined
  if (!Array.isArray(keys)) return Result.fail(new UnusableKeySet({ message: "The response is not a JWKS" }))
  if (keys.length > maxKeys) {
    return Result.fail(new UnusableKeySet({ message: `The JWKS has more than ${maxKeys} keys` }))
  }
  return Result.succeed({ keys: keys.filter(isUsable) })
}

/** Returns several keys when the header is ambiguous. */
const matching = (keys: KeySet, header: jose.JWSHeaderParameters): Effect.Effect<ReadonlyArray<Key>> =>
  Effect.tryPromise(() => keys(header)).pipe(
    Effect.map((key) => [key]),
    Effect.catch(({ cause }) =>
      cause instanceof jose.errors.JWKSMultipleMatchingKeys
        ? Effect.orDie(Stream.runCollect(Stream.fromAsyncIterable(cause, () => cause)))
        : Effect.succeed([])
    )
  )

/** The key set of a URL, while it is trusted. */
const makeCache = Effect.fnUntraced(function*(url: string) {
  const http = yield* HttpClient.HttpClient
  const scope = yield* Effect.scope
  let known: Known | undefined
  let fetching: Fiber.Fiber<boolean> | undefined
  let hasResponded = false

  const fetchKeys = HttpClient.withScope(http).get(url).pipe(
    Effect.flatMap(HttpClientResponse.filterStatusOk),
    Effect.flatMap((response) => BoundedBody.readText(response, maxBytes)),
    Effect.flatMap((text) => Effect.fromResult(parse(text))),
    Effect.timeout(timeout),
    Effect.scoped
  )

  /** Returns whether the URL responded with a usable set. */
  const refresh = Effect.gen(function*() {
    const fetchedAt = yield* Clock.currentTimeMillis
    const set = yield* fetchKeys
    const text = JSON.stringify(set)
    known = known?.text === text
      ? { ...known, fetchedAt }
      : { keys: jose.createLocalJWKSet(set), text, fetchedAt, generation: (known?.generation ?? 0) + 1 }
    return true
  }).pipe(
    Effect.catchCause((cause) =>
      Effect.as(
        Effect.logWarning(`JWT_JWKS_URL: the keys cannot be fetched: ${rootCauseMessage(Cause.squash(cause))}`),
        false
      )
    ),
    Effect.tap((isDone) => Effect.sync(() => hasResponded = isDone)),
    Effect.ensuring(Effect.sync(() => fetching = undefined))
  )

  /** Joins the request in flight or starts one. The request continues when its caller is interrupted. */
  const refreshed = Effect.suspend(() =>
    fetching === undefined
      ? Effect.flatMap(Effect.forkIn(refresh, scope), (fiber) => {
        fetching = fiber
        return Fiber.join(fiber)
      })
      : Fiber.join(fetching)
  )

  /** The keys that are trusted at a moment in milliseconds. */
  const trusted = (at: number) => known !== undefined && at - known.fetchedAt < staleAfter ? known : undefined

  return { isFetching: () => fetching !== undefined, hasResponded: () => hasResponded, refreshed, trusted }
})

export const make = Effect.fnUntraced(function*(url: string) {
  const { hasResponded, isFetching, refreshed, trusted } = yield* makeCache(url)
  let lookedUpAt = Number.NEGATIVE_INFINITY

  const findKnown = Effect.fnUntraced(function*(header: jose.JWSHeaderParameters) {
    const present = trusted(yield* Clock.currentTimeMillis)
    return present === undefined ? [] : yield* matching(present.keys, header)
  })

  const find: TokenKeys["find"] = Effect.fnUntraced(function*(header) {
    const found = yield* findKnown(header)
    if (found.length > 0) return found
    if (isFetching()) {
      yield* refreshed
      const foundNow = yield* findKnown(header)
      if (foundNow.length > 0) return foundNow
    }
    const now = yield* Clock.currentTimeMillis
    if (now - lookedUpAt >= cooldown) {
      lookedUpAt = now
      yield* refreshed
    }
    return hasResponded() ? yield* findKnown(header) : yield* new TokenKeysUnavailable({})
  })

  let isFresh = false
  yield* Worker.make({
    name: "the refresh of the JWKS",
    runOnce: Effect.map(refreshed, (isDone) => void (isFresh = isDone)),
    interval: Effect.sync(() => isFresh ? refreshInterval : retryInterval)
  })

  const keys: TokenKeys = { find, generation: (at) => trusted(at)?.generation ?? 0 }
  return keys
})
