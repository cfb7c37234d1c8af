/** The check behind `contract/RpcMiddleware`. Faults are logged here and answered without internals. */
import { Cause, Effect, Layer, type Redacted } from "effect"
import { isStoreUnavailable } from "../../services/Persistently.ts"
import { InternalFailure, RpcUnauthorized, Unavailable } from "../contract/RpcErrors.ts"
import { RpcAuthorization } from "../contract/RpcMiddleware.ts"
import { isOneOf } from "./Authorization.ts"

const unauthorized = new RpcUnauthorized({ message: "The token is missing or not one of INTERNAL_TOKENS." })

const failureOf = (cause: Cause.Cause<unknown>) =>
  isStoreUnavailable(Cause.squash(cause))
    ? new Unavailable({ message: "The service cannot reach its database at the moment. Try again soon." })
    : new InternalFailure({ message: "Something went wrong on our side." })

const isFault = (cause: Cause.Cause<unknown>) => Cause.hasDies(cause) && !Cause.hasInterrupts(cause)

export const layer = (tokens: ReadonlyArray<Redacted.Redacted>) =>
  Layer.succeed(
    RpcAuthorization,
    RpcAuthorization.of((effect, { headers, rpc }) => {
      const [, credential = ""] = /^bearer +(.+)$/i.exec(headers["authorization"] ?? "") ?? []
      if (!isOneOf(tokens, credential)) return Effect.fail(unauthorized)
      return Effect.catchCauseIf(
        effect,
        isFault,
        (cause) => Effect.andThen(Effect.logError(`the call ${rpc._tag} failed`, cause), Effect.fail(failureOf(cause)))
      )
    })
  )
