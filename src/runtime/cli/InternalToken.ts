/** The bearer token of the internal interface, for operator commands. */
import { Config, Effect, Option, Redacted } from "effect"
import { Flag } from "effect/cli"
import { failed, generatedSecret } from "./Root.ts"

export const flag = Flag.Redacted("internal-token").pipe(
  Flag.withDescription("Bearer token of the internal interface (default: the first of INTERNAL_TOKENS)"),
  Flag.withFallbackConfig(Config.Redacted("INTERNAL_TOKENS")),
  Flag.optional
)

/** The first token of the given list, or the one that the service generated in development mode. */
export const find = Effect.fnUntraced(function*(given: Option.Option<Redacted.Redacted>) {
  const found = Option.isSome(given) ? given : yield* generatedSecret("internal-token")
  if (Option.isNone(found)) return yield* failed("No internal token: pass --internal-token or set INTERNAL_TOKENS")
  return Redacted.make(Redacted.value(found.value).split(",")[0]?.trim() ?? "")
})
