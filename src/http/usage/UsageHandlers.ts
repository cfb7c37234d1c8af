/** Handlers of usage, by REST and by RPC. */
import { Context, Effect, Layer } from "effect"
import { HttpServerRequest, HttpServerResponse } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import { isName } from "../../domain/Principal.ts"
import * as FairPermits from "../../services/limits/FairPermits.ts"
import type { Parameters } from "../../services/usage/Usage.ts"
import { UsageStore } from "../../services/usage/UsageStore.ts"
import { invalid, type ServiceUnavailable, type ValidationFailed } from "../contract/Errors.ts"
import { CurrentCaller } from "../contract/Middleware.ts"
import { refusing, storeErrors } from "../handlers/ErrorResponses.ts"
import * as RpcRequests from "../handlers/rpc/RpcRequests.ts"
import { audited, logged, orUnavailable } from "../OperatorRoutes.ts"
import { OperatorUsageApi } from "./OperatorUsageApi.ts"
import { UsageApi } from "./UsageApi.ts"
import { UsageRpc } from "./UsageRpc.ts"
import type { UsageView } from "./UsageSchemas.ts"
import * as Views from "./UsageViews.ts"

/** Reads at a time, so that one user's do not keep others waiting. */
const readPermits = { total: 2, perHolder: 1 }

export class UsageReads extends Context.Service<UsageReads, {
  /** The usage of a user; of all for an operator, whose `sub` is null. */
  readonly read: (
    given: Parameters,
    sub: string | null
  ) => Effect.Effect<typeof UsageView.Type, ValidationFailed | ServiceUnavailable>
}>()("async-task-service/http/usage/UsageHandlers/UsageReads") {
  static readonly layer = Layer.effect(UsageReads, Effect.suspend(() => makeReads))
}

const makeReads = Effect.gen(function*() {
  const answer = yield* Views.make
  const permits = FairPermits.make(readPermits)
  return UsageReads.of({
    read: (given, sub) => orUnavailable(Effect.scoped(Effect.andThen(permits.take(sub ?? "", 1), answer(given, sub))))
  })
})

export const layer = HttpApiBuilder.group(
  UsageApi,
  "usage",
  Effect.fn(function*(handlers) {
    const { read } = yield* UsageReads
    return handlers.handle("read", () =>
      Effect.gen(function*() {
        const { principal: { sub } } = yield* CurrentCaller
        return yield* read(yield* HttpServerRequest.ParsedSearchParams, sub)
      }))
  })
)

export const layerRpc = UsageRpc.toLayer(
  Effect.map(UsageReads, ({ read }) =>
    UsageRpc.of({
      "Tasks.usage": ({ group_by = [], sub, ...given }) => {
        const query = RpcRequests.queryOf({ ...given, group_by: group_by.length === 0 ? undefined : group_by.join() })
        return RpcRequests.answer(
          Effect.flatMap(RpcRequests.principal(sub), (principal) => read(query, principal.sub))
        )
      }
    }))
)

export const layerOperators = HttpApiBuilder.group(
  OperatorUsageApi,
  "operatorUsage",
  Effect.fn(function*(handlers) {
    const { read } = yield* UsageReads
    const store = yield* UsageStore
    return handlers
      .handle("readAll", () => Effect.flatMap(HttpServerRequest.ParsedSearchParams, (given) => read(given, null)))
      .handle("erase", () =>
        Effect.gen(function*() {
          const { sub } = yield* HttpServerRequest.ParsedSearchParams
          if (!isName(sub)) return yield* invalid("sub", "Expected a user")
          yield* logged("an operator erases the usage of a user", { sub })
          yield* audited({ action: "usage_erase", sub }, store.erase(sub))
          return HttpServerResponse.empty({ status: 204 })
        }).pipe(refusing(storeErrors)))
  })
)
