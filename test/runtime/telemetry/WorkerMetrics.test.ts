import { assert, describe, it } from "@effect/vitest"
import { join } from "../../../src/runtime/telemetry/WorkerMetrics.ts"

const head = "# HELP a_total what\n# TYPE a_total counter\n"

describe("the metrics of several workers", () => {
  it("name the worker of each sample, and describe a metric once", () => {
    const one = `${head}a_total{x="1 {2} "} 3\na_total{x="y"} 4\n\n# TYPE b gauge\nb 0.5\n`
    const other = `${head}a_total{x="y"} 5\n`
    assert.strictEqual(
      join([[1, one], [2, other]]),
      `${head}a_total{worker="1",x="1 {2} "} 3\na_total{worker="1",x="y"} 4\na_total{worker="2",x="y"} 5\n\n`
        + `# TYPE b gauge\nb{worker="1"} 0.5\n`
    )
  })

  it("lack those of a worker that does not answer", () => {
    assert.strictEqual(join([[1, ""], [2, "# TYPE b gauge\nb 1\n"]]), "# TYPE b gauge\nb{worker=\"2\"} 1\n")
  })
})
