/** Fresh tokens of users, for tasks that nobody asks for at the moment: of the service at `TOKEN_URL`, or minted by an embedded service. */
import { Context, Effect, Layer, Option, Redacted, Schema } from "effect"
import { encode, fromJsonText } from "../../domain/json/OpaqueJson.ts"
import type { Caller } from "../../domain/Principal.ts"
import * as BearerTokens from "../core/BearerTokens.ts"
import { CoreTransport } from "../core/CoreClient.ts"
import * as Tracing from "../telemetry/Tracing.ts"
import { TokenRevocations } from "../tokens/TokenRevocations.ts"
import { TokenVerifier } from "../tokens/TokenVerifier.ts"

/** No token can be obtained, whatever is tried. */
export class TokenRefused extends Schema.TaggedError<TokenRefused>()("TokenRefused", { reason: Schema.String }) {}

/** No token can be obtained now. */
class TokenUnavailable extends Schema.TaggedError<TokenUnavailable>()("TokenUnavailable", { reason: Schema.String }) {}

export type TokenFailure = TokenRefused | TokenUnavailable

/** The purpose of a token, as its issuer learns it: `schedule_id` or `bulk_id`. */
export type Purpose = Readonly<Record<string, string>>

/** Obtains a token of a user. */
export type Source = (sub: string, purpose: Purpose) => Effect.Effect<Redacted.Redacted, TokenFailure>

export class UserTokens extends Context.Service<UserTokens, {
  /** Whether a fresh token can be obtained for any user at any time. */
  readonly isMinting: boolean
  /** A caller with a fresh token. */
  readonly callerFor: (sub: string, purpose: Purpose) => Effect.Effect<Caller, TokenFailure>
  /** The caller of a token that is valid now, and of this user. */
  readonly check: (token: Redacted.Redacted, sub: string) => Effect.Effect<Caller, TokenFailure>
}>()("async-task-service/services/tasks/UserTokens") {
  static readonly layer = (source: Source | undefined) => Layer.effect(UserTokens, make(source))
}

const make = Effect.fnUntraced(function*(source: Source | undefined) {
  const verifier = yield* TokenVerifier
  const revocations = yield* TokenRevocations

  const check = Effect.fnUntraced(function*(token: Redacted.Redacted, sub: string) {
    const caller = yield* Effect.catchTags(verifier.verify(token), {
      InvalidToken: ({ reason }) => new TokenRefused({ reason: `the token is not valid (${reason})` }),
      TokenKeysUnavailable: () => new TokenUnavailable({ reason: "the keys of tokens cannot be fetched" })
    })
    if (caller.principal.sub !== sub) return yield* new TokenRefused({ reason: "the token is of another user" })
    yield* Effect.catchTags(revocations.check(caller.principal), {
      TokenIsRevoked: () => new TokenRefused({ reason: "the token is revoked" }),
      RevocationsUnknown: () => new TokenUnavailable({ reason: "the revocations of tokens are unknown" })
    })
    return caller
  })

  return UserTokens.of({
    isMinting: source !== undefined,
    check,
    callerFor: Effect.fnUntraced(function*(sub, purpose) {
      if (source === undefined) return yield* new TokenRefused({ reason: "TOKEN_URL is not set" })
      return yield* check(yield* source(sub, purpose), sub)
    })
  })
})

const timeout = "5 seconds"

const decodeToken = Schema.decodeUnknownOption(fromJsonText(Schema.Struct({ token: Schema.NonEmptyString })))

const isFinal = (status: number) => status >= 400 && status < 500 && status !== 408 && status !== 429

/** Asks the service at `TOKEN_URL`. */
export const fromUrl = (url: string, bearers: ReadonlyArray<Redacted.Redacted>) =>
  Effect.map(CoreTransport, ({ post }): Source => {
    const withToken = BearerTokens.make(bearers)
    return Effect.fnUntraced(
      function*(sub, purpose) {
        const request = [encode(JSON.stringify({ sub, ...purpose }))]
        const { body = "", status } = yield* withToken((headers) =>
          Effect.flatMap(Tracing.propagate(headers), (traced) => post(url, traced, request))
        )
        if (isFinal(status)) return yield* new TokenRefused({ reason: `TOKEN_URL answered ${status}` })
        if (status < 200 || status >= 300) {
          return yield* new TokenUnavailable({ reason: `TOKEN_URL answered ${status}` })
        }
        return yield* Option.match(decodeToken(body), {
          onNone: () => new TokenUnavailable({ reason: "TOKEN_URL did not answer {\"token\": \"…\"}" }),
          onSome: ({ token }) => Effect.succeed(Redacted.make(token))
        })
      },
      Effect.timeoutOrElse({
        duration: timeout,
        orElse: () => Effect.fail(new TokenUnavailable({ reason: `TOKEN_URL did not answer within ${timeout}` }))
      }),
      Effect.catchTag(
        "CoreUnavailable",
        () => Effect.fail(new TokenUnavailable({ reason: "TOKEN_URL cannot be reached" }))
      )
    )
  })
