/**
 * Forms from a tool's output schema: an object of plain values and enums, two levels of nesting; anything else is JSON. A library checks
 * the answer by the whole schema, so that no value outside of its bounds is sent.
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

export type FormField =
  & Described
  & { readonly path: ReadonlyArray<string>; readonly group?: FieldGroup }
  & (
    | { readonly kind: "text" | "number" | "integer" | "boolean" }
    | { readonly kind: "one" | "many"; readonly options: ReadonlyArray<string> }
  )

/** Fields of one form. */
const maxFields = 50
/** Objects within objects. */
const maxNesting = 2
const maxOptions = 100
/** Characters of a hint. */
const maxHint = 500

const optionsOf = (schema: unknown): ReadonlyArray<string> | undefined => {
  const values = listField(schema, "enum")
  const texts = values.filter((value) => typeof value === "string")
  return values.length > 0 && texts.length === values.length && texts.length <= maxOptions ? texts : undefined
}

const formats: Readonly<Record<string, string>> = {
  date: "A date like 2026-11-23",
  time: "A time like 10:31:00Z",
  "date-time": "A moment like 2026-11-23T10:31:00Z",
  email: "An email address",
  uri: "An address like https://shop.example",
  uuid: "A UUID"
}

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
    return typeof bound === "number" || typeof bound === "string" ? [rules[keyword]?.(bound)] : []
  })
  // A choice of texts is a select; other choices are typed.
  const choices = optionsOf(schema) === undefined ? listField(schema, "enum") : []
  if (choices.length > 0) limits.push(`One of ${choices.map((choice) => JSON.stringify(choice)).join(", ")}`)
  const text = [textField(schema, "description"), limits.join(", ")].filter(Boolean).join(" · ")
  return text === "" ? undefined : text.slice(0, maxHint)
}

const describe = (name: string, schema: unknown, isRequired: boolean) => ({
  label: textField(schema, "title") ?? name,
  hint: hintOf(schema),
  isRequired
})

const fieldOf = (path: ReadonlyArray<string>, schema: unknown, isRequired: boolean): FormField | undefined => {
  const base = { path, ...describe(path.at(-1) ?? "", schema, isRequired) }
  const options = optionsOf(schema)
  if (options !== undefined) return { ...base, kind: "one", options }
  const type = textField(schema, "type")
  if (type === "string") return { ...base, kind: "text" }
  if (type === "number" || type === "integer" || type === "boolean") return { ...base, kind: type }
  const several = type === "array" ? optionsOf(field(schema, "items")) : undefined
  return several === undefined ? undefined : { ...base, kind: "many", options: several }
}

const isObject = (schema: unknown) => textField(schema, "type") === "object" && isFields(field(schema, "properties"))

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
  group: FieldGroup | undefined
): ReadonlyArray<FormField | undefined> =>
  propertiesOf(schema).flatMap(([name, property, isRequired]) => {
    const inner = [...path, name]
    if (!isObject(property)) {
      const found = fieldOf(inner, property, isRequired)
      return [group === undefined ? found : found && { ...found, group }]
    }
    return path.length < maxNesting
      ? fieldsIn(property, inner, { path: inner, within: group, ...describe(name, property, isRequired) })
      : [undefined]
  })

/** The fields of a form; undefined when the schema has a part that no field can show. */
export const fieldsOf = (schema: unknown): ReadonlyArray<FormField> | undefined => {
  if (!isObject(schema)) return undefined
  const fields = fieldsIn(schema, [], undefined)
  const known = fields.filter((found) => found !== undefined)
  return known.length === fields.length && known.length > 0 && known.length <= maxFields ? known : undefined
}

/** What was typed or chosen in each field, by its path. A field that nobody touched has no entry. */
export type Typed = Readonly<Record<string, string | boolean | ReadonlyArray<string>>>

export const keyOf = ({ path }: Pick<FormField, "path">): string => path.join(".")

export type Problems = Readonly<Record<string, string>>

const number = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d{1,3})?$/i

const valueOf = (
  { kind }: FormField,
  typed: Typed[string]
): { readonly value: unknown } | { readonly problem: string } => {
  if (kind !== "number" && kind !== "integer") return { value: typed }
  const text = String(typed).trim()
  const value = number.test(text) ? Number(text) : NaN
  if (kind === "integer" && !Number.isSafeInteger(value)) return { problem: "Must be a whole number" }
  return Number.isFinite(value) ? { value } : { problem: "Must be a number" }
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

/** The object of the form, or the problems of its fields. Fields that nobody filled are left out; nothing is assumed. */
const objectOf = (
  fields: ReadonlyArray<FormField>,
  typed: Typed
): { readonly value: Readonly<Record<string, unknown>>; readonly problems: Problems } => {
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
    if (text === undefined || isBlank(text)) {
      const { group } = each
      if (!isThere(group)) continue
      if (each.isRequired) problems[key] = "Must be given"
      else if (group !== undefined && !given.has(joined(group.path))) put(value, group.path, {})
      continue
    }
    const read = valueOf(each, text)
    if ("problem" in read) problems[key] = read.problem
    else put(value, each.path, read.value)
  }
  return { value, problems }
}

/** What was typed, as it would be for a value: of each field whose value it can show. */
export const typedOf = (fields: ReadonlyArray<FormField>, value: unknown): Typed => {
  const typed: Record<string, string | boolean | ReadonlyArray<string>> = {}
  for (const each of fields) {
    const found = each.path.reduce(field, value)
    if (found === undefined || found === null) continue
    const isShown = each.kind === "boolean"
      ? typeof found === "boolean"
      : each.kind === "many"
      ? Array.isArray(found) && found.every((one) => each.options.includes(one))
      : each.kind === "one"
      ? typeof found === "string" && each.options.includes(found)
      : typeof found === (each.kind === "text" ? "string" : "number")
    if (!isShown) continue
    typed[keyOf(each)] = typeof found === "number" ? String(found) : found as string | boolean | ReadonlyArray<string>
  }
  return typed
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
  pointer.split("/").slice(1).map((part) => decodeURI(part).replaceAll("~1", "/").replaceAll("~0", "~"))

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

/** The object of the form, if it matches the schema. */
export const outputOf = (schema: unknown, fields: ReadonlyArray<FormField>, typed: Typed): Output => {
  const { problems, value } = objectOf(fields, typed)
  if (Object.keys(problems).length > 0) return { problems }
  const found: Record<string, string> = {}
  const others: Array<string> = []
  for (const mismatch of mismatchesOf(schema, value)) {
    if (wrappers.has(mismatch.keyword)) continue
    const path = pathOf(mismatch.instanceLocation)
    const of = fields.find((each) => each.path.every((part, index) => path[index] === part))
    if (of === undefined) others.push(inWords(schema, mismatch))
    else found[keyOf(of)] ??= inWords(schema, { ...mismatch, instanceLocation: "#" })
  }
  if (Object.keys(found).length > 0) return { problems: found }
  const [problem] = others
  return problem === undefined ? { value } : { problems: {}, problem: problem.slice(0, maxHint) }
}

const none: Readonly<Record<string, unknown>> = {}

const byRequest = new WeakMap<object, Readonly<Record<string, unknown>>>()

/** The output schemas of a task's client tools, by name. */
export const schemasOf = (task: object): Readonly<Record<string, unknown>> => {
  const request = field(task, "request")
  if (!isFields(request)) return none
  const known = byRequest.get(request)
  if (known !== undefined) return known
  const schemas = Object.fromEntries(
    listField(request, "client_tools").flatMap((tool) => {
      const name = textField(tool, "name")
      const schema = field(tool, "output_schema") ?? field(tool, "outputSchema")
      return name === undefined || schema === undefined ? [] : [[name, schema]]
    })
  )
  byRequest.set(request, schemas)
  return schemas
}
