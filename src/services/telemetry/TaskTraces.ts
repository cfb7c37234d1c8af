/**
 * The trace of each task that this process knows, so that background work on a task appears in the trace of its
 * request. The memory is bounded and serves observability only. A task that another process created starts a new trace
 * here.
 */
import { Effect, Tracer } from "effect"
import type { TaskId } from "../../domain/Task.ts"
import * as Tracing from "./Tracing.ts"

const maxTasks = 10_000

const traces = new Map<TaskId, Tracer.ExternalSpan>()

const deleteOldest = () => {
  for (const id of traces.keys()) {
    if (traces.size < maxTasks) return
    traces.delete(id)
  }
}

/** Makes the current span the parent of the task's further spans. */
export const begin = (id: TaskId): Effect.Effect<void> =>
  Effect.withFiber((fiber) => {
    const span = Tracing.currentSpan(fiber)
    if (span === undefined) return Effect.void
    span.attribute("task.id", id)
    traces.delete(id)
    deleteOldest()
    // The span itself would keep all its ancestors in memory.
    const { sampled, spanId, traceId } = span
    traces.set(id, Tracer.externalSpan({ sampled, spanId, traceId }))
    return Effect.void
  })

/** Marks the current span with the task, and links it to the task's trace where the two differ. */
export const join = (id: TaskId): Effect.Effect<void> =>
  Effect.withFiber((fiber) => {
    const span = Tracing.currentSpan(fiber)
    if (span === undefined) return Effect.void
    span.attribute("task.id", id)
    const known = traces.get(id)
    if (known !== undefined && known.traceId !== span.traceId) span.addLinks([{ span: known, attributes: {} }])
    return Effect.void
  })

/** Names of the spans that start a new trace when the task has none. */
export const names = { dispatch: "task dispatch", clock: "task clock", webhook: "webhook attempt" } as const

/** Wraps an effect in a span of the task's trace. */
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
