/** Checks the token of `/rpc`. Logs faults of its calls and returns errors without internals. */
import { Cause, Context, Effect, Layer } from "effect"
import type { HttpServerRequest } from "effect/http"
import { CoreRpc } from "../../contract/rpc/Rpc.ts"
import { InternalFailure, RpcAuthorization } from "../../contract/rpc/RpcErrors.ts"
import { bearerOf, isOneOf, type ServiceTokens } from "../Authorization.ts"

/** Whether the token of a request grants a call, given by its tag. */
export type Grants = (tag: string) => boolean

/** The token of a request holds for all its calls, or for those of its WebSocket. */
export class RpcAccess extends Context.Service<RpcAccess, {
  /** Undefined for a token that grants no call. */
  readonly grantsOf: (request: HttpServerRequest.HttpServerRequest) => Grants | undefined
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

export const layer = ({ coreEventTokens, internalTokens }: ServiceTokens) =>
  Layer.merge(
    layerFaults,
    Layer.succeed(RpcAccess, {
      grantsOf: (request) => {
        const credential = bearerOf(request)
        const isOfCore = isOneOf(coreEventTokens, credential)
        const isInternal = isOneOf(internalTokens, credential)
        return isOfCore || isInternal ? (tag) => CoreRpc.requests.has(tag) ? isOfCore : isInternal : undefined
      }
    })
  )
