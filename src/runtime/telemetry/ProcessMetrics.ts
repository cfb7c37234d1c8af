/** Gauges of the process, evaluated when metrics are collected. */
import { Effect, Layer } from "effect"
import { monitorEventLoopDelay, performance } from "node:perf_hooks"
import * as Metrics from "../../services/telemetry/Metrics.ts"

/** Milliseconds of one measurement of the event loop. Collectors within it share its result, since reading resets it. */
const measurementInterval = 10_000

/** Interval in milliseconds of the histogram's timer, which is subtracted from the measured delays. */
const resolution = 20

export const layer = Layer.effectDiscard(Effect.gen(function*() {
  const delays = yield* Effect.acquireRelease(
    Effect.sync(() => {
      const histogram = monitorEventLoopDelay({ resolution })
      histogram.enable()
      return histogram
    }),
    (histogram) => Effect.sync(() => histogram.disable())
  )
  let baseline = performance.eventLoopUtilization()
  let measuredAt = -measurementInterval
  let measured = { p50: 0, p99: 0, max: 0, utilization: 0 }
  const seconds = (nanos: number) => Math.max(0, nanos / 1e9 - resolution / 1000)
  const measure = () => {
    if (performance.now() - measuredAt < measurementInterval || delays.count === 0) return measured
    const utilization = performance.eventLoopUtilization(baseline).utilization
    measured = {
      p50: seconds(delays.percentile(50)),
      p99: seconds(delays.percentile(99)),
      max: seconds(delays.max),
      utilization
    }
    delays.reset()
    baseline = performance.eventLoopUtilization()
    measuredAt = performance.now()
    return measured
  }
  for (const statistic of ["p50", "p99", "max"] as const) {
    yield* Metrics.eventLoopDelays[statistic].observe(() => measure()[statistic])
  }
  yield* Metrics.eventLoopUtilization.observe(() => measure().utilization)
  yield* Metrics.memory.observe(() => process.memoryUsage.rss())
  yield* Metrics.heap.observe(() => process.memoryUsage().heapUsed)
  for (const mode of ["user", "system"] as const) {
    yield* Metrics.cpu.observe(() => process.cpuUsage()[mode] / 1_000_000, mode)
  }
}))
