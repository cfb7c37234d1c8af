import { Context, Option, Tracer } from "effect"
import { assert, describe, it } from "vitest"
import { sampled, type Sampler } from "../../../src/runtime/telemetry/Sampler.ts"

const ids = Array.from(
  { length: 1000 },
  (_, n) => ((n + 0.5) / 1000 * 2 ** 52).toString(16).split(".")[0]!.padStart(32, "0")
)

/** A sampled tracer that assigns the given trace ids in order. */
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
  it("keeps the configured ratio of traces, and the same traces in every service", () => {
    for (const ratio of [0, 0.1, 0.5, 1]) {
      // A trace that is not kept consumes a second id.
      const kept = ids.filter((id) => spanOf(tracerOf({ name: "traceidratio", ratio }, [id]), "server").sampled)
      assert.strictEqual(kept.length, ratio * ids.length)
      const passed = ids.filter((id) =>
        spanOf(tracerOf({ name: "traceidratio", ratio }, ids), "server", external(false, id)).sampled
      )
      assert.deepStrictEqual(passed, kept)
    }
  })

  it("follows the caller's decision when parentbased, and only then", () => {
    for (const name of ["parentbased_always_on", "parentbased_always_off", "parentbased_traceidratio"] as const) {
      const tracer = tracerOf({ name, ratio: 0.5 }, ids)
      assert.isTrue(spanOf(tracer, "server", external(true)).sampled)
      assert.isFalse(spanOf(tracer, "server", external(false)).sampled)
    }
    assert.isTrue(spanOf(tracerOf({ name: "always_on", ratio: 0 }, ids), "server", external(false)).sampled)
    assert.isFalse(spanOf(tracerOf({ name: "always_off", ratio: 1 }, ids), "server", external(true)).sampled)
  })

  it("starts no trace for background work, and keeps all spans of a trace", () => {
    const tracer = tracerOf({ name: "always_on", ratio: 1 }, ids)
    const statement = spanOf(tracer, "client")
    assert.isFalse(statement.sampled)
    assert.isFalse(spanOf(tracer, "server", statement).sampled)
    assert.isTrue(spanOf(tracer, "client", spanOf(tracer, "server")).sampled)
  })
})
