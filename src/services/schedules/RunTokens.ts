/** The tokens with which the tasks of schedules run: fresh ones of their user, or the one that made a schedule that fires before it expires. */
import { Context, Effect, Layer } from "effect"
import type { Caller } from "../../domain/Principal.ts"
import { type TokenFailure, TokenRefused, UserTokens } from "../tasks/UserTokens.ts"
import { Secrets } from "../tokens/Secrets.ts"
import type { Schedule } from "./Schedule.ts"

export class RunTokens extends Context.Service<RunTokens, {
  /** Whether a fresh token can be obtained for any user at any time. */
  readonly isMinting: boolean
  /** A caller with a token that is valid now. */
  readonly callerFor: (
    schedule: Pick<Schedule, "id" | "sub" | "authorization">
  ) => Effect.Effect<Caller, TokenFailure>
}>()("async-task-service/services/schedules/RunTokens") {
  static readonly layer = Layer.effect(RunTokens, Effect.suspend(() => make))
}

const make = Effect.gen(function*() {
  const tokens = yield* UserTokens
  const secrets = yield* Secrets

  return RunTokens.of({
    isMinting: tokens.isMinting,
    callerFor: Effect.fnUntraced(function*({ authorization, id, sub }) {
      if (tokens.isMinting) return yield* tokens.callerFor(sub, { schedule_id: id })
      if (authorization.token === null) return yield* new TokenRefused({ reason: "TOKEN_URL is not set" })
      return yield* tokens.check(yield* secrets.open("user-token", authorization.token), sub)
    })
  })
})
