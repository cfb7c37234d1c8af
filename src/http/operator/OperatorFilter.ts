/** Decodes what a search or a bulk action selects. An unknown name is an error: without it an action would be about more than was meant. */
import { Duration, Effect, Predicate, Record, Schema } from "effect"
import { hasAtMostCharacters } from "../../domain/Fields.ts"
import { encode, fromValue } from "../../domain/json/OpaqueJson.ts"
import type * as RawJson from "../../domain/json/RawJson.ts"
import * as Reader from "../../domain/json/Reader.ts"
import * as Limits from "../../domain/Limits.ts"
import { Metadata } from "../../domain/Metadata.ts"
import { isTerminal, TaskId, TaskStatus } from "../../domain/Task.ts"
import { format, now, parse, plus, Timestamp } from "../../domain/Timestamp.ts"
import { AttemptError, parseDeliveryId } from "../../domain/Webhook.ts"
import type { TaskLink } from "../../services/Extensions.ts"
import type { Range } from "../../services/operator/OperatorStore.ts"
import { allDeliveries, allTasks, type Selection, type TaskSelection } from "../../services/operator/Selection.ts"
import { invalid, type ValidationFailed } from "../contract/Errors.ts"
import { FieldErrors, validationFailed } from "../handlers/body/BodyErrors.ts"
import { checkTexts } from "../handlers/body/JsonBody.ts"
import { maxText } from "../Parameters.ts"
import { maxIds } from "./ActionSchemas.ts"

const maxRange = Duration.days(31)
const defaultRange = Duration.days(1)

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

type Action = "cancel" | "rerun" | "redeliver" | "delete"

const taskFields = ["q", "sub", "status", "assistant", "error", "fingerprint", "label", "from", "to"] as const
const deliveryFields = ["origin", "error", "status", "sub", "from", "to", "ids"] as const

const which: Readonly<Record<Exclude<Action, "redeliver">, TaskSelection["which"]>> = {
  cancel: "live",
  rerun: "kept",
  delete: "ended"
}

const isText = (value: unknown): value is string => typeof value === "string" && value !== "" && value.length <= maxText

/** Pairs of metadata, as an object or as `key=value`. */
const labelsOf = (value: unknown): Record<string, string> | undefined => {
  const [, key, text] = typeof value === "string" ? /^([^=]+)=(.+)$/s.exec(value) ?? [] : []
  const pairs = key === undefined || text === undefined ? value : { [key]: text }
  return Schema.is(Metadata)(pairs) && Object.keys(pairs).length > 0 ? pairs : undefined
}

/** Selections of extensions, as in the list of tasks. */
export const selectionsOf = (links: ReadonlyArray<TaskLink>) =>
  links.flatMap(({ name, selection }) => selection === undefined ? [] : [{ name, selection }])

type Given = Readonly<Record<string, unknown>>

/** Reads fields, and collects what is wrong with them. `path` is in front of their names in errors. */
const readerOf = (given: Given, path: string) => {
  const errors: Record<string, ReadonlyArray<string>> = {}
  const refuse = (name: string, expected: string) => {
    errors[`${path}${name.slice(0, 64)}`] = [expected]
    return null
  }
  return {
    refuse,
    knows: (names: ReadonlyArray<string>) => {
      for (const name of Object.keys(given)) {
        if (!names.includes(name)) refuse(name, `Expected one of ${names.join(", ")}`)
      }
    },
    text: (name: string, longest = maxText) => {
      const text = given[name]
      if (text === undefined) return null
      return isText(text) && hasAtMostCharacters(text, longest)
        ? text
        : refuse(name, `Expected one text of 1 to ${longest} characters`)
    },
    oneOf: <const Value extends string>(name: string, values: ReadonlyArray<Value>) => {
      const found = values.find((value) => value === given[name])
      return given[name] === undefined || found !== undefined
        ? found ?? null
        : refuse(name, `Expected one of ${values.join(", ")}`)
    },
    ids: (isId: (id: unknown) => boolean, of: string): ReadonlyArray<string> | null => {
      const { ids } = given
      if (ids === undefined) return null
      return Array.isArray(ids) && ids.length > 0 && ids.length <= maxIds && ids.every(isId)
        ? [...new Set(ids.map(String))]
        : refuse("ids", `Expected 1 to ${maxIds} ids of ${of}`)
    },
    check: Effect.suspend(() => Object.keys(errors).length > 0 ? validationFailed(errors) : Effect.void)
  }
}

type Reading = ReturnType<typeof readerOf>

/** The tasks that fields select within a range. */
const tasksOf = Effect.fnUntraced(function*(
  given: Given,
  { check, ids: readIds, oneOf, refuse, text: textOf }: Reading,
  range: { readonly from: Timestamp | null; readonly to: Timestamp },
  which: TaskSelection["which"],
  links: ReadonlyArray<TaskLink>
) {
  const sub = textOf("sub")
  const status = oneOf("status", TaskStatus.literals)
  const [error, fingerprint] = [textOf("error"), textOf("fingerprint")]
  const isOfFailures = error !== null || fingerprint !== null
  const ofFailures = error === null ? "fingerprint" : "error"
  if (isOfFailures && status !== null && status !== "failed") {
    refuse(ofFailures, "Expected with the status failed, or without a status")
  }
  const searched = isOfFailures ? "failed" : status
  if (searched !== null && which !== "all" && isTerminal(searched) === (which === "live")) {
    refuse(
      status === null ? ofFailures : "status",
      which === "live"
        ? "Expected tasks that have not ended: pending, processing or interrupted"
        : "Expected tasks that have ended: completed, failed or canceled"
    )
  }
  const { assistant, label } = given
  if (assistant !== undefined && !Number.isSafeInteger(assistant)) {
    refuse("assistant", "Expected the id of an assistant, an integer")
  }
  const labels = label === undefined
    ? null
    : labelsOf(label) ?? refuse("label", "Expected metadata, as in {\"key\": \"value\"}")
  const ids = readIds(Schema.is(TaskId), "tasks")
  let selected: ReadonlyArray<TaskId> | null = ids?.map((id) => TaskId.make(id.toLowerCase())) ?? null
  const text = textOf("q", Limits.searchLength)
  for (const { name, selection } of selectionsOf(links)) {
    const wanted = given[name]
    if (wanted === undefined) continue
    if (typeof wanted !== "string" || !selection.isValue(wanted)) {
      refuse(name, `Expected ${selection.expected}`)
      continue
    }
    const found: ReadonlyArray<TaskId> = yield* selection.select(sub, wanted)
    selected = selected?.filter((id) => found.includes(id)) ?? found
  }
  yield* check
  const selection: TaskSelection = {
    ...allTasks,
    ...range,
    sub,
    status: searched,
    assistant: assistant === undefined ? null : Number(assistant),
    error,
    fingerprint,
    text,
    labels,
    ids: selected,
    which
  }
  return selection
})

/** The tasks that the parameters of a query select. */
export const ofQuery = Effect.fnUntraced(function*(
  parameters: Readonly<Record<string, string | null>>,
  links: ReadonlyArray<TaskLink>
) {
  const given = Record.filter(parameters, Predicate.isNotNull)
  const { assistant } = given
  const fields = assistant === undefined
    ? given
    : { ...given, assistant: /^\d{1,16}$/.test(assistant) ? Number(assistant) : null }
  return yield* tasksOf(fields, readerOf(fields, ""), yield* rangeOf(given), "all", links)
})

export interface DecodedFilter {
  readonly selection: Selection
  readonly sub: string | null
  /** As it is shown, with its range and without the user. */
  readonly shown: Given
}

/** The filter of a bulk action. */
export const ofBody = Effect.fnUntraced(function*(
  action: Action,
  filter: RawJson.RawJson | object,
  links: ReadonlyArray<TaskLink>
) {
  // A filter by the test kit is an object of JSON.
  const value = Reader.readValid(encode(fromValue(filter as Parameters<typeof fromValue>[0]))) as object
  const unstorable = new FieldErrors()
  checkTexts(value, unstorable, ["filter"])
  if (!unstorable.isEmpty) return yield* unstorable.toError()
  const given: Given = Object.fromEntries(Object.entries(value).filter(([, value]) => value !== null))
  const reading = readerOf(given, "filter.")
  reading.knows(
    action === "redeliver" ? deliveryFields : [...taskFields, "ids", ...selectionsOf(links).map(({ name }) => name)]
  )
  const range = given["ids"] !== undefined && given["from"] === undefined && given["to"] === undefined
    ? { from: null, to: yield* now }
    : yield* rangeOf({ from: reading.text("from"), to: reading.text("to") }, "filter.")
  // Tasks that are created later are not in the set.
  const to = Timestamp.make(Math.min(range.to, yield* now))
  const shown = {
    ...Object.fromEntries(Object.entries(given).filter(([name]) => name !== "sub")),
    ...(range.from === null ? {} : { from: format(range.from), to: format(to) })
  }
  if (action !== "redeliver") {
    const selection = yield* tasksOf(given, reading, { from: range.from, to }, which[action], links)
    return { selection, sub: selection.sub, shown } satisfies DecodedFilter
  }
  const ids = reading.ids((id) => typeof id === "string" && parseDeliveryId(id) !== undefined, "deliveries")
  const selection: Selection = {
    ...allDeliveries,
    sub: reading.text("sub"),
    status: reading.oneOf("status", TaskStatus.literals),
    origin: reading.text("origin"),
    error: reading.oneOf("error", AttemptError.literals),
    // Those given by id are sent again in any state.
    state: ids === null ? "failed" : null,
    from: range.from,
    to,
    ids
  }
  yield* reading.check
  return { selection, sub: selection.sub, shown } satisfies DecodedFilter
})
