/**
 * Texts of the fields of a schema, and the answer that they make. A library checks the answer by the whole schema, so that
 * no value outside of its bounds is sent.
 */
import { type OutputUnit, type Schema, Validator } from "@cfworker/json-schema"
import { field, isFields, textField } from "./json.ts"
import {
  type FieldGroup,
  type FormField,
  maxHint,
  maxRows,
  pathOf,
  plainName,
  put,
  rules,
  type TextFormat
} from "./schemaForm.ts"

/** The rows of a list. */
export interface TypedRows {
  readonly rows: ReadonlyArray<Typed>
}

/** The text or choice of each field, by its path. A field that nobody touched has no entry. */
export interface Typed {
  readonly [key: string]: string | boolean | ReadonlyArray<string> | TypedRows
}

export const rowsIn = (typed: unknown): ReadonlyArray<Typed> | undefined => {
  const rows = field(typed, "rows")
  return Array.isArray(rows) ? rows : undefined
}

export const keyOf = ({ path }: Pick<FormField, "path">): string => path.join(".")

/** By the path of the value, where rows have their index. */
export type Problems = Readonly<Record<string, string>>

const number = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d{1,3})?$/i

type Read = { readonly value: unknown } | { readonly problem: string }

const numberOf = (kind: "number" | "integer", typed: Typed[string]): Read => {
  const text = String(typed).trim()
  const value = number.test(text) ? Number(text) : NaN
  if (kind === "integer" && !Number.isSafeInteger(value)) return { problem: "Must be a whole number" }
  return Number.isFinite(value) ? { value } : { problem: "Must be a number" }
}

/** The text of a control as the format has it. What the control cannot have made stays as it is. */
const formatted = (format: TextFormat | undefined, text: string): string => {
  if (format === "time") return /^\d\d:\d\d(:\d\d)?$/.test(text) ? `${text}${text.length === 5 ? ":00" : ""}Z` : text
  if (format !== "date-time" || !/^\d{4}-\d\d-\d\dT\d\d:\d\d/.test(text)) return text
  const at = new Date(text)
  return Number.isNaN(at.getTime()) ? text : at.toISOString().replace(".000Z", "Z")
}

const two = (value: number) => String(value).padStart(2, "0")

/** The text of a control for a value; the value itself where the control cannot show it. */
const shownAs = (format: TextFormat | undefined, value: string): string => {
  if (format === "time") return value.replace(/(:\d\d)(\.0+)?(Z|\+00:00)$/, "$1")
  const at = new Date(value)
  if (format !== "date-time" || Number.isNaN(at.getTime())) return value
  const [day, time] = [[at.getMonth() + 1, at.getDate()], [at.getHours(), at.getMinutes(), at.getSeconds()]]
  return `${at.getFullYear()}-${day.map(two).join("-")}T${time.map(two).join(":")}`
}

const isBlank = (typed: Typed[string] | undefined) =>
  typeof typed === "string" ? typed.trim() === "" : typed === undefined

const joined = (path: ReadonlyArray<string>) => JSON.stringify(path)

interface Made {
  readonly value: Readonly<Record<string, unknown>>
  readonly problems: Problems
}

/** The value of a field that has one. Problems of rows are by their paths. */
const valueOf = (each: FormField, typed: Typed[string], key: string): Read | { readonly problems: Problems } => {
  switch (each.kind) {
    case "number":
    case "integer":
      return numberOf(each.kind, typed)
    case "text":
      return { value: formatted(each.format, String(typed)) }
    case "one": {
      const index = each.options.indexOf(String(typed))
      return index < 0 ? { problem: "Must be one of the choices" } : { value: each.values[index] }
    }
    case "many":
      return {
        value: Array.isArray(typed) ? each.values.filter((_, index) => typed.includes(each.options[index])) : []
      }
    case "rows": {
      const rows = (rowsIn(typed) ?? []).map((row, index) => {
        const { problems, value } = objectOf(each.fields, row)
        const at = (name: string) => each.isPlain ? `${key}.${index}` : `${key}.${index}.${name}`
        return {
          value: each.isPlain ? value[plainName] : value,
          problems: Object.entries(problems).map(([name, problem]) => [at(name), problem] as const)
        }
      })
      const problems = rows.flatMap((row) => row.problems)
      return problems.length > 0
        ? { problems: Object.fromEntries(problems) }
        : { value: rows.map(({ value }) => value) }
    }
    default:
      return { value: typed }
  }
}

/** The object of the form, or the problems of its fields. Fields that nobody filled are left out; nothing is assumed. */
const objectOf = (fields: ReadonlyArray<FormField>, typed: Typed): Made => {
  const value: Record<string, unknown> = {}
  const problems: Record<string, string> = {}
  const given = new Set(
    fields.filter((each) => !isBlank(typed[keyOf(each)])).flatMap(({ path }) =>
      path.map((_, index) => joined(path.slice(0, index)))
    )
  )
  /** Whether the object has to be there: it is required or has a value, and so are those around it. */
  const isThere = (group: FieldGroup | undefined): boolean =>
    group === undefined || ((group.isRequired || given.has(joined(group.path))) && isThere(group.within))
  for (const each of fields) {
    const key = keyOf(each)
    const text = typed[key]
    if (each.kind === "constant") {
      if (each.isRequired && isThere(each.group)) put(value, each.path, each.value)
    } else if (text === undefined || isBlank(text)) {
      const { group } = each
      if (!isThere(group)) continue
      if (each.isRequired) problems[key] = "Must be given"
      else if (group !== undefined && !given.has(joined(group.path))) put(value, group.path, {})
    } else {
      const read = valueOf(each, text, key)
      if ("problems" in read) Object.assign(problems, read.problems)
      else if ("problem" in read) problems[key] = read.problem
      else put(value, each.path, read.value)
    }
  }
  return { value, problems }
}

/** The text of a value in a field; undefined when the field cannot show it. */
const shownOf = (each: FormField, found: unknown): Typed[string] | undefined => {
  switch (each.kind) {
    case "boolean":
      return typeof found === "boolean" ? found : undefined
    case "one":
      return each.options[each.values.indexOf(found)]
    case "many":
      return Array.isArray(found) && found.every((one) => each.values.includes(one))
        ? each.options.filter((_, index) => found.includes(each.values[index]))
        : undefined
    case "text":
      return typeof found === "string" ? shownAs(each.format, found) : undefined
    case "rows": {
      if (!Array.isArray(found) || found.length > maxRows) return undefined
      return { rows: found.map((row) => typedOf(each.fields, each.isPlain ? { [plainName]: row } : row)) }
    }
    case "constant":
      return undefined
    default:
      return typeof found === "number" ? String(found) : undefined
  }
}

/** The texts of a value, of each field that can show its part. */
export const typedOf = (fields: ReadonlyArray<FormField>, value: unknown): Typed => {
  const typed: Record<string, Typed[string]> = {}
  for (const each of fields) {
    const found = each.path.reduce(field, value)
    const shown = found === undefined || found === null ? undefined : shownOf(each, found)
    if (shown !== undefined) typed[keyOf(each)] = shown
  }
  return typed
}

const validators = new WeakMap<object, Validator>()

const validatorOf = (schema: Schema): Validator => {
  const known = validators.get(schema)
  if (known !== undefined) return known
  const draft = textField(schema, "$schema")?.includes("draft-04") === true ? "4" : "2020-12"
  const made = new Validator(schema, draft, false)
  validators.set(schema, made)
  return made
}

/** The places at which a value does not match a schema. A schema that cannot be evaluated refuses nothing. */
const mismatchesOf = (schema: unknown, value: unknown): ReadonlyArray<OutputUnit> => {
  if (!isFields(schema)) return []
  try {
    return validatorOf(schema).validate(value).errors
  } catch {
    return []
  }
}

/** Keywords whose errors repeat those of their parts. */
const wrappers: ReadonlySet<string> = new Set(["properties", "items", "allOf", "$ref"])

const inWords = (schema: unknown, { error, instanceLocation, keyword, keywordLocation }: OutputUnit): string => {
  const bound = pathOf(keywordLocation).reduce(field, schema)
  const text = keyword === "uniqueItems" ? "Each may be chosen once" : rules[keyword]?.(bound) ?? error
  const path = pathOf(instanceLocation)
  return path.length === 0 ? text : `${path.join(".")}: ${text}`
}

/** Why a value does not match a schema, or undefined. */
export const mismatchOf = (schema: unknown, value: unknown): string | undefined => {
  const first = mismatchesOf(schema, value).find(({ keyword }) => !wrappers.has(keyword))
  return first && inWords(schema, first).slice(0, maxHint)
}

export type Output =
  | { readonly value: unknown }
  /** `problem` is about the whole answer. */
  | { readonly problems: Problems; readonly problem?: string }

/** The object of the form, if it matches the schema; otherwise all that is wrong with it. */
export const outputOf = (schema: unknown, fields: ReadonlyArray<FormField>, typed: Typed): Output => {
  const { problems, value } = objectOf(fields, typed)
  const found: Record<string, string> = {}
  const others: Array<string> = []
  for (const mismatch of mismatchesOf(schema, value)) {
    if (wrappers.has(mismatch.keyword)) continue
    const path = pathOf(mismatch.instanceLocation)
    const of = fields.find((each) => each.path.every((part, index) => path[index] === part))
    if (of === undefined) others.push(inWords(schema, mismatch))
    else {found[(of.kind === "rows" ? path : of.path).join(".")] ??= inWords(schema, {
        ...mismatch,
        instanceLocation: "#"
      })}
  }
  const all = { ...found, ...problems }
  if (Object.keys(all).length > 0) return { problems: all }
  const [problem] = others
  return problem === undefined ? { value } : { problems: {}, problem: problem.slice(0, maxHint) }
}
