import { assert, describe, it } from "@effect/vitest"
import { Effect, References, Tracer } from "effect"
import { TaskId } from "../../../src/domain/Task.ts"
import * as TaskTraces from "../../../src/services/telemetry/TaskTraces.ts"

const idOf = (n: number) => TaskId.make(`01a1ff46-fab4-72be-99b8-${n.toString(16).padStart(12, "0")}`)

/** Later work on the task by another fiber. */
const later = (id: TaskId) => Effect.currentSpan.pipe(TaskTraces.traced(TaskTraces.names.dispatch, id), Effect.orDie)

const request = <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.withSpan(effect, "request")

const tracesOf = (id: TaskId) =>
  Effect.gen(function*() {
    const requested = yield* request(Effect.andThen(TaskTraces.begin(id), Effect.orDie(Effect.currentSpan)))
    const done = yield* later(id)
    return { requested, done }
  })

describe("TaskTraces", () => {
  it.effect("adds later work on a task to the trace of its request", () =>
    Effect.gen(function*() {
      const { requested, done } = yield* tracesOf(idOf(1))
      assert.strictEqual(done.traceId, requested.traceId)
      assert.strictEqual(done.attributes.get("task.id"), idOf(1))
    }))

  it.effect("begins a trace for an unknown task", () =>
    request(Effect.gen(function*() {
      const around = yield* Effect.currentSpan
      assert.notStrictEqual((yield* later(idOf(2))).traceId, around.traceId)
    })))

  it.effect("keeps a bounded number of tasks, the latest ones", () =>
    Effect.gen(function*() {
      const { requested } = yield* tracesOf(idOf(3))
      yield* request(Effect.forEach(Array.from({ length: 9_999 }, (_, n) => idOf(100 + n)), TaskTraces.begin))
      assert.strictEqual((yield* later(idOf(3))).traceId, requested.traceId)
      yield* request(TaskTraces.begin(idOf(4)))
      assert.notStrictEqual((yield* later(idOf(3))).traceId, requested.traceId)
    }))

  it.effect("makes no span while tracing is off", () =>
    Effect.gen(function*() {
      let made = 0
      const tracer = Tracer.make({
        span: (options) => {
          made++
          return new Tracer.NativeSpan(options)
        }
      })
      const work = TaskTraces.begin(idOf(5)).pipe(TaskTraces.traced(TaskTraces.names.clock, idOf(5)))
      yield* work.pipe(Effect.withTracer(tracer), Effect.provideService(References.TracerEnabled, false))
      assert.strictEqual(made, 0)
      yield* work.pipe(Effect.withTracer(tracer))
      assert.strictEqual(made, 1)
    }))
})
