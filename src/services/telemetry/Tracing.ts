/** Spans for hot paths: they cost nothing while tracing is off. */
import { Context, Effect, type Fiber, References, Tracer } from "effect"
import { HttpTraceContext } from "effect/http"

const isOn = (fiber: Fiber.Fiber<unknown, unknown>): boolean => fiber.getRef(References.TracerEnabled)

/** The fiber's current span; undefined when tracing is off, or when the span belongs to another system. */
export const currentSpan = (fiber: Fiber.Fiber<unknown, unknown>): Tracer.Span | undefined => {
  if (!isOn(fiber)) return undefined
  const span = Context.getOrUndefined(fiber.context, Tracer.ParentSpan)
  return span?._tag === "Span" ? span : undefined
}

export const withSpan = <A, E, R>(
  effect: Effect.Effect<A, E, R>,
  name: string,
  options: () => Tracer.SpanOptionsNoTrace
): Effect.Effect<A, E, Exclude<R, Tracer.ParentSpan> | R> =>
  Effect.withFiber((fiber) =>
    isOn(fiber) ? Effect.withSpan(effect, name, { ...options(), captureStackTrace: false }) : effect
  )

/** Adds W3C's `traceparent` header, so that the called system continues the trace. */
export const propagate = (headers: Readonly<Record<string, string>>): Effect.Effect<Readonly<Record<string, string>>> =>
  Effect.withFiber((fiber) => {
    const span = currentSpan(fiber)
    const traceparent = span === undefined ? undefined : HttpTraceContext.toHeaders(span)["traceparent"]
    return Effect.succeed(traceparent === undefined ? headers : { ...headers, traceparent })
  })
