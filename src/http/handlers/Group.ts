/**
 * A group of routes with a small context. `HttpApiBuilder` copies the context in which it builds a group into the context of
 * each request, and the services of the node would be the largest part of a poll's memory.
 */
import { Context, Effect, Layer, Scope } from "effect"

/** `group` takes the services of the handlers; its layer is built with the middleware of its endpoints only. */
export const layer = <I, S, A, E, R>(
  middleware: Context.Key<I, S>,
  group: Effect.Effect<Layer.Layer<A, never, I>, E, R>
) =>
  Layer.effectContext(Effect.flatMap(group, (built) =>
    Effect.updateContext(
      Layer.build(built),
      (context: Context.Context<Scope.Scope | I>) =>
        Context.make(Scope.Scope, Context.get(context, Scope.Scope)).pipe(
          Context.add(middleware, Context.get(context, middleware))
        )
    )))
