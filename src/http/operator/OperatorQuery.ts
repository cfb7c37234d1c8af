/** Decodes the queries of operators. An unknown name is an error too: ignoring it would return an unfiltered list. */
import { Duration, Effect, Option, Result, Schema } from "effect"
import { Base64Url } from "effect/encoding"
import { HttpServerRequest } from "effect/http"
import { isStorable } from "../../domain/Fields.ts"
import * as Limits from "../../domain/Limits.ts"
import { TaskStatus } from "../../domain/Task.ts"
import { now, parse, plus, startOfMinute, Timestamp } from "../../domain/Timestamp.ts"
import { AttemptError, DeliveryState } from "../../domain/Webhook.ts"
import { actions } from "../../services/operator/Audit.ts"
import { orderOf, type Position, type Range } from "../../services/operator/OperatorStore.ts"
import { invalid, type ValidationFailed } from "../contract/Errors.ts"
import { validationFailed } from "../handlers/body/BodyErrors.ts"
import { clocks, maxStuckMinutes, pages } from "./OperatorSchemas.ts"

const maxRange = Duration.days(31)
const defaultRange = Duration.days(1)
const maxPeriods = 1500
/** Characters: a user, an origin and an id are shorter. */
const maxText = 2048
const cursorVersion = 1

/** The range of two texts, by default the last day. `path` is in front of their names in errors. */
export const rangeOf = Effect.fnUntraced(function*(
  { from, to }: { readonly from?: string | null | undefined; readonly to?: string | null | undefined },
  path = ""
): Effect.fn.Return<Range, ValidationFailed> {
  const expected = "Expected a moment in ISO 8601 with its offset"
  const end = to === undefined || to === null ? yield* now : parse(to)
  if (end === undefined) return yield* invalid(`${path}to`, expected)
  const begin = from === undefined || from === null ? plus(end, Duration.negate(defaultRange)) : parse(from)
  if (begin === undefined) return yield* invalid(`${path}from`, expected)
  if (begin > end || plus(begin, maxRange) < end) {
    return yield* invalid(`${path}from`, "Expected a range of at most 31 days, which begins before it ends")
  }
  return { from: begin, to: end }
})

const Cursor = Schema.fromJsonString(
  Schema.Tuple([Schema.Literal(cursorVersion), Schema.String, Timestamp, Schema.String])
)
const decodeCursor = Schema.decodeUnknownOption(Cursor)

/** The text of a position in one order. */
export const cursorOf = (order: string, position: Position | null): string | null =>
  position === null ? null : Base64Url.encode(JSON.stringify([cursorVersion, order, position.at, position.id]))

const positionOf = (order: string, isId: RegExp, cursor: string | undefined) => {
  if (cursor === undefined) return Effect.succeed(null)
  return Result.getSuccess(Base64Url.decodeString(cursor)).pipe(
    Option.flatMap(decodeCursor),
    Option.filter(([, of, , id]) => of === order && isId.test(id)),
    Option.match({
      onNone: () => Effect.fail(invalid("cursor", "Expected `next` of a page with the same filter")),
      onSome: ([, , at, id]) => Effect.succeed<Position>({ at, id })
    })
  )
}

const uuidPattern = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
const ids = {
  task: new RegExp(`^${uuidPattern}$`),
  delivery: new RegExp(`^${uuidPattern}-\\d{1,9}$`),
  revocation: /^(token|user) /,
  line: new RegExp(`^${uuidPattern}$`)
}

/** The parameters of a query, each at most once. */
const parametersOf = Effect.fnUntraced(function*<const Name extends string>(names: ReadonlyArray<Name>) {
  const given = yield* HttpServerRequest.ParsedSearchParams
  const errors: Record<string, ReadonlyArray<string>> = {}
  const found: { [Key in Name]?: string } = {}
  const isName = (name: string): name is Name => names.some((known) => known === name)
  for (const [name, value] of Object.entries(given)) {
    if (!isName(name)) errors[name.slice(0, 64)] = [`Expected one of ${names.join(", ")}`]
    else if (typeof value !== "string" || value === "" || value.length > maxText || !isStorable(value)) {
      errors[name] = [`Expected one text of 1 to ${maxText} characters`]
    } else found[name] = value
  }
  if (Object.keys(errors).length > 0) return yield* validationFailed(errors)
  return found
})

const oneOf = <const Value extends string>(name: string, values: ReadonlyArray<Value>, text: string | undefined) => {
  const found = values.find((value) => value === text)
  return text === undefined || found !== undefined
    ? Effect.succeed(found ?? null)
    : Effect.fail(invalid(name, `Expected one of ${values.join(", ")}`))
}

interface Bounds {
  readonly default: number
  readonly maximum: number
}

const integerOf = (name: string, text: string | undefined, { default: absent, maximum }: Bounds) => {
  const value = text === undefined ? absent : /^\d{1,9}$/.test(text) ? Number(text) : 0
  return value >= 1 && value <= maximum
    ? Effect.succeed(value)
    : Effect.fail(invalid(name, `Expected an integer between 1 and ${maximum}`))
}

const limitOf = (text: string | undefined, bounds: Bounds) => integerOf("limit", text, bounds)

export const tasks = Effect.gen(function*() {
  const { cursor, error = null, fingerprint = null, limit, q: text = null, sub = null, ...given } = yield* parametersOf(
    [
      "q",
      "sub",
      "status",
      "error",
      "fingerprint",
      "from",
      "to",
      "cursor",
      "limit"
    ]
  )
  const status = yield* oneOf("status", TaskStatus.literals, given.status)
  if (text !== null && text.length > Limits.searchLength) {
    return yield* invalid("q", `Expected one text of 1 to ${Limits.searchLength} characters`)
  }
  const isOfFailures = error !== null || fingerprint !== null
  if (isOfFailures && status !== null && status !== "failed") {
    return yield* invalid(
      error === null ? "fingerprint" : "error",
      "Expected with the status failed, or without a status"
    )
  }
  const searched = isOfFailures ? "failed" : status
  const order = orderOf({ status: searched, sub })
  const after = yield* positionOf(order, ids.task, cursor)
  return {
    order,
    search: {
      ...(yield* rangeOf(given)),
      after,
      limit: yield* limitOf(limit, pages),
      sub,
      status: searched,
      error,
      fingerprint,
      text
    }
  }
})

export const deliveries = Effect.gen(function*() {
  const { cursor, limit, origin = null, ...given } = yield* parametersOf([
    "origin",
    "state",
    "error",
    "from",
    "to",
    "cursor",
    "limit"
  ])
  const state = yield* oneOf("state", DeliveryState.literals, given.state)
  const error = yield* oneOf("error", AttemptError.literals, given.error)
  const order = "deliveries"
  const after = yield* positionOf(order, ids.delivery, cursor)
  return {
    order,
    search: { ...(yield* rangeOf(given)), after, limit: yield* limitOf(limit, pages), origin, state, error }
  }
})

export const revocations = Effect.gen(function*() {
  const { cursor, limit } = yield* parametersOf(["cursor", "limit"])
  const order = "revocations"
  const after = yield* positionOf(order, ids.revocation, cursor)
  return { order, after, limit: yield* limitOf(limit, pages) }
})

/** Minutes without progress, undefined where none are given, and the number of rows. */
export const stuck = Effect.gen(function*() {
  const { limit, minutes } = yield* parametersOf(["minutes", "limit"])
  return {
    minutes: minutes === undefined
      ? undefined
      : yield* integerOf("minutes", minutes, { default: maxStuckMinutes, maximum: maxStuckMinutes }),
    limit: yield* limitOf(limit, clocks)
  }
})

export const range = Effect.flatMap(parametersOf(["from", "to"]), (given) => rangeOf(given))

export const clockLimit = Effect.flatMap(parametersOf(["limit"]), ({ limit }) => limitOf(limit, clocks))

const steps = ["60", "300", "3600"] as const

/** The range begins with a whole minute, as the counts do. */
export const history = Effect.gen(function*() {
  const given = yield* parametersOf(["from", "to", "step"])
  const step = Number((yield* oneOf("step", steps, given.step)) ?? "300")
  const { from, to } = yield* rangeOf(given)
  const start = startOfMinute(from)
  const periods = Math.ceil((to - start) / (step * 1_000_000))
  if (periods > maxPeriods) {
    return yield* invalid("step", `Expected at most ${maxPeriods} periods: use a longer step or a shorter range`)
  }
  return { from: start, step, periods }
})

const momentOf = (name: string, text: string | undefined) => {
  const found = text === undefined ? null : parse(text)
  return found === undefined
    ? Effect.fail(invalid(name, "Expected a moment in ISO 8601 with its offset"))
    : Effect.succeed(found)
}

/** All that is kept, unless a range is given. */
export const audit = Effect.gen(function*() {
  const { cursor, limit, operator = null, sub = null, task = null, ...given } = yield* parametersOf([
    "sub",
    "task",
    "operator",
    "action",
    "from",
    "to",
    "cursor",
    "limit"
  ])
  const action = given.action ?? null
  if (action !== null && !/^[a-z_]{1,64}$/.test(action)) {
    return yield* invalid("action", `Expected an action, as in ${actions.slice(0, 3).join(", ")}`)
  }
  const order = "audit"
  return {
    order,
    search: {
      sub,
      task: task?.toLowerCase() ?? null,
      operator,
      action,
      from: yield* momentOf("from", given.from),
      to: yield* momentOf("to", given.to),
      after: yield* positionOf(order, ids.line, cursor),
      limit: yield* limitOf(limit, pages)
    }
  }
})
