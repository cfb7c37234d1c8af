/** Usage as it is read: buckets of tasks, tokens and money, and what one task consumed. */
import { DateTime, Duration, Result, Schema } from "effect"
import { isStorable } from "../../domain/Fields.ts"
import { fromMicros, parse, plus, Timestamp } from "../../domain/Timestamp.ts"

/** Lengths of a bucket of usage, in UTC. */
export const usageSteps = ["hour", "day", "month", "total"] as const
/** The groups of buckets; users only ask for their own. */
export const usageKeys = ["assistant", "model", "sub"] as const
/** Keys of one query. */
export const usageGroups = 2
/** Orders of buckets: by period and then the largest first, or the largest of all periods first. */
export const usageOrders = ["period", "tokens", "cost"] as const
/** Buckets of one response. */
export const usageBuckets = 10_000

/** The numbers of a bucket. */
export const Amounts = Schema.Struct({
  tasks: Schema.Int,
  completed: Schema.Int,
  failed: Schema.Int,
  canceled: Schema.Int,
  inputTokens: Schema.Int,
  outputTokens: Schema.Int,
  totalTokens: Schema.Int,
  cachedInputTokens: Schema.Int,
  reasoningTokens: Schema.Int,
  activeSeconds: Schema.Int,
  /** Plain decimal; null when nothing has a price. */
  cost: Schema.NullOr(Schema.String),
  unpricedTokens: Schema.Int,
  unmeteredTasks: Schema.Int
})
export interface Amounts extends Schema.Schema.Type<typeof Amounts> {}

export const Bucket = Schema.Struct({
  ...Amounts.fields,
  /** The begin of the period; with the step `total`, that of the range. */
  from: Timestamp,
  assistant: Schema.optionalKey(Schema.Finite),
  model: Schema.optionalKey(Schema.NullOr(Schema.String)),
  sub: Schema.optionalKey(Schema.String)
})
export interface Bucket extends Schema.Schema.Type<typeof Bucket> {}

export interface Sums {
  readonly buckets: ReadonlyArray<Bucket>
  readonly totals: Amounts
}

/** The consumption of a task, as far as it is booked. */
export const TaskUsage = Schema.Struct({
  inputTokens: Schema.Int,
  outputTokens: Schema.Int,
  totalTokens: Schema.Int,
  cachedInputTokens: Schema.Int,
  reasoningTokens: Schema.Int,
  activeSeconds: Schema.Int,
  cost: Schema.NullOr(Schema.String),
  isMetered: Schema.Boolean,
  isFinal: Schema.Boolean
})
export interface TaskUsage extends Schema.Schema.Type<typeof TaskUsage> {}

export type Step = typeof usageSteps[number]
export type Key = typeof usageKeys[number]
export type Order = typeof usageOrders[number]

export interface UsageQuery {
  readonly from: Timestamp
  /** Exclusive. */
  readonly to: Timestamp
  readonly step: Step
  readonly groupBy: ReadonlyArray<Key>
  readonly assistantId: number | null
  /** Null: of all users. */
  readonly sub: string | null
  readonly order: Order
  /** Buckets at most; null: as many as a response has. */
  readonly limit: number | null
}

export const limits = {
  /** The longest range by its step. */
  range: { hour: Duration.days(31), day: Duration.days(400), month: undefined, total: undefined } satisfies Record<
    Step,
    Duration.Duration | undefined
  >,
  buckets: usageBuckets
} as const

/** Everything before the present moment less this time is final: an event is written this late at most. */
export const settling = Duration.minutes(1)

const hour = 3_600_000_000

const startOfMonth = (moment: Timestamp): Timestamp =>
  fromMicros(DateTime.toEpochMillis(DateTime.startOf(DateTime.makeUnsafe(Math.floor(moment / 1000)), "month")) * 1000)

/** The end of a bucket. */
export const endOf = (from: Timestamp, { step, to }: Pick<UsageQuery, "step" | "to">): Timestamp => {
  if (step === "total") return to
  if (step === "hour") return fromMicros(from + hour)
  return step === "day" ? plus(from, Duration.days(1)) : startOfMonth(plus(from, Duration.days(32)))
}

/** The parameters as texts; those that were not given are undefined, and those that were repeated are lists. */
export type Parameters = { readonly [name: string]: string | ReadonlyArray<string> | undefined }

type Errors = Record<string, ReadonlyArray<string>>

/** Reads texts of a query, and collects what is wrong with them. */
class Reader {
  readonly errors: Errors = {}
  readonly #given: Parameters

  constructor(given: Parameters) {
    this.#given = given
    for (const name of Object.keys(given)) {
      const [, field] = /^(\w+)\[/.exec(name) ?? []
      // An unknown bracket form is an error; ignoring it would return other numbers.
      if (field !== undefined) this.#fail(field.slice(0, 64), `${name.slice(0, 64)} is not a form of this parameter`)
    }
  }

  #fail(name: string, message: string): undefined {
    this.errors[name] = [message]
    return undefined
  }

  read<A>(name: string, expected: string, absent: A, of: (text: string) => A | undefined): A {
    const value = this.#given[name]
    if (value === undefined) return absent
    const found = typeof value === "string" && value !== "" ? of(value) : undefined
    if (found === undefined) this.#fail(name, `Expected ${expected}`)
    return found ?? absent
  }
}

const oneOf = <A extends string>(names: ReadonlyArray<A>) => (text: string): A | undefined =>
  names.find((name) => name === text)

const listOf = <A extends string>(names: ReadonlyArray<A>) => (text: string): ReadonlyArray<A> | undefined => {
  const found = [...new Set(text.split(","))].map(oneOf(names))
  return found.length <= usageGroups && found.every((name) => name !== undefined) ? found : undefined
}

const integerTo = (maximum: number) => (text: string) => {
  const value = /^\d{1,16}$/.test(text) ? Number(text) : 0
  return value >= 1 && value <= maximum ? value : undefined
}

const moment = "a moment in ISO 8601 with its offset"

/** The fault of a range, by the parameter. */
const problemOf = (from: Timestamp, to: Timestamp, step: Step): string | undefined => {
  if (from >= to) return "Expected a moment before `to`"
  const longest = limits.range[step]
  return longest !== undefined && plus(from, longest) < to
    ? `Expected a range of at most ${Duration.toDays(longest)} days with the step ${step}`
    : undefined
}

/**
 * Decodes the parameters. `sub` is the user who asks. An operator, who is none, may ask for any user, group by them, and ask for the
 * largest buckets only.
 */
export const decode = (
  given: Parameters,
  sub: string | null,
  now: Timestamp
): Result.Result<UsageQuery, Readonly<Errors>> => {
  const reader = new Reader(given)
  const known = usageKeys.filter((key) => sub === null || key !== "sub")
  const step = reader.read("step", `one of ${usageSteps.join(", ")}`, "day", oneOf(usageSteps))
  const to = reader.read("to", moment, now, parse)
  const from = reader.read("from", moment, startOfMonth(fromMicros(to - 1)), parse)
  const groupBy = reader.read("group_by", `at most ${usageGroups} of ${known.join(", ")}`, [], listOf(known))
  const assistantId = reader.read("assistant_id", "the id of an assistant", null, integerTo(Number.MAX_SAFE_INTEGER))
  const ofOperators = sub === null
    ? {
      sub: reader.read("sub", "a user", null, (text) => text.length <= 255 && isStorable(text) ? text : undefined),
      order: reader.read("order", `one of ${usageOrders.join(", ")}`, usageOrders[0], oneOf(usageOrders)),
      limit: reader.read("limit", `an integer between 1 and ${limits.buckets}`, null, integerTo(limits.buckets))
    }
    : { sub, order: usageOrders[0], limit: null }
  const { errors } = reader
  const problem = errors["to"] ?? errors["from"] ? undefined : problemOf(from, to, step)
  if (problem !== undefined) errors["from"] = [problem]
  if (Object.keys(errors).length > 0) return Result.fail(errors)
  return Result.succeed({
    from: fromMicros(Math.floor(from / hour) * hour),
    to: fromMicros(Math.ceil(to / hour) * hour),
    step,
    groupBy,
    assistantId,
    ...ofOperators
  })
}
