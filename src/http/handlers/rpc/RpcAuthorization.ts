/** Checks the token of `/rpc`. Logs faults of its calls and returns errors without internals. */
import { Cause, Context, Effect, Layer, type Redacted } from "effect"
import type { HttpServerRequest } from "effect/http"
import { isStoreUnavailable } from "../../../services/timing/Retry.ts"
import { InternalFailure, Unavailable } from "../../contract/rpc/RpcErrors.ts"
import { RpcAuthorization } from "../../contract/rpc/RpcMiddleware.ts"
import { isOneOf } from "../Authorization.ts"

/** Whether a request has one of `INTERNAL_TOKENS`. The check covers all calls of the request or of its WebSocket. */
export class RpcAccess extends Context.Service<RpcAccess, {
  readonly isGranted: (request: HttpServerRequest.HttpServerRequest) => boolean
}>()("async-task-service/http/handlers/rpc/RpcAuthorization/RpcAccess") {}

const failureOf = (cause: Cause.Cause<unknown>) =>
  isStoreUnavailable(Cause.squash(cause))
    ? new Unavailable({ message: "The service cannot reach its database at the moment. Try again soon." })
    : new InternalFailure({ message: "Something went wrong on our side." })

const isFault = (cause: Cause.Cause<unknown>) => Cause.hasDies(cause) && !Cause.hasInterrupts(cause)

const layerFaults = Layer.succeed(
  RpcAuthorization,
  RpcAuthorization.of((effect, { rpc }) =>
    Effect.catchCauseIf(
      effect,
      isFault,
      (cause) => Effect.andThen(Effect.logError(`the call ${rpc._tag} failed`, cause), Effect.fail(failureOf(cause)))
    )
  )
)

export const layer = (tokens: ReadonlyArray<Redacted.Redacted>) =>
  Layer.merge(
    layerFaults,
    Layer.succeed(RpcAccess, {
      isGranted: ({ headers }) => {
        const [, credential = ""] = /^bearer +(.+)$/i.exec(headers["authorization"] ?? "") ?? []
        return isOneOf(tokens, credential)
      }
    })
  )
