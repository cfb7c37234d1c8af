/**
 * Which trace each task of this process belongs to, so that what goes on after a request is told in the request's trace. A
 * bounded memory, and a help to whoever reads traces only: a task that another process began starts a trace of its own.
 */
import { Effect, Tracer } from "effect"
import type { TaskId } from "../domain/Task.ts"
import * as Tracing from "./Tracing.ts"

const maxTasks = 10_000

const traces = new Map<TaskId, Tracer.ExternalSpan>()

const forgetOldest = () => {
  for (const id of traces.keys()) {
    if (traces.size < maxTasks) return
    traces.delete(id)
  }
}

/** The running request is where the task comes from, or goes on. */
export const begin = (id: TaskId): Effect.Effect<void> =>
  Effect.withFiber((fiber) => {
    const span = Tracing.currentSpan(fiber)
    if (span === undefined) return Effect.void
    span.attribute("task.id", id)
    traces.delete(id)
    forgetOldest()
    // Not the span itself, which would keep all that is above it.
    const { sampled, spanId, traceId } = span
    traces.set(id, Tracer.externalSpan({ sampled, spanId, traceId }))
    return Effect.void
  })

/** The running span is about the task; where the two have traces of their own, it points to the task's. */
export const join = (id: TaskId): Effect.Effect<void> =>
  Effect.withFiber((fiber) => {
    const span = Tracing.currentSpan(fiber)
    if (span === undefined) return Effect.void
    span.attribute("task.id", id)
    const known = traces.get(id)
    if (known !== undefined && known.traceId !== span.traceId) span.addLinks([{ span: known, attributes: {} }])
    return Effect.void
  })

/** Spans that begin a trace where there is none to go on with. */
export const names = { handOver: "task hand-over", clock: "task clock", webhook: "webhook attempt" } as const

/** A span in the task's trace around what is done about it. */
export const traced = (
  name: typeof names[keyof typeof names],
  id: TaskId,
  options: Pick<Tracer.SpanOptions, "attributes" | "kind"> = {}
) =>
<A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Tracing.withSpan(effect, name, () => {
    const parent = traces.get(id)
    const attributes = { "task.id": id, ...options.attributes }
    return { ...options, ...(parent === undefined ? { root: true } : { parent }), attributes }
  })
