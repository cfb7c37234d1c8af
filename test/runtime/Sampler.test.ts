import { Context, Option, Tracer } from "effect"
import { assert, describe, it } from "vitest"
import { sampled, type Sampler } from "../../src/runtime/Sampler.ts"

const ids = Array.from(
  { length: 1000 },
  (_, n) => ((n + 0.5) / 1000 * 2 ** 52).toString(16).split(".")[0]!.padStart(32, "0")
)

/** Spans of traces whose ids are given out in order. */
const tracerOf = (sampler: Sampler, given: ReadonlyArray<string>) => {
  let next = 0
  const native = Tracer.make({
    span: (options) => {
      const traceId = Option.getOrUndefined(options.parent)?.traceId ?? given[next++ % given.length]!
      return Object.defineProperty(new Tracer.NativeSpan(options), "traceId", { value: traceId })
    }
  })
  return sampled(native, sampler, ({ kind }) => kind === "server")
}

const spanOf = (tracer: Tracer.Tracer, kind: Tracer.SpanKind, parent?: Tracer.AnySpan) =>
  tracer.span({
    name: "a span",
    kind,
    parent: Option.fromNullishOr(parent),
    annotations: Context.empty(),
    links: [],
    startTime: 0n,
    root: false,
    sampled: parent?.sampled ?? true
  })

const external = (isSampled: boolean, traceId = ids[0]!) =>
  Tracer.externalSpan({ traceId, spanId: "b7ad6b7169203331", sampled: isSampled })

describe("Sampler", () => {
  it("keeps the share of traces that is asked for, and the same ones everywhere", () => {
    for (const ratio of [0, 0.1, 0.5, 1]) {
      // A trace that is not kept takes a second id, which it never shows.
      const kept = ids.filter((id) => spanOf(tracerOf({ name: "traceidratio", ratio }, [id]), "server").sampled)
      assert.strictEqual(kept.length, ratio * ids.length)
      const passed = ids.filter((id) =>
        spanOf(tracerOf({ name: "traceidratio", ratio }, ids), "server", external(false, id)).sampled
      )
      assert.deepStrictEqual(passed, kept)
    }
  })

  it("follows a caller's decision where it is parentbased", () => {
    for (const name of ["parentbased_always_on", "parentbased_always_off", "parentbased_traceidratio"] as const) {
      const tracer = tracerOf({ name, ratio: 0.5 }, ids)
      assert.isTrue(spanOf(tracer, "server", external(true)).sampled)
      assert.isFalse(spanOf(tracer, "server", external(false)).sampled)
    }
    assert.isTrue(spanOf(tracerOf({ name: "always_on", ratio: 0 }, ids), "server", external(false)).sampled)
    assert.isFalse(spanOf(tracerOf({ name: "always_off", ratio: 1 }, ids), "server", external(true)).sampled)
  })

  it("begins no trace with what a timer does, and keeps a trace whole", () => {
    const tracer = tracerOf({ name: "always_on", ratio: 1 }, ids)
    const statement = spanOf(tracer, "client")
    assert.isFalse(statement.sampled)
    assert.isFalse(spanOf(tracer, "server", statement).sampled)
    assert.isTrue(spanOf(tracer, "client", spanOf(tracer, "server")).sampled)
  })
})
