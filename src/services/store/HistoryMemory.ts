/** The history in memory: for tests. */
import { Effect, Layer, Struct } from "effect"
import { startOfMinute } from "../../domain/Timestamp.ts"
import { type Counts, History, type HistoryName, historyNames, type Point } from "./History.ts"

const merge = (name: HistoryName, one: number, other: number) =>
  name === "late_ms_max" ? Math.max(one, other) : one + other

const addAll = (to: Counts, counts: Counts) => {
  for (const name of Struct.keys(counts)) to[name] = merge(name, to[name] ?? 0, counts[name] ?? 0)
}

export const layer = Layer.sync(History, () => {
  const minutes = new Map<number, Counts>()
  return History.of({
    add: (at, counts) =>
      Effect.sync(() => {
        const known = minutes.get(startOfMinute(at)) ?? {}
        addAll(known, counts)
        minutes.set(startOfMinute(at), known)
      }),
    series: (from, step, periods) =>
      Effect.sync(() => {
        const sums = new Map<number, Counts>()
        for (const [start, counts] of minutes) {
          const period = Math.floor((start - from) / (step * 1_000_000))
          if (period < 0 || period >= periods) continue
          const known = sums.get(period) ?? {}
          addAll(known, counts)
          sums.set(period, known)
        }
        return [...sums].flatMap(([period, counts]): ReadonlyArray<Point> =>
          historyNames.flatMap((name) => counts[name] === undefined ? [] : [{ name, period, value: counts[name] }])
        )
      }),
    deleteExpired: (at, limit) =>
      Effect.sync(() => {
        const expired = [...minutes.keys()].filter((start) => start < at).slice(0, limit)
        for (const start of expired) minutes.delete(start)
        return expired.length
      })
  })
})
