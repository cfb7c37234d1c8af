/** Which traces are kept, as OTEL_TRACES_SAMPLER says; what a timer does by itself is no trace. */
import { Option, Tracer } from "effect"

export const samplers = [
  "always_on",
  "always_off",
  "traceidratio",
  "parentbased_always_on",
  "parentbased_always_off",
  "parentbased_traceidratio"
] as const

export interface Sampler {
  readonly name: typeof samplers[number]
  /** The share that the ratio samplers keep. */
  readonly ratio: number
}

const shareOf = ({ name, ratio }: Sampler) => name.endsWith("on") ? 1 : name.endsWith("off") ? 0 : ratio

/** The same for all who share the ratio, since it is drawn from the trace's id. */
const isKept = (traceId: string, share: number) => Number.parseInt(traceId.slice(-13), 16) / 2 ** 52 >= 1 - share

/** `begins` tells of a span without a parent in this process whether it is one that a trace begins with. */
export const sampled = (
  tracer: Tracer.Tracer,
  sampler: Sampler,
  begins: (span: { readonly name: string; readonly kind: Tracer.SpanKind }) => boolean
): Tracer.Tracer => {
  const share = shareOf(sampler)
  const isParentBased = sampler.name.startsWith("parentbased")
  return Tracer.make({
    span: (options) => {
      const parent = Option.getOrUndefined(options.parent)
      const mayBegin = begins(options)
      const isDecided = parent !== undefined && (parent._tag === "Span" || isParentBased || !mayBegin)
      if (isDecided) return tracer.span(options)
      if (!mayBegin) return tracer.span({ ...options, sampled: false })
      const kept = tracer.span({ ...options, sampled: true })
      return isKept(kept.traceId, share) ? kept : tracer.span({ ...options, sampled: false })
    },
    ...(tracer.context === undefined ? {} : { context: tracer.context })
  })
}
