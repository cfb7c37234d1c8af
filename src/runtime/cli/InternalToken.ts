/** The bearer token of the internal interface, as the commands of operators find it. */
import { Config, Effect, Option, Redacted } from "effect"
import { Flag } from "effect/cli"
import { failed, keptSecret } from "./Root.ts"

export const flag = Flag.Redacted("internal-token").pipe(
  Flag.withDescription("One of INTERNAL_TOKENS"),
  Flag.withFallbackConfig(Config.Redacted("INTERNAL_TOKENS")),
  Flag.optional
)

/** What was given, or what the development mode keeps; of a list the first. */
export const find = Effect.fnUntraced(function*(given: Option.Option<Redacted.Redacted>) {
  const found = Option.isSome(given) ? given : yield* keptSecret("internal-token")
  if (Option.isNone(found)) return yield* failed("No internal token: give --internal-token, or set INTERNAL_TOKENS")
  return Redacted.make(Redacted.value(found.value).split(",")[0]?.trim() ?? "")
})
