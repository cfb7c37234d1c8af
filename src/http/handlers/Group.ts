/**
 * A group of routes with a small context. `HttpApiBuilder` copies the context in which it builds a group into the context of
 * each request, and the services of the node would be the largest part of a poll's memory.
 */
import { Context, Effect, Layer, Scope } from "effect"
import {
  Authorization,
  CoreAuthorization,
  InternalAuthorization,
  MetricsAuthorization
} from "../contract/Middleware.ts"

type Access = Authorization | CoreAuthorization | InternalAuthorization | MetricsAuthorization
type Needed = Scope.Scope | Access

/** `group` takes the services of the handlers; its layer is built with those of the middleware only. */
export const layer = <A, E, R>(
  group: Effect.Effect<Layer.Layer<A, never, Access>, E, R>
) =>
  Layer.effectContext(Effect.flatMap(group, (built) =>
    Effect.updateContext(
      Layer.build(built),
      (context: Context.Context<Needed>): Context.Context<Needed> =>
        Context.pick(Scope.Scope, Authorization, CoreAuthorization, InternalAuthorization, MetricsAuthorization)(
          context
        )
    )))
