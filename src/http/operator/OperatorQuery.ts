/** Decodes the queries of operators. An unknown name is an error too: ignoring it would return an unfiltered list. */
import { Effect, Option, Result, Schema } from "effect"
import { Base64Url } from "effect/encoding"
import { HttpServerRequest } from "effect/http"
import { isStorable } from "../../domain/Fields.ts"
import { parse, startOfMinute, Timestamp } from "../../domain/Timestamp.ts"
import { AttemptError, DeliveryState } from "../../domain/Webhook.ts"
import type { TaskLink } from "../../services/Extensions.ts"
import { actions } from "../../services/operator/Audit.ts"
import type { Position } from "../../services/operator/OperatorStore.ts"
import { allDeliveries, orderOf } from "../../services/operator/Selection.ts"
import { invalid } from "../contract/Errors.ts"
import { validationFailed } from "../handlers/body/BodyErrors.ts"
import * as Filter from "./OperatorFilter.ts"
import { clocks, maxStuckMinutes, pages } from "./OperatorSchemas.ts"

const maxPeriods = 1500
const cursorVersion = 1

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
    else if (typeof value !== "string" || value === "" || value.length > Filter.maxText || !isStorable(value)) {
      errors[name] = [`Expected one text of 1 to ${Filter.maxText} characters`]
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

export const tasks = Effect.fnUntraced(function*(links: ReadonlyArray<TaskLink>) {
  const { cursor, limit, ...given } = yield* parametersOf([
    ...Filter.taskFields,
    ...Filter.selectionsOf(links).map(({ name }) => name),
    "cursor",
    "limit"
  ])
  const selection = yield* Filter.ofQuery(given, links)
  const order = orderOf(selection)
  const after = yield* positionOf(order, ids.task, cursor)
  return { order, search: { ...selection, after, limit: yield* limitOf(limit, pages) } }
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
    search: {
      ...allDeliveries,
      ...(yield* Filter.rangeOf(given)),
      after,
      limit: yield* limitOf(limit, pages),
      origin,
      state,
      error
    }
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

export const range = Effect.flatMap(parametersOf(["from", "to"]), (given) => Filter.rangeOf(given))

export const clockLimit = Effect.flatMap(parametersOf(["limit"]), ({ limit }) => limitOf(limit, clocks))

const steps = ["60", "300", "3600"] as const

/** The range begins with a whole minute, as the counts do. */
export const history = Effect.gen(function*() {
  const given = yield* parametersOf(["from", "to", "step"])
  const step = Number((yield* oneOf("step", steps, given.step)) ?? "300")
  const { from, to } = yield* Filter.rangeOf(given)
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
