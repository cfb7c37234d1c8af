/** Checks the token of `/rpc`. Logs faults of its calls and returns errors without internals. */
import { Cause, Context, Effect, Layer } from "effect"
import type { HttpServerRequest } from "effect/http"
import { WrongTokens } from "../../../services/tokens/WrongTokens.ts"
import type { Unauthorized } from "../../contract/Errors.ts"
import { CoreRpc } from "../../contract/rpc/Rpc.ts"
import { InternalFailure, RpcAuthorization } from "../../contract/rpc/RpcErrors.ts"
import * as Defects from "../../Defects.ts"
import { bearerOf, indexIn, isOneOf, makeRefuse, type ServiceTokens } from "../Authorization.ts"

/** The calls that the token of a request grants. */
export interface Grants {
  /** Takes the tag of a call. */
  readonly has: (tag: string) => boolean
  /** The name of an internal token. */
  readonly name: string
}

/** The token of a request holds for all its calls, or for those of its WebSocket. */
export class RpcAccess extends Context.Service<RpcAccess, {
  readonly grantsOf: (request: HttpServerRequest.HttpServerRequest) => Effect.Effect<Grants, Unauthorized>
}>()("async-task-service/http/handlers/rpc/RpcAuthorization/RpcAccess") {}

export const internalFailure = new InternalFailure({ message: Defects.message })

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

export const layer = ({ coreEventTokens, internalTokenNames, internalTokens }: Omit<ServiceTokens, "readTokens">) =>
  Layer.merge(
    layerFaults,
    Layer.effect(
      RpcAccess,
      Effect.map(makeRefuse, (refuse) => ({
        grantsOf: (request) => {
          const credential = bearerOf(request)
          const isOfCore = isOneOf(coreEventTokens, credential)
          const name = internalTokenNames[indexIn(internalTokens, credential)]
          const isInternal = name !== undefined
          return isOfCore || isInternal
            ? Effect.succeed({
              has: (tag: string) => CoreRpc.requests.has(tag) ? isOfCore : isInternal,
              name: name ?? ""
            })
            : refuse(credential)
        }
      }))
    ).pipe(Layer.provide(WrongTokens.layer))
  )
