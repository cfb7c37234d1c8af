/** Decodes the filter of a bulk action. An unknown name is an error: without it the action would be about more than was meant. */
import { Effect, Schema } from "effect"
import { isStorable } from "../../domain/Fields.ts"
import { encode, fromValue } from "../../domain/json/OpaqueJson.ts"
import type * as RawJson from "../../domain/json/RawJson.ts"
import * as Reader from "../../domain/json/Reader.ts"
import * as Limits from "../../domain/Limits.ts"
import { Metadata } from "../../domain/Metadata.ts"
import { isTerminal, TaskId, TaskStatus } from "../../domain/Task.ts"
import { format, now, Timestamp } from "../../domain/Timestamp.ts"
import { AttemptError, parseDeliveryId } from "../../domain/Webhook.ts"
import type { TaskLink } from "../../services/Extensions.ts"
import type { Selection, TaskSelection } from "../../services/operator/BulkSelection.ts"
import { validationFailed } from "../handlers/body/BodyErrors.ts"
import { maxIds } from "./ActionSchemas.ts"
import { rangeOf } from "./OperatorQuery.ts"

/** Characters: a user, an origin and an id are shorter. */
const maxText = 2048

type Action = "cancel" | "rerun" | "redeliver" | "delete"

const taskFields = ["status", "sub", "assistant", "error", "fingerprint", "label", "q", "from", "to", "ids"] as const
const deliveryFields = ["origin", "error", "status", "sub", "from", "to", "ids"] as const

const which: Readonly<Record<Exclude<Action, "redeliver">, TaskSelection["which"]>> = {
  cancel: "live",
  rerun: "kept",
  delete: "ended"
}

const isText = (value: unknown): value is string =>
  typeof value === "string" && value !== "" && value.length <= maxText && isStorable(value)

/** Pairs of metadata, as an object or as `key=value`. */
const labelsOf = (value: unknown): Record<string, string> | undefined => {
  const [, key, text] = typeof value === "string" ? /^([^=]+)=(.+)$/s.exec(value) ?? [] : []
  const pairs = key === undefined || text === undefined ? value : { [key]: text }
  return Schema.is(Metadata)(pairs) && Object.keys(pairs).length > 0 ? pairs : undefined
}

export interface DecodedFilter {
  readonly selection: Selection
  readonly sub: string | null
  /** As it is shown, with its range and without the user. */
  readonly shown: Readonly<Record<string, unknown>>
}

/** `links` are selections of extensions, as in the list of tasks. */
export const decode = Effect.fnUntraced(function*(
  action: Action,
  filter: RawJson.RawJson | object,
  links: ReadonlyArray<TaskLink>
) {
  const value = Reader.readValid(encode(fromValue(filter as Parameters<typeof fromValue>[0])))
  const given: Readonly<Record<string, unknown>> = Object.fromEntries(
    Object.entries(value as object).filter(([, value]) => value !== null)
  )
  const errors: Record<string, ReadonlyArray<string>> = {}
  const isOfTasks = action !== "redeliver"
  const selecting = links.flatMap(({ name, selection }) => selection === undefined ? [] : [{ name, selection }])
  const names: ReadonlyArray<string> = isOfTasks
    ? [...taskFields, ...selecting.map(({ name }) => name)]
    : deliveryFields
  for (const name of Object.keys(given)) {
    if (!names.includes(name)) errors[`filter.${name.slice(0, 64)}`] = [`Expected one of ${names.join(", ")}`]
  }
  const refuse = (name: string, expected: string) => {
    errors[`filter.${name}`] = [expected]
    return null
  }
  const textOf = (name: string, longest = maxText) => {
    const text = given[name]
    if (text === undefined) return null
    return isText(text) && text.length <= longest
      ? text
      : refuse(name, `Expected one text of 1 to ${longest} characters`)
  }
  const sub = textOf("sub")
  const status = given["status"] === undefined || Schema.is(TaskStatus)(given["status"])
    ? given["status"] ?? null
    : refuse("status", `Expected one of ${TaskStatus.literals.join(", ")}`)
  const { ids } = given
  const isIds = Array.isArray(ids) && ids.length > 0 && ids.length <= maxIds &&
    ids.every((id) => isOfTasks ? Schema.is(TaskId)(id) : typeof id === "string" && parseDeliveryId(id) !== undefined)
  if (ids !== undefined && !isIds) {
    refuse("ids", `Expected 1 to ${maxIds} ids of ${isOfTasks ? "tasks" : "deliveries"}`)
  }
  const range = isIds && given["from"] === undefined && given["to"] === undefined
    ? { from: null, to: yield* now }
    : yield* rangeOf({ from: textOf("from"), to: textOf("to") }, "filter.")
  // What is created later is not in the set.
  const to = Timestamp.make(Math.min(range.to, yield* now))
  const shown = {
    ...Object.fromEntries(Object.entries(given).filter(([name]) => name !== "sub")),
    ...(range.from === null ? {} : { from: format(range.from), to: format(to) })
  }
  if (!isOfTasks) {
    const error = given["error"] === undefined || Schema.is(AttemptError)(given["error"])
      ? given["error"] ?? null
      : refuse("error", `Expected one of ${AttemptError.literals.join(", ")}`)
    const origin = textOf("origin")
    if (Object.keys(errors).length > 0) return yield* validationFailed(errors)
    const decoded: DecodedFilter = {
      selection: {
        of: "deliveries",
        sub,
        status,
        origin,
        error,
        from: range.from,
        to,
        ids: isIds ? [...new Set(ids)] : null
      },
      sub,
      shown
    }
    return decoded
  }
  const [error, fingerprint] = [textOf("error"), textOf("fingerprint")]
  const isOfFailures = error !== null || fingerprint !== null
  if (isOfFailures && status !== null && status !== "failed") {
    refuse(error === null ? "fingerprint" : "error", "Expected with the status failed, or without a status")
  }
  const searched = isOfFailures ? "failed" : status
  if (searched !== null && isTerminal(searched) === (action === "cancel")) {
    refuse(
      isOfFailures && status === null ? (error === null ? "fingerprint" : "error") : "status",
      action === "cancel"
        ? "Expected tasks that have not ended: pending, processing or interrupted"
        : "Expected tasks that have ended: completed, failed or canceled"
    )
  }
  const assistant = given["assistant"] === undefined || Number.isSafeInteger(given["assistant"])
    ? Number(given["assistant"] ?? NaN)
    : (refuse("assistant", "Expected the id of an assistant, an integer"), NaN)
  const labels = given["label"] === undefined
    ? null
    : labelsOf(given["label"]) ?? refuse("label", "Expected metadata, as in {\"key\": \"value\"}")
  const text = textOf("q", Limits.searchLength)
  let selected: ReadonlyArray<TaskId> | null = isIds ? ids.map((id) => TaskId.make(String(id).toLowerCase())) : null
  for (const { name, selection } of selecting) {
    const wanted = given[name]
    if (wanted === undefined) continue
    if (typeof wanted !== "string" || !selection.isValue(wanted)) {
      refuse(name, `Expected ${selection.expected}`)
      continue
    }
    const found: ReadonlyArray<TaskId> = yield* selection.select(sub, wanted)
    selected = selected?.filter((id) => found.includes(id)) ?? found
  }
  if (Object.keys(errors).length > 0) return yield* validationFailed(errors)
  const decoded: DecodedFilter = {
    selection: {
      of: "tasks",
      sub,
      status: searched,
      assistant: Number.isNaN(assistant) ? null : assistant,
      error,
      fingerprint,
      text,
      labels,
      from: range.from,
      to,
      ids: selected,
      which: which[action]
    },
    sub,
    shown
  }
  return decoded
})
