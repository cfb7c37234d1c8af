/** The store of usage in memory, for the test kit. Nothing has a price here. */
import { Effect, Layer } from "effect"
import { isTerminal, type TaskStatus } from "../../domain/Task.ts"
import { fromMicros, type Timestamp } from "../../domain/Timestamp.ts"
import { difference, none as noTokens, sum, type Tokens } from "../../domain/Usage.ts"
import { type EventRow, MemoryTables, type TaskRow } from "../store/MemoryTables.ts"
import { type Amounts, type Bucket, endOf, type Key, limits, type UsageQuery } from "./Usage.ts"
import { decodeReport } from "./UsageReport.ts"
import { UsageStore } from "./UsageStore.ts"

/** One row of `usage_outbox`. */
interface UsageRow {
  readonly sub: string
  readonly assistantId: number
  readonly model: string | null
  readonly bookedAt: Timestamp
  readonly ended: TaskStatus | null
  readonly isMetered: boolean
  readonly tokens: Tokens
  readonly activeSeconds: number
}

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

/**
 * The consumption of a task after these events. Reports are cumulative for the task. A leg ends with an interrupt or the task, and what it
 * reported last counts.
 */
const consumedBy = (events: ReadonlyArray<EventRow>) => {
  let tokens: Tokens | null = null
  let reported: Tokens | null = null
  let micros = 0
  for (const [index, { occurredAt, report, startedAt = occurredAt, status }] of events.entries()) {
    reported = decodeReport(report)?.tokens ?? reported
    if (status === "processing") micros += (events[index + 1]?.occurredAt ?? startedAt) - startedAt
    const endsLeg = status === "interrupted" || index === events.length - 1
    if (endsLeg && reported !== null) tokens = sum(tokens ?? noTokens, difference(reported, tokens ?? noTokens))
  }
  return { tokens, seconds: Math.trunc(micros / 1_000_000) }
}

/** The events up to the last interrupt before `end`. */
const interruptedBefore = (events: ReadonlyArray<EventRow>, end: number) =>
  events.slice(0, events.findLastIndex(({ status }, index) => status === "interrupted" && index < end) + 1)

/** The amount that an event adds which ends or interrupts a task; undefined for other events. */
const bookingOf = ({ events, task }: TaskRow): UsageRow | undefined => {
  const { occurredAt, status } = events.at(-1)!
  const ended = isTerminal(status) ? status : null
  const after = consumedBy(events)
  if (ended === null && (status !== "interrupted" || after.tokens === null)) return undefined
  const before = consumedBy(interruptedBefore(events, events.length - 1))
  const last = events.findLast(({ report }) => report !== null)
  return {
    sub: task.principal.sub,
    assistantId: task.assistantId,
    model: decodeReport(last?.report ?? null)?.model ?? null,
    bookedAt: occurredAt,
    ended,
    isMetered: after.tokens !== null,
    tokens: difference(after.tokens ?? noTokens, before.tokens ?? noTokens),
    activeSeconds: after.seconds - (before.tokens === null ? 0 : before.seconds)
  }
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
  Effect.map(MemoryTables, ({ onEvent, tasks }) => {
    const usage: Array<UsageRow> = []
    onEvent.push((row) => void usage.push(...Array.from([bookingOf(row)]).filter((booking) => booking !== undefined)))
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
          if (row === undefined) return null
          const isFinal = isTerminal(row.status)
          const { seconds, tokens } = consumedBy(
            isFinal ? row.events : interruptedBefore(row.events, row.events.length)
          )
          if (!isFinal && tokens === null) return null
          const { cached, input, output, reasoning, total } = tokens ?? noTokens
          return {
            inputTokens: input,
            outputTokens: output,
            totalTokens: total,
            cachedInputTokens: cached,
            reasoningTokens: reasoning,
            activeSeconds: seconds,
            cost: null,
            isMetered: tokens !== null,
            isFinal
          }
        }),
      erase: (sub) => Effect.sync(() => void deleteWhere((row) => row.sub === sub)),
      deleteBefore: (before) =>
        Effect.sync(() => deleteWhere(({ bookedAt }) => Math.floor(bookedAt / hour) * hour < before))
    })
  })
)
