/** The store of usage in memory, for the test kit. Nothing has a price here. */
import { Effect, Layer } from "effect"
import { isTerminal } from "../../domain/Task.ts"
import { fromMicros, type Timestamp } from "../../domain/Timestamp.ts"
import { MemoryTables, type UsageRow } from "../store/MemoryTables.ts"
import { type Amounts, type Bucket, endOf, type Key, limits, type UsageQuery } from "./Usage.ts"
import { UsageStore } from "./UsageStore.ts"

const none: Amounts = {
  tasks: 0,
  completed: 0,
  failed: 0,
  canceled: 0,
  inputTokens: 0,
  outputTokens: 0,
  totalTokens: 0,
  cachedInputTokens: 0,
  reasoningTokens: 0,
  activeSeconds: 0,
  cost: null,
  unpricedTokens: 0,
  unmeteredTasks: 0
}

const amountsOf = ({ activeSeconds, ended, isMetered, tokens }: UsageRow): Amounts => ({
  tasks: ended === null ? 0 : 1,
  completed: ended === "completed" ? 1 : 0,
  failed: ended === "failed" ? 1 : 0,
  canceled: ended === "canceled" ? 1 : 0,
  inputTokens: tokens.input,
  outputTokens: tokens.output,
  totalTokens: tokens.total,
  cachedInputTokens: tokens.cached,
  reasoningTokens: tokens.reasoning,
  activeSeconds,
  cost: null,
  unpricedTokens: tokens.total,
  unmeteredTasks: ended !== null && !isMetered ? 1 : 0
})

const add = <A extends Amounts>(one: A, other: Amounts): A => {
  const sum: Record<string, unknown> = { ...one }
  for (const [name, value] of Object.entries(other)) {
    if (typeof value === "number") sum[name] = Number(sum[name]) + value
  }
  // The numbers of `one` were replaced by numbers.
  return sum as unknown as A
}

const hour = 3_600_000_000
const day = 24 * hour

const periodOf = (at: Timestamp, { from, step }: UsageQuery): Timestamp => {
  if (step === "total") return from
  if (step !== "month") {
    return fromMicros(Math.floor(at / (step === "hour" ? hour : day)) * (step === "hour" ? hour : day))
  }
  let start = fromMicros(0)
  for (;;) {
    const next = endOf(start, { step, to: from })
    if (next > at) return start
    start = next
  }
}

const keyOf = (row: UsageRow, key: Key) =>
  key === "assistant" ? { assistant: row.assistantId } : key === "model" ? { model: row.model } : { sub: row.sub }

const bucketsOf = (rows: ReadonlyArray<UsageRow>, query: UsageQuery): ReadonlyArray<Bucket> => {
  const buckets = new Map<string, Bucket>()
  for (const row of rows) {
    const keys = Object.assign({}, ...query.groupBy.map((key) => keyOf(row, key)))
    const from = periodOf(row.bookedAt, query)
    const id = JSON.stringify([from, keys])
    buckets.set(id, add(buckets.get(id) ?? { ...none, ...keys, from }, amountsOf(row)))
  }
  const byPeriod = (one: Bucket, other: Bucket) => query.order === "period" ? one.from - other.from : 0
  return [...buckets.values()]
    .toSorted((one, other) => byPeriod(one, other) || other.totalTokens - one.totalTokens)
    .slice(0, query.limit ?? limits.buckets + 1)
}

export const layer = Layer.effect(
  UsageStore,
  Effect.map(MemoryTables, ({ tasks, usage }) => {
    const deleteWhere = (isOld: (row: UsageRow) => boolean) => {
      const kept = usage.filter((row) => !isOld(row))
      const deleted = usage.length - kept.length
      usage.splice(0, usage.length, ...kept)
      return deleted
    }
    return UsageStore.of({
      setPrices: () => Effect.void,
      // The rows themselves are the sums.
      book: () => Effect.succeed([]),
      read: (query) =>
        Effect.sync(() => {
          const rows = usage.filter(({ assistantId, bookedAt, sub }) =>
            bookedAt >= query.from && bookedAt < query.to && (query.sub ?? sub) === sub
            && (query.assistantId ?? assistantId) === assistantId
          )
          return { buckets: bucketsOf(rows, query), totals: rows.map(amountsOf).reduce(add, none) }
        }),
      ofTask: (uuid) =>
        Effect.sync(() => {
          const row = tasks.get(uuid)
          const isFinal = row !== undefined && isTerminal(row.status)
          if (row === undefined || (!isFinal && row.bookedSeconds === null)) return null
          const { bookedSeconds, bookedUsage: { cached, input, output, reasoning, total }, usage: reported } = row
          return {
            inputTokens: input,
            outputTokens: output,
            totalTokens: total,
            cachedInputTokens: cached,
            reasoningTokens: reasoning,
            activeSeconds: bookedSeconds ?? 0,
            cost: null,
            isMetered: reported !== null,
            isFinal
          }
        }),
      erase: (sub) => Effect.sync(() => void deleteWhere((row) => row.sub === sub)),
      deleteBefore: (before) =>
        Effect.sync(() => deleteWhere(({ bookedAt }) => Math.floor(bookedAt / hour) * hour < before))
    })
  })
)
