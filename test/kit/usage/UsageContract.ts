/** The contract of usage: what events report is booked once, on memory and on Postgres. */
import { assert, type Vitest } from "@effect/vitest"
import { Effect, Result, Schema } from "effect"
import type { SecureRandom } from "effect/crypto"
import { TestClock } from "effect/testing"
import type { OpaqueJson } from "../../../src/domain/json/OpaqueJson.ts"
import { fromValue } from "../../../src/domain/json/OpaqueJson.ts"
import {
  isTerminal,
  statusAfter,
  type TaskEvent,
  TaskEvent as Event,
  type TaskStatus
} from "../../../src/domain/Task.ts"
import { fromMicros, now } from "../../../src/domain/Timestamp.ts"
import * as Usage from "../../../src/domain/Usage.ts"
import type { RunQueue } from "../../../src/services/store/queue/RunQueue.ts"
import { type NewTask, TaskStore } from "../../../src/services/store/tasks/TaskStore.ts"
import { type Amounts, decode } from "../../../src/services/usage/Usage.ts"
import { encodeReport } from "../../../src/services/usage/UsageReport.ts"
import { UsageStore } from "../../../src/services/usage/UsageStore.ts"
import { admit } from "../RunQueueContract.ts"
import { call, eventOf, newRunId, stored, uuid } from "../StoredTasks.ts"

export type UsageTests = Vitest.MethodsNonLive<
  TaskStore | RunQueue | TaskStore | UsageStore | SecureRandom.SecureRandom
>

const tokensOf = (input: number, output: number): Usage.Tokens => ({
  input,
  output,
  total: input + output,
  cached: Math.floor(input / 2),
  reasoning: Math.floor(output / 2)
})

const turn: OpaqueJson = fromValue({ output: [], messages: [], metadata: {} })

const tags = [
  "Accepted",
  "Progressed",
  "Interrupted",
  "Completed",
  "Failed",
  "TimeLimitExceeded",
  "TokenRevoked",
  "ToolResultsSubmitted",
  "Canceled",
  "Withdrawn"
] as const

const below = (maximum: number) => Schema.Int.check(Schema.isBetween({ minimum: 0, maximum }))

/** Events of four tasks, with cumulative tokens of a model or none; bookings, and repetitions of the last event. */
const Step = Schema.Union([
  Schema.Struct({
    task: below(3),
    tag: Schema.Literals(tags),
    model: Schema.NullOr(Schema.Literals(["small", "large"])),
    tokens: Schema.NullOr(Schema.Tuple([below(1000), below(1000)])),
    seconds: below(4000)
  }),
  Schema.Struct({
    task: below(3),
    tag: Schema.Literals(tags),
    tokens: Schema.Null,
    model: Schema.Null,
    seconds: below(2)
  }),
  Schema.Literals(["book", "repeat"])
])
const Steps = Schema.Array(Step).check(Schema.isMinLength(10), Schema.isMaxLength(40))

const reportOf = ({ model, tokens }: Exclude<typeof Step.Type, string>): Usage.TurnUsage | null =>
  tokens === null ? (model === null ? null : { model, tokens: null }) : { model, tokens: tokensOf(...tokens) }

const withUsage = (event: TaskEvent, report: Usage.TurnUsage | null): TaskEvent => {
  switch (event._tag) {
    case "Progressed":
    case "Completed":
      return { ...event, turn, report: encodeReport(report) }
    case "Interrupted":
    case "Failed":
      return { ...event, turn: report === null ? null : turn, report: encodeReport(report) }
    default:
      return event
  }
}

/** A task as the rules say, computed from the events that applied. */
interface Model {
  readonly task: NewTask
  status: TaskStatus
  reported: Usage.Tokens | null
  booked: Usage.Tokens
  hasBooking: boolean
  /** Microseconds. */
  active: number
  since: number
}

const follow = (model: Model, event: TaskEvent, report: Usage.TurnUsage | null, at: number) => {
  const status = statusAfter(model.status, event._tag)
  assert.isDefined(status)
  if (model.status === "processing" && status !== "processing") model.active += at - model.since
  if (model.status !== "processing" && status === "processing") model.since = at
  model.status = status
  if ("report" in event && report !== null) model.reported = report.tokens ?? model.reported
  if (!isTerminal(status) && (status !== "interrupted" || model.reported === null)) return
  model.hasBooking = true
  const { booked, reported } = model
  if (reported === null) return
  model.booked = {
    input: Math.max(booked.input, reported.input),
    output: Math.max(booked.output, reported.output),
    total: Math.max(booked.total, reported.total),
    cached: Math.max(booked.cached, reported.cached),
    reasoning: Math.max(booked.reasoning, reported.reasoning)
  }
}

const numbers = (amounts: Pick<Amounts, "inputTokens" | "outputTokens" | "totalTokens" | "activeSeconds">) => [
  amounts.inputTokens,
  amounts.outputTokens,
  amounts.totalTokens,
  amounts.activeSeconds
]

const sumOf = (rows: ReadonlyArray<Parameters<typeof numbers>[0]>) =>
  rows.map(numbers).reduce((sum, row) => sum.map((value, index) => value + row[index]!), [0, 0, 0, 0])

const everything = { from: "1970-01-01T00:00:00Z", to: "2200-01-01T00:00:00Z" }

const read = Effect.fnUntraced(function*(sub: string | null, given: Readonly<Record<string, string>>) {
  const store = yield* UsageStore
  return yield* store.read(Result.getOrThrow(decode({ step: "total", ...everything, ...given }, sub, yield* now)))
})

const checkModel = Effect.fnUntraced(function*(sub: string, models: ReadonlyArray<Model>) {
  const store = yield* UsageStore
  const found = yield* Effect.forEach(
    models,
    (model) => Effect.map(store.ofTask(model.task.uuid), (usage) => ({ model, usage }))
  )
  for (const { model, usage } of found) {
    const isVisible = isTerminal(model.status) || (model.hasBooking && model.reported !== null)
    assert.strictEqual(usage !== null, isVisible)
    if (usage === null) continue
    const { booked } = model
    assert.deepStrictEqual(
      [usage.inputTokens, usage.outputTokens, usage.totalTokens, usage.cachedInputTokens, usage.reasoningTokens],
      [booked.input, booked.output, booked.total, booked.cached, booked.reasoning]
    )
    assert.strictEqual(usage.isFinal, isTerminal(model.status))
    assert.strictEqual(usage.isMetered, model.reported !== null)
    if (isTerminal(model.status)) assert.strictEqual(usage.activeSeconds, Math.floor(model.active / 1_000_000))
  }
  const ofTasks = sumOf(found.flatMap(({ usage }) => usage === null ? [] : [usage]))
  for (const given of [{}, { step: "month", group_by: "model" }, { step: "month", group_by: "assistant,model" }]) {
    const { buckets, totals } = yield* read(sub, given)
    assert.deepStrictEqual(numbers(totals), ofTasks)
    assert.deepStrictEqual(sumOf(buckets), ofTasks)
    const ended = models.filter(({ status }) => isTerminal(status))
    assert.strictEqual(totals.tasks, ended.length)
    for (const status of ["completed", "failed", "canceled"] as const) {
      assert.strictEqual(totals[status], ended.filter((model) => model.status === status).length)
    }
    assert.strictEqual(totals.unmeteredTasks, ended.filter(({ reported }) => reported === null).length)
  }
})

export const contract = (it: UsageTests) => {
  it.effect.prop(
    "books what any events in any order report once, and the sum over buckets is the sum over tasks",
    [Steps],
    ([given]) =>
      Effect.gen(function*() {
        const writes = yield* TaskStore
        const store = yield* UsageStore
        const sub = `user-${yield* uuid}`
        const principal = { sub, tokenId: "token", issuedAt: 1_700_000_000 }
        const models = yield* Effect.forEach([1, 2, 2, 3], (assistantId) =>
          Effect.map(stored({ principal, assistantId }), (task): Model => ({
            task,
            status: "pending",
            reported: null,
            booked: Usage.none,
            hasBooking: false,
            active: 0,
            since: 0
          })))
        let last: Effect.Effect<unknown, unknown> = Effect.void
        for (const step of given) {
          if (step === "book") {
            yield* store.book(3)
          } else if (step === "repeat") {
            yield* last
          } else {
            yield* TestClock.adjust(step.seconds * 1000)
            const model = models[step.task]!
            const at = yield* now
            const report = reportOf(step)
            const event = withUsage(yield* eventOf(step.tag), report)
            const fence = { runId: model.task.runId, coreEventId: yield* uuid }
            // A resume begins a new run, so only events before it are fenced.
            const outcome = yield* writes.commit(model.task.uuid, event, at)
            if (outcome._tag === "Applied") {
              follow(model, event, report, at)
            }
            last = isTerminal(model.status) ? writes.commit(model.task.uuid, event, at, fence) : Effect.void
          }
        }
        yield* checkModel(sub, models)
        while ((yield* store.book(5)).length > 0) {
          /* all of it */
        }
        yield* checkModel(sub, models)
      }),
    { arbitrary: { runs: 40 } }
  )

  it.effect("counts the difference of each leg, in the hour of its interrupt or end", () =>
    Effect.gen(function*() {
      const writes = yield* TaskStore
      const store = yield* UsageStore
      yield* TestClock.setTime(Date.parse("2026-11-21T10:59:00Z"))
      const task = yield* stored()
      const { sub } = task.principal
      const at = (minutes: number) =>
        Effect.andThen(TestClock.setTime(Date.parse("2026-11-21T10:59:00Z") + minutes * 60_000), now)
      const leg = (tokens: Usage.Tokens) => ({ model: "m", tokens })
      yield* writes.commit(task.uuid, yield* eventOf("Accepted"), yield* at(0))
      const interrupt = (usage: Usage.TurnUsage) =>
        Event.cases.Interrupted.make({ toolCalls: fromValue([call]), state: null, turn, report: encodeReport(usage) })
      yield* writes.commit(task.uuid, interrupt(leg(tokensOf(10, 1))), yield* at(0.5))
      const resume = yield* eventOf("ToolResultsSubmitted")
      yield* writes.commit(task.uuid, resume, yield* at(1))
      yield* writes.commit(task.uuid, interrupt(leg(tokensOf(30, 3))), yield* at(2))
      yield* store.book(100)
      yield* writes.commit(task.uuid, yield* eventOf("ToolResultsSubmitted"), yield* at(60))
      yield* writes.commit(
        task.uuid,
        Event.cases.Completed.make({ turn, report: encodeReport(leg(tokensOf(100, 10))) }),
        yield* at(61.5)
      )
      const { buckets } = yield* read(sub, {
        step: "hour",
        group_by: "model",
        from: "2026-11-21T00:00:00Z",
        to: "2026-11-22T00:00:00Z"
      })
      assert.deepStrictEqual(
        buckets.map((
          { activeSeconds, from, inputTokens, model, tasks }
        ) => [from, model, inputTokens, activeSeconds, tasks]),
        [["10", 10, 30, 0], ["11", 20, 60, 0], ["12", 70, 90, 1]].map(([hour, tokens, seconds, tasks]) => [
          fromMicros(Date.parse(`2026-11-21T${hour}:00:00Z`) * 1000),
          "m",
          tokens,
          seconds,
          tasks
        ])
      )
    }))

  it.effect("leaves out the time for which resumed runs wait in the queue", () =>
    Effect.gen(function*() {
      const writes = yield* TaskStore
      const store = yield* UsageStore
      const begun = (yield* now) / 1000
      const at = (minutes: number) => Effect.andThen(TestClock.setTime(begun + minutes * 60_000), now)
      const [admitted, ended, known] = [yield* stored(), yield* stored(), yield* stored()]
      for (const [tag, minutes] of [["Accepted", 0], ["Interrupted", 1]] as const) {
        for (const { uuid } of [admitted, ended, known]) {
          yield* writes.commit(uuid, yield* eventOf(tag), yield* at(minutes))
        }
      }
      for (const { uuid } of [ended, known, admitted]) {
        const answer = yield* eventOf("ToolResultsSubmitted")
        yield* writes.commit(uuid, answer, yield* at(2), undefined, undefined, true)
      }
      yield* writes.commit(ended.uuid, yield* eventOf("TimeLimitExceeded"), yield* at(10))
      // An event shows that the core has the run.
      yield* writes.commit(known.uuid, yield* eventOf("Progressed"), yield* at(20))
      assert.deepStrictEqual(
        (yield* admit(5, { at: yield* at(30) })).heads.map(({ uuid }) => uuid),
        [admitted.uuid]
      )
      for (const { uuid } of [admitted, known]) yield* writes.commit(uuid, yield* eventOf("Completed"), yield* at(33))
      const seconds = yield* Effect.forEach(
        [admitted, ended, known],
        ({ uuid }) => Effect.map(store.ofTask(uuid), (usage) => usage?.activeSeconds)
      )
      assert.deepStrictEqual(seconds, [60 + 180, 60, 60 + 780])
    }))

  it.effect("keeps usage after its task is deleted, until it is erased or too old", () =>
    Effect.gen(function*() {
      const writes = yield* TaskStore
      const store = yield* UsageStore
      const retention = yield* TaskStore
      const end = Effect.fnUntraced(function*() {
        const task = yield* stored()
        const at = yield* now
        yield* writes.commit(
          task.uuid,
          Event.cases.Completed.make({ turn, report: encodeReport({ model: null, tokens: tokensOf(5, 5) }) }),
          at
        )
        return task
      })
      const [before, after, other] = [yield* end(), yield* end(), yield* end()]
      assert.isTrue(yield* retention.deleteTask(before.uuid))
      yield* store.book(100)
      assert.isTrue(yield* retention.deleteTask(after.uuid))
      assert.isNull(yield* store.ofTask(before.uuid))
      for (const { principal: { sub } } of [before, after]) {
        assert.strictEqual((yield* read(sub, {})).totals.totalTokens, 10)
      }
      yield* store.erase(before.principal.sub)
      assert.strictEqual((yield* read(before.principal.sub, {})).totals.tasks, 0)
      yield* end()
      yield* store.erase(other.principal.sub)
      assert.strictEqual((yield* read(other.principal.sub, {})).totals.tasks, 0)
      const tomorrow = fromMicros((yield* now) + 86_400_000_000)
      while ((yield* store.book(100)).length > 0) {
        /* all of it */
      }
      assert.isAbove(yield* store.deleteBefore(tomorrow, 1000), 0)
      assert.strictEqual((yield* read(after.principal.sub, {})).totals.tasks, 0)
    }))

  it.effect("does not count an event of a run that is over", () =>
    Effect.gen(function*() {
      const writes = yield* TaskStore
      const store = yield* UsageStore
      const task = yield* stored()
      const fence = { runId: yield* newRunId }
      const event = Event.cases.Completed.make({ turn, report: encodeReport({ model: "m", tokens: tokensOf(1, 1) }) })
      assert.strictEqual((yield* writes.commit(task.uuid, event, yield* now, fence))._tag, "Superseded")
      assert.isNull(yield* store.ofTask(task.uuid))
      assert.strictEqual((yield* read(task.principal.sub, {})).totals.totalTokens, 0)
    }))
}
