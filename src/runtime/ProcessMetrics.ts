/** The process's own gauges, read when someone looks. */
import { Effect, Layer } from "effect"
import { monitorEventLoopDelay, performance } from "node:perf_hooks"
import * as Metrics from "../services/Metrics.ts"

/** Milliseconds that a look at the event loop holds for, so that two who look do not take it from each other. */
const span = 10_000

/** Milliseconds between the timers that the event loop's delay is measured by; they are no part of it. */
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
  let since = performance.eventLoopUtilization()
  let lookedAt = -span
  let looked = { p50: 0, p99: 0, max: 0, utilization: 0 }
  const seconds = (nanos: number) => Math.max(0, nanos / 1e9 - resolution / 1000)
  const look = () => {
    if (performance.now() - lookedAt < span || delays.count === 0) return looked
    const utilization = performance.eventLoopUtilization(since).utilization
    looked = {
      p50: seconds(delays.percentile(50)),
      p99: seconds(delays.percentile(99)),
      max: seconds(delays.max),
      utilization
    }
    delays.reset()
    since = performance.eventLoopUtilization()
    lookedAt = performance.now()
    return looked
  }
  for (const statistic of ["p50", "p99", "max"] as const) {
    yield* Metrics.eventLoopDelays[statistic].observe(() => look()[statistic])
  }
  yield* Metrics.eventLoopUtilization.observe(() => look().utilization)
  yield* Metrics.memory.observe(() => process.memoryUsage.rss())
  yield* Metrics.heap.observe(() => process.memoryUsage().heapUsed)
  for (const mode of ["user", "system"] as const) {
    yield* Metrics.cpu.observe(() => process.cpuUsage()[mode] / 1_000_000, mode)
  }
}))
