/**
 * The fields of a form from a tool's schema: an object of plain values, choices and constants, two levels of nesting, and lists whose
 * rows are such objects; anything else is JSON.
 */
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
export type TextFormat = "date" | "time" | "date-time" | "email" | "uri"

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
export const maxHint = 500
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
export const rules: Readonly<Record<string, (bound: unknown) => string>> = {
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
export const plainName = "value"

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

/** Sets a part of an object, and the objects around it, whatever their names are. */
export const put = (target: Record<string, unknown>, [first = "", ...rest]: ReadonlyArray<string>, value: unknown) => {
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
export const pathOf = (pointer: string): ReadonlyArray<string> =>
  pointer.split("/").slice(1).map((part) => decoded(part).replaceAll("~1", "/").replaceAll("~0", "~"))

const decoded = (part: string): string => {
  try {
    return decodeURI(part)
  } catch {
    return part
  }
}
