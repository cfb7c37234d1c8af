/**
 * The keys of a JWKS URL. In an outage of the URL the keys that are known serve on for a day; a key that is not known costs
 * one request per cooldown, whoever asks for it, and while the URL does not answer nothing is said of it.
 */
import { Clock, Duration, Effect, Schema, Semaphore, Stream } from "effect"
import { HttpClient, HttpClientResponse } from "effect/http"
import * as jose from "jose"

/** The keys cannot be had now, so that nothing can be said of a token. */
export class TokenKeysUnavailable extends Schema.TaggedError<TokenKeysUnavailable>()("TokenKeysUnavailable", {}) {}

export type Key = jose.CryptoKey | jose.KeyObject | Uint8Array

/** The keys that may have signed a token with this header; none when it is not one of ours. */
export type FindKeys = (header: jose.JWSHeaderParameters) => Effect.Effect<ReadonlyArray<Key>, TokenKeysUnavailable>

/** Milliseconds. */
const refreshAfter = 600_000
const staleAfter = 86_400_000
const cooldown = 30_000
const timeout = Duration.seconds(5)

type KeySet = ReturnType<typeof jose.createLocalJWKSet>

/** Several when the header does not tell them apart. */
const matching = (keys: KeySet, header: jose.JWSHeaderParameters): Effect.Effect<ReadonlyArray<Key>> =>
  Effect.tryPromise(() => keys(header)).pipe(
    Effect.map((key) => [key]),
    Effect.catch(({ cause }) =>
      cause instanceof jose.errors.JWKSMultipleMatchingKeys
        ? Effect.orDie(Stream.runCollect(Stream.fromAsyncIterable(cause, () => cause)))
        : Effect.succeed([])
    )
  )

export const make = Effect.fnUntraced(function*(url: string) {
  const http = yield* HttpClient.HttpClient
  const scope = yield* Effect.scope
  const turn = yield* Semaphore.make(1)
  let known: { readonly keys: KeySet; readonly at: number } | undefined
  let triedAt = Number.NEGATIVE_INFINITY

  const fetchKeys = http.get(url).pipe(
    Effect.flatMap(HttpClientResponse.filterStatusOk),
    Effect.flatMap(({ json }) => json),
    Effect.flatMap((body) => Effect.try(() => jose.createLocalJWKSet(body as unknown as jose.JSONWebKeySet))),
    Effect.timeout(timeout)
  )

  /** Asks at most once per cooldown; after a failure `known` is as it was, and older than `triedAt`. */
  const refresh = turn.withPermits(1)(Effect.gen(function*() {
    const now = yield* Clock.currentTimeMillis
    if (now - triedAt < cooldown) return
    triedAt = now
    known = { keys: yield* fetchKeys, at: now }
  })).pipe(Effect.catch((error) => Effect.logWarning("the JWKS URL does not answer as it should", error)))

  const find: FindKeys = Effect.fnUntraced(function*(header) {
    const now = yield* Clock.currentTimeMillis
    if (known !== undefined && now - known.at < staleAfter) {
      if (now - known.at > refreshAfter) yield* Effect.forkIn(refresh, scope)
      const found = yield* matching(known.keys, header)
      if (found.length > 0) return found
    }
    yield* refresh
    if (known === undefined || known.at < triedAt) return yield* new TokenKeysUnavailable({})
    return yield* matching(known.keys, header)
  })
  return find
})
