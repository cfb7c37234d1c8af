/** Checks the token of `/rpc`. Logs faults of its calls and returns errors without internals. */
import { Cause, Context, Effect, Layer, type Redacted } from "effect"
import type { HttpServerRequest } from "effect/http"
import { InternalFailure } from "../../contract/rpc/RpcErrors.ts"
import { RpcAuthorization } from "../../contract/rpc/RpcMiddleware.ts"
import { bearerOf, isOneOf } from "../Authorization.ts"

/** Whether a request has one of `INTERNAL_TOKENS`. The check covers all calls of the request or of its WebSocket. */
export class RpcAccess extends Context.Service<RpcAccess, {
  readonly isGranted: (request: HttpServerRequest.HttpServerRequest) => boolean
}>()("async-task-service/http/handlers/rpc/RpcAuthorization/RpcAccess") {}

export const internalFailure = new InternalFailure({ message: "Something went wrong on our side." })

const isFault = (cause: Cause.Cause<unknown>) => Cause.hasDies(cause) && !Cause.hasInterrupts(cause)

const layerFaults = Layer.succeed(
  RpcAuthorization,
  RpcAuthorization.of((effect, { rpc }) =>
    Effect.catchCauseIf(
      effect,
      isFault,
      (cause) => Effect.andThen(Effect.logError(`the call ${rpc._tag} failed`, cause), Effect.fail(internalFailure))
    )
  )
)

export const layer = (tokens: ReadonlyArray<Redacted.Redacted>) =>
  Layer.merge(
    layerFaults,
    Layer.succeed(RpcAccess, {
      isGranted: (request) => isOneOf(tokens, bearerOf(request))
    })
  )
