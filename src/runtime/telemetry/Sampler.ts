/** Head sampling as OTEL_TRACES_SAMPLER specifies it. Background work, such as timers and sweeps, starts no traces. */
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
  /** The share of traces that the ratio samplers keep, from 0 to 1. */
  readonly ratio: number
}

const ratioOf = ({ name, ratio }: Sampler) => name.endsWith("on") ? 1 : name.endsWith("off") ? 0 : ratio

/** Depends on the trace id only, so all services with the same ratio keep the same traces. */
const isKept = (traceId: string, ratio: number) => Number.parseInt(traceId.slice(-13), 16) / 2 ** 52 >= 1 - ratio

/** `mayStartTrace` decides which spans without a parent in this process may start a trace. */
export const sampled = (
  tracer: Tracer.Tracer,
  sampler: Sampler,
  mayStartTrace: (span: { readonly name: string; readonly kind: Tracer.SpanKind }) => boolean
): Tracer.Tracer => {
  const ratio = ratioOf(sampler)
  const isParentBased = sampler.name.startsWith("parentbased")
  return Tracer.make({
    span: (options) => {
      const parent = Option.getOrUndefined(options.parent)
      const mayStart = mayStartTrace(options)
      const inheritsDecision = parent !== undefined && (parent._tag === "Span" || isParentBased || !mayStart)
      if (inheritsDecision) return tracer.span(options)
      if (!mayStart) return tracer.span({ ...options, sampled: false })
      const kept = tracer.span({ ...options, sampled: true })
      return isKept(kept.traceId, ratio) ? kept : tracer.span({ ...options, sampled: false })
    },
    ...(tracer.context === undefined ? {} : { context: tracer.context })
  })
}
