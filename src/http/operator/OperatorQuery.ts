/** The queries of operators: their parameters, and what they mean. */
import { Effect, Schema } from "effect"
import * as Limits from "../../domain/Limits.ts"
import { TaskId } from "../../domain/Task.ts"
import { startOfMinute } from "../../domain/Timestamp.ts"
import { AttemptError, DeliveryState, parseDeliveryId } from "../../domain/Webhook.ts"
import type { TaskLink } from "../../services/Extensions.ts"
import { actions } from "../../services/operator/Audit.ts"
import { allDeliveries, orderOf } from "../../services/operator/Selection.ts"
import { invalid } from "../contract/Errors.ts"
import { schemaRef } from "../contract/OpaqueSchemas.ts"
import * as Parameters from "../Parameters.ts"
import * as Filter from "./OperatorFilter.ts"

const { integer, moment, momentSchema, oneOf, positionOf, read, text } = Parameters

const maxPeriods = 1500
const clocks = { default: 100, maximum: 200 } as const
const maxStuckMinutes = 1440

const range = {
  from: text("Begin of the range, a moment in ISO 8601; by default 24 hours before its end.", { schema: momentSchema }),
  to: text("End of the range, at most 31 days after its begin; now by default.", { schema: momentSchema })
}
const paging = Parameters.paging({ default: 50, maximum: 200 })
const rows = (description: string) => ({ limit: integer(description, clocks.maximum, clocks.default) })

/** Filters of tasks, which bulk actions have too. */
export const taskFilter = {
  q: text(
    "Only tasks with this text in their id, their user, their metadata or their error, whatever the case. An id is found outside of the "
      + "range too if its first eight digits are given; `01920000…abcd` is short for one.",
    { longest: Limits.searchLength, schema: { type: "string", minLength: 1, maxLength: Limits.searchLength } }
  ),
  sub: text("Only tasks of this user."),
  status: text("Only tasks of this status.", { schema: schemaRef("TaskStatus") }),
  assistant: text("Only tasks of the assistant with this id.", { schema: { type: "integer" } }),
  label: text("Only tasks with this pair in their metadata, as `key=value`."),
  error: text("Only tasks that failed with this in the first 500 characters of their error, whatever the case."),
  fingerprint: text(
    "Only tasks whose error has this fingerprint, from `GET /internal/operator/errors` or the command `errors`."
  ),
  ...range
}

/** A parameter of an extension: the service refuses it where there are no schedules. */
export const ofSchedule = { schedule: text("Only of this schedule.") }

const ofDeliveries = {
  origin: text("Only of this origin, as in `https://client.example`."),
  error: oneOf("Only those whose last attempt failed like this.", AttemptError.literals)
}

/** The filter in the body of a request to redeliver. */
export const redeliveryFilter = { ...ofDeliveries, ...range }

export const parameters = {
  tasks: { ...taskFilter, ...paging },
  errors: range,
  durations: range,
  stuck: {
    minutes: integer("Minutes without progress; `STUCK_AFTER` by default.", maxStuckMinutes, null),
    ...rows("Number of tasks.")
  },
  clocks: rows("Items of each list."),
  history: {
    ...range,
    step: {
      ...oneOf("Seconds of a period.", ["60", "300", "3600"], "300"),
      schema: { type: "integer", enum: [60, 300, 3600], default: 300 }
    }
  },
  origins: range,
  deliveries: {
    ...ofDeliveries,
    state: oneOf("Only of this state.", DeliveryState.literals),
    ...range,
    ...paging
  },
  revocations: paging,
  audit: {
    sub: text("Only about this user, also after the erasure of the user's data."),
    task: text("Only about this task.", { schema: { type: "string", format: "uuid" } }),
    operator: text("Only by the operator with this name."),
    action: text(
      `Only this action: ${actions.map((action) => `\`${action}\``).join(", ")}, or one of an extension.`,
      { schema: { type: "string", pattern: "^[a-z_]{1,64}$" } }
    ),
    from: moment("Only from this moment, in ISO 8601; all that is kept by default."),
    to: moment("Only before this moment."),
    ...paging
  }
}

const isTask = Schema.is(TaskId)

export const tasks = Effect.fnUntraced(function*(links: ReadonlyArray<TaskLink>) {
  const selections = Filter.selectionsOf(links).map(({ name }) => [name, text("")] as const)
  const { cursor, limit, ...given } = yield* read({ ...Object.fromEntries(selections), ...parameters.tasks })
  const selection = yield* Filter.ofQuery(given, links)
  const order = orderOf(selection)
  return { order, search: { ...selection, after: yield* positionOf(order, isTask, cursor), limit } }
})

export const deliveries = Effect.gen(function*() {
  const { cursor, from, to, ...given } = yield* read(parameters.deliveries)
  const order = "deliveries"
  const after = yield* positionOf(order, (id) => parseDeliveryId(id) !== undefined, cursor)
  return { order, search: { ...allDeliveries, ...(yield* Filter.rangeOf({ from, to })), ...given, after } }
})

export const revocations = Effect.gen(function*() {
  const { cursor, limit } = yield* read(paging)
  const order = "revocations"
  return { order, after: yield* positionOf(order, (id) => /^(token|user) /.test(id), cursor), limit }
})

/** Minutes without progress, null where none are given, and the number of rows. */
export const stuck = read(parameters.stuck)

export const rangeOf = Effect.flatMap(read(range), (given) => Filter.rangeOf(given))

export const clockLimit = read(parameters.clocks)

/** The range begins with a whole minute, as the counts do. */
export const history = Effect.gen(function*() {
  const given = yield* read(parameters.history)
  const step = Number(given.step)
  const { from, to } = yield* Filter.rangeOf(given)
  const start = startOfMinute(from)
  const periods = Math.ceil((to - start) / (step * 1_000_000))
  if (periods > maxPeriods) {
    return yield* invalid("step", `Expected at most ${maxPeriods} periods: use a longer step or a shorter range`)
  }
  return { from: start, step, periods }
})

/** All that is kept, unless a range is given. */
export const audit = Effect.gen(function*() {
  const { cursor, ...given } = yield* read(parameters.audit)
  if (given.action !== null && !/^[a-z_]{1,64}$/.test(given.action)) {
    return yield* invalid("action", `Expected an action, as in ${actions.slice(0, 3).join(", ")}`)
  }
  const order = "audit"
  const after = yield* positionOf(order, isTask, cursor)
  return { order, search: { ...given, task: given.task?.toLowerCase() ?? null, after } }
})
