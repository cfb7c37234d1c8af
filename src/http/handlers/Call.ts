/** A call of an operation, by REST or by RPC. */
import { Effect, type Scope } from "effect"
import type { HttpServerRequest } from "effect/http"
import type { Caller, Principal } from "../../domain/Principal.ts"
import type { RequestKey } from "../../services/store/tasks/TaskStore.ts"
import { CurrentCaller } from "../contract/Middleware.ts"
import { type BodyError, BodyReader } from "./body/BodyReader.ts"
import type { BodyKind } from "./body/JsonBody.ts"

export interface Call<E, R> {
  readonly principal: Effect.Effect<Principal, never, R>
  /** The same with the token that the core receives. */
  readonly caller: Effect.Effect<Caller, E, R>
  /** An internal caller makes it on behalf of the user. */
  readonly isInternal: boolean
  /** The name of the internal caller; absent for a user. */
  readonly author?: string
  /** Reads the body, and the idempotency key if there is one. */
  readonly receive: <A>(
    kind: BodyKind<A>
  ) => Effect.Effect<{ readonly body: A; readonly key: RequestKey | undefined }, E, R>
}

/** Returns a function that makes the call of a request by REST. */
export const make = Effect.map(
  BodyReader,
  ({ read }) => (request: HttpServerRequest.HttpServerRequest): Call<BodyError, CurrentCaller | Scope.Scope> => ({
    principal: Effect.map(CurrentCaller, ({ principal }) => principal),
    caller: CurrentCaller,
    isInternal: false,
    receive: (kind) => read(kind, request)
  })
)
