/**
 * Forms from a tool's schemas: an object of plain values, choices and constants, two levels of nesting, and lists whose rows are such
 * objects; anything else is JSON. A library checks the answer by the whole schema, so that no value outside of its bounds is sent.
 */
import { type OutputUnit, type Schema, Validator } from "@cfworker/json-schema"
import { field, isFields, listField, textField } from "./json.ts"

interface Described {
  readonly label: string
  readonly hint: string | undefined
  readonly isRequired: boolean
}

/** The nested object that a field is a part of. Its required fields are required once it has a value. */
export interface FieldGroup extends Described {
  readonly path: ReadonlyArray<string>
  /** The object that it is a part of, below that of the form. */
  readonly within: FieldGroup | undefined
}

/** Formats that have a control of their own. */
type TextFormat = "date" | "time" | "date-time" | "email" | "uri"

export type FormField =
  & Described
  & { readonly path: ReadonlyArray<string>; readonly group?: FieldGroup }
  & (
    | { readonly kind: "text"; readonly format: TextFormat | undefined; readonly isLong: boolean }
    | { readonly kind: "number" | "integer" | "boolean" }
    /** `values` has what each option stands for. */
    | {
      readonly kind: "one" | "many"
      readonly options: ReadonlyArray<string>
      readonly values: ReadonlyArray<unknown>
    }
    | { readonly kind: "constant"; readonly value: unknown }
    /** A list. A row that is a plain value has one field. */
    | { readonly kind: "rows"; readonly fields: ReadonlyArray<FormField>; readonly isPlain: boolean }
  )

/** Fields of one form. */
const maxFields = 50
/** Objects within objects. */
const maxNesting = 2
const maxOptions = 100
/** Rows of a list. */
export const maxRows = 100
/** Characters of a hint. */
const maxHint = 500
/** Characters of a text that needs several lines. */
const longText = 80

/** Follows references within the schema, and takes the only choice that is not null. */
const resolve = (schema: unknown, root: unknown, depth = 0): unknown => {
  if (!isFields(schema) || depth > 8) return schema
  const reference = textField(schema, "$ref")
  if (reference?.startsWith("#/") === true) {
    const { $ref: _, ...own } = schema
    const found = pathOf(reference).reduce(field, root)
    return isFields(found) ? resolve({ ...found, ...own }, root, depth + 1) : schema
  }
  const choices = [...listField(schema, "anyOf"), ...listField(schema, "oneOf")]
  const [only, ...others] = choices.filter((each) => textField(each, "type") !== "null")
  if (choices.length > 1 && only !== undefined && others.length === 0 && isFields(only)) {
    const { anyOf: _, oneOf: __, ...own } = schema
    return resolve({ ...only, ...own }, root, depth + 1)
  }
  const types = listField(schema, "type").filter((type) => type !== "null")
  return types.length === 1 ? { ...schema, type: types[0] } : schema
}

const isPlain = (value: unknown) => ["string", "number", "boolean"].includes(typeof value)

/** The choices of an `enum`, or of constants with titles. */
const choicesOf = (
  schema: unknown
): { readonly options: ReadonlyArray<string>; readonly values: ReadonlyArray<unknown> } | undefined => {
  const constants = [...listField(schema, "oneOf"), ...listField(schema, "anyOf")]
  const isOfConstants = constants.length > 0 && constants.every((each) => isPlain(field(each, "const")))
  const values = isOfConstants
    ? constants.map((each) => field(each, "const"))
    : listField(schema, "enum").filter((value) => value !== null)
  if (values.length === 0 || values.length > maxOptions || !values.every(isPlain)) return undefined
  return { values, options: values.map((value, index) => textField(constants[index], "title") ?? String(value)) }
}

const formats: Readonly<Record<string, string>> = {
  date: "A date like 2026-11-23",
  time: "A time like 10:31:00Z",
  "date-time": "A moment like 2026-11-23T10:31:00Z",
  email: "An email address",
  uri: "An address like https://shop.example",
  uuid: "A UUID"
}

const textFormats: ReadonlyArray<TextFormat> = ["date", "time", "date-time", "email", "uri"]
/** What a control says itself needs no hint. */
const shownFormats: Readonly<Record<string, string>> = { date: "", time: "In UTC", "date-time": "In your time zone" }

/** What a keyword asks of a value. */
const rules: Readonly<Record<string, (bound: unknown) => string>> = {
  minimum: (bound) => `At least ${bound}`,
  maximum: (bound) => `At most ${bound}`,
  exclusiveMinimum: (bound) => `More than ${bound}`,
  exclusiveMaximum: (bound) => `Less than ${bound}`,
  multipleOf: (bound) => `A multiple of ${bound}`,
  minLength: (bound) => `At least ${bound} characters`,
  maxLength: (bound) => `At most ${bound} characters`,
  minItems: (bound) => `Choose at least ${bound}`,
  maxItems: (bound) => `Choose at most ${bound}`,
  pattern: (bound) => `Must match ${bound}`,
  format: (bound) => formats[String(bound)] ?? `Must have the format ${bound}`,
  enum: () => "Must be one of the choices",
  const: (bound) => `Must be ${JSON.stringify(bound)}`
}

/** Those that a hint shows: a pattern is not for everybody. */
const bounds = Object.keys(rules).filter((keyword) => !["pattern", "enum", "const"].includes(keyword))

const hintOf = (schema: unknown): string | undefined => {
  const limits = bounds.flatMap((keyword) => {
    const bound = field(schema, keyword)
    if (keyword === "format") {
      return [shownFormats[String(bound)] ?? (bound === undefined ? "" : rules["format"]?.(bound))]
    }
    return typeof bound === "number" || typeof bound === "string" ? [rules[keyword]?.(bound)] : []
  })
  const text = [textField(schema, "description"), limits.filter(Boolean).join(", ")].filter(Boolean).join(" · ")
  return text === "" ? undefined : text.slice(0, maxHint)
}

const describe = (name: string, schema: unknown, isRequired: boolean) => ({
  label: textField(schema, "title") ?? name,
  hint: hintOf(schema),
  isRequired
})

interface Reading {
  readonly root: unknown
  /** What the model proposes, which says whether a text needs several lines. */
  readonly example: unknown
}

const fieldOf = (
  path: ReadonlyArray<string>,
  schema: unknown,
  isRequired: boolean,
  { example, root }: Reading
): FormField | undefined => {
  const base = { path, ...describe(path.at(-1) ?? "", schema, isRequired) }
  const constant = field(schema, "const")
  if (constant !== undefined) return isPlain(constant) ? { ...base, kind: "constant", value: constant } : undefined
  const choices = choicesOf(schema)
  if (choices !== undefined) return { ...base, kind: "one", ...choices }
  const type = textField(schema, "type")
  if (type === "string") {
    const format = textFormats.find((each) => each === textField(schema, "format"))
    const proposed = path.reduce(field, example)
    const isLong = typeof proposed === "string" && (proposed.length > longText || proposed.includes("\n"))
    return { ...base, kind: "text", format, isLong: format === undefined && isLong }
  }
  if (type === "number" || type === "integer" || type === "boolean") return { ...base, kind: type }
  if (type !== "array") return undefined
  const items = resolve(field(schema, "items"), root)
  const several = choicesOf(items)
  return several === undefined
    ? rowsOf(base, items, { root, example: undefined })
    : { ...base, kind: "many", ...several }
}

const isObject = (schema: unknown) => textField(schema, "type") === "object" && isFields(field(schema, "properties"))

/** The name of the field of a row that is a plain value. */
const plainName = "value"

/** A list whose rows are plain values, or objects without lists. */
const rowsOf = (
  base: Described & { readonly path: ReadonlyArray<string> },
  items: unknown,
  reading: Reading
): FormField | undefined => {
  const isPlain = !isObject(items)
  const fields = isPlain ? [fieldOf([plainName], items, true, reading)] : fieldsIn(items, [], undefined, reading)
  const known = fields.filter((found) => found !== undefined)
  const isFlat = known.every(({ kind }) => kind !== "rows")
  return known.length === fields.length && known.length > 0 && isFlat
    ? { ...base, kind: "rows", fields: known, isPlain }
    : undefined
}

const propertiesOf = (
  schema: unknown
): ReadonlyArray<readonly [name: string, schema: unknown, isRequired: boolean]> => {
  const properties = field(schema, "properties")
  const required = new Set(listField(schema, "required"))
  return isFields(properties)
    ? Object.entries(properties).map(([name, property]) => [name, property, required.has(name)] as const)
    : []
}

/** The fields of an object; undefined for each part that no field can show. */
const fieldsIn = (
  schema: unknown,
  path: ReadonlyArray<string>,
  group: FieldGroup | undefined,
  reading: Reading
): ReadonlyArray<FormField | undefined> =>
  propertiesOf(schema).flatMap(([name, given, isRequired]) => {
    const property = resolve(given, reading.root)
    const inner = [...path, name]
    if (!isObject(property)) {
      const found = fieldOf(inner, property, isRequired, reading)
      return [group === undefined ? found : found && { ...found, group }]
    }
    return path.length < maxNesting
      ? fieldsIn(property, inner, { path: inner, within: group, ...describe(name, property, isRequired) }, reading)
      : [undefined]
  })

const countOf = (fields: ReadonlyArray<FormField>): number =>
  fields.reduce((sum, each) => sum + (each.kind === "rows" ? countOf(each.fields) : 1), 0)

/** The fields of a form; undefined when the schema has a part that no field can show. */
export const fieldsOf = (root: unknown, example?: unknown): ReadonlyArray<FormField> | undefined => {
  const schema = resolve(root, root)
  if (!isObject(schema)) return undefined
  const fields = fieldsIn(schema, [], undefined, { root, example })
  const known = fields.filter((found) => found !== undefined)
  return known.length === fields.length && known.length > 0 && countOf(known) <= maxFields ? known : undefined
}

/** The rows of a list. */
export interface TypedRows {
  readonly rows: ReadonlyArray<Typed>
}

/** What was typed or chosen in each field, by its path. A field that nobody touched has no entry. */
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

/** Sets a part of an object, and the objects around it, whatever their names are. */
const put = (target: Record<string, unknown>, [first = "", ...rest]: ReadonlyArray<string>, value: unknown) => {
  const own = Object.hasOwn(target, first) ? target[first] : undefined
  const inner: Record<string, unknown> = isFields(own) ? own : {}
  if (rest.length > 0) put(inner, rest, value)
  Object.defineProperty(target, first, {
    value: rest.length > 0 ? inner : value,
    enumerable: true,
    configurable: true,
    writable: true
  })
}

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

/** What would be typed for a value; undefined when the field cannot show it. */
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

/** What was typed, as it would be for a value: of each field whose value it can show. */
export const typedOf = (fields: ReadonlyArray<FormField>, value: unknown): Typed => {
  const typed: Record<string, Typed[string]> = {}
  for (const each of fields) {
    const found = each.path.reduce(field, value)
    const shown = found === undefined || found === null ? undefined : shownOf(each, found)
    if (shown !== undefined) typed[keyOf(each)] = shown
  }
  return typed
}

/** A schema of a value that has none: its own fields and types. */
export const schemaLike = (value: unknown): unknown => {
  if (Array.isArray(value)) return { type: "array", items: schemaLike(value[0]) }
  if (!isFields(value)) return { type: value === null ? "string" : typeof value }
  return {
    type: "object",
    properties: Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, schemaLike(inner)]))
  }
}

/** Levels of a skeleton. */
const maxDepth = 6

/** The required parts of an answer, each empty, for the JSON editor: what a person fills in. */
export const skeletonOf = (schema: unknown, depth = 0): unknown => {
  const constant = field(schema, "const")
  if (constant !== undefined) return constant
  const type = textField(schema, "type")
  if (isObject(schema) && depth < maxDepth) {
    const value: Record<string, unknown> = {}
    for (const [name, property, isRequired] of propertiesOf(schema)) {
      if (isRequired) put(value, [name], skeletonOf(property, depth + 1))
    }
    return value
  }
  if (type === "array") {
    const isNeeded = Number(field(schema, "minItems") ?? 0) > 0
    return isNeeded && depth < maxDepth ? [skeletonOf(field(schema, "items"), depth + 1)] : []
  }
  return type === "object" ? {} : type === "string" ? "" : null
}

/** The path of a JSON pointer in a URI, as in `#/address/city`. */
const pathOf = (pointer: string): ReadonlyArray<string> =>
  pointer.split("/").slice(1).map((part) => decoded(part).replaceAll("~1", "/").replaceAll("~0", "~"))

const decoded = (part: string): string => {
  try {
    return decodeURI(part)
  } catch {
    return part
  }
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

/** Where a value does not match a schema. A schema that cannot be evaluated refuses nothing. */
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

/** What the request says of a tool. */
export interface ToolSchemas {
  readonly output: unknown
  readonly parameters: unknown
}

export type Tools = Readonly<Record<string, ToolSchemas>>

const none: Tools = {}

const byRequest = new WeakMap<object, Tools>()

/** The schemas of a task's client tools, by name. */
export const toolsOf = (task: object): Tools => {
  const request = field(task, "request")
  if (!isFields(request)) return none
  const known = byRequest.get(request)
  if (known !== undefined) return known
  const tools = Object.fromEntries(
    listField(request, "client_tools").flatMap((tool) => {
      const name = textField(tool, "name")
      const output = field(tool, "output_schema") ?? field(tool, "outputSchema")
      return name === undefined ? [] : [[name, { output, parameters: field(tool, "parameters") }]]
    })
  )
  byRequest.set(request, tools)
  return tools
}
