/** The tokens with which the tasks of schedules run: fresh ones of their user, or the one that made a schedule that fires before it expires. */
import { Context, Effect, Layer, Option, Redacted, Schema } from "effect"
import { encode, fromJsonText } from "../../domain/json/OpaqueJson.ts"
import type { Caller } from "../../domain/Principal.ts"
import * as BearerTokens from "../core/BearerTokens.ts"
import { CoreTransport } from "../core/CoreClient.ts"
import * as Tracing from "../telemetry/Tracing.ts"
import { Secrets } from "../tokens/Secrets.ts"
import { TokenRevocations } from "../tokens/TokenRevocations.ts"
import { TokenVerifier } from "../tokens/TokenVerifier.ts"
import type { Schedule } from "./Schedule.ts"

/** No token can be obtained, whatever is tried. */
class TokenRefused extends Schema.TaggedError<TokenRefused>()("TokenRefused", { reason: Schema.String }) {}

/** No token can be obtained now. */
class TokenUnavailable extends Schema.TaggedError<TokenUnavailable>()("TokenUnavailable", { reason: Schema.String }) {}

type Failure = TokenRefused | TokenUnavailable

/** Obtains a token of a user. */
export type Source = (sub: string, scheduleId: string) => Effect.Effect<Redacted.Redacted, Failure>

export class RunTokens extends Context.Service<RunTokens, {
  /** Whether a fresh token can be obtained for any user at any time. */
  readonly isMinting: boolean
  /** A caller with a token that is valid now. */
  readonly callerFor: (
    schedule: Pick<Schedule, "id" | "sub" | "authorization">
  ) => Effect.Effect<Caller, Failure>
}>()("async-task-service/services/schedules/RunTokens") {
  static readonly layer = (source: Source | undefined) => Layer.effect(RunTokens, make(source))
}

const make = Effect.fnUntraced(function*(source: Source | undefined) {
  const verifier = yield* TokenVerifier
  const revocations = yield* TokenRevocations
  const secrets = yield* Secrets

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

  return RunTokens.of({
    isMinting: source !== undefined,
    callerFor: Effect.fnUntraced(function*({ authorization, id, sub }) {
      if (source !== undefined) return yield* check(yield* source(sub, id), sub)
      if (authorization.token === null) return yield* new TokenRefused({ reason: "TOKEN_URL is not set" })
      return yield* check(yield* secrets.open("user-token", authorization.token), sub)
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
      function*(sub, scheduleId) {
        const request = [encode(JSON.stringify({ sub, schedule_id: scheduleId }))]
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
