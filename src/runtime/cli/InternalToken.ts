/** The bearer token of the internal interface, and calls with it, for operator commands. */
import { Config, Effect, Layer, Option, Predicate, Redacted } from "effect"
import { Flag } from "effect/cli"
import type { InternalClient } from "../../http/client/RpcClient.ts"
import { rootCauseMessage } from "../../services/telemetry/RootCause.ts"
import { failed, generatedSecret, internalUrl } from "./Root.ts"

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

/** Calls the internal interface of the service. */
export const call = Effect.fnUntraced(function*<A, E>(
  given: Option.Option<Redacted.Redacted>,
  send: (client: InternalClient) => Effect.Effect<A, E>
) {
  const url = yield* internalUrl
  const token = yield* find(given)
  // Imported here so that the other commands start quickly.
  const RpcClient = yield* Effect.promise(() => import("../../http/client/RpcClient.ts"))
  const { FetchHttpClient } = yield* Effect.promise(() => import("effect/http"))
  return yield* RpcClient.make.pipe(
    Effect.flatMap(send),
    Effect.scoped,
    Effect.provide(Layer.provide(RpcClient.layerHttp({ url, token }), FetchHttpClient.layer)),
    Effect.mapError((error) =>
      failed(
        Predicate.isTagged(error, "TaskNotFound") || Predicate.isTagged(error, "TaskHasEnded")
          ? rootCauseMessage(error)
          : `Request to the service at ${url} failed: ${rootCauseMessage(error)}`
      )
    )
  )
})
