/** Forms from a tool's output schema: an object of plain values and enums, one level of nesting. Anything else is JSON. */
import { field, isFields, listField, textField } from "./json.ts"

interface Described {
  readonly label: string
  readonly hint: string | undefined
  readonly isRequired: boolean
}

export type FormField =
  & Described
  & { readonly path: ReadonlyArray<string> }
  & (
    | { readonly kind: "text" | "number" | "integer" | "boolean" }
    | { readonly kind: "one" | "many"; readonly options: ReadonlyArray<string> }
  )

/** Fields of one form. */
const maxFields = 50
const maxOptions = 100

const optionsOf = (schema: unknown): ReadonlyArray<string> | undefined => {
  const values = listField(schema, "enum")
  const texts = values.filter((value) => typeof value === "string")
  return values.length > 0 && texts.length === values.length && texts.length <= maxOptions ? texts : undefined
}

const fieldOf = (path: ReadonlyArray<string>, schema: unknown, isRequired: boolean): FormField | undefined => {
  const base = {
    path,
    label: textField(schema, "title") ?? path.at(-1) ?? "",
    hint: textField(schema, "description"),
    isRequired
  }
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

/** The fields of a form; undefined when the schema has a part that no field can show. */
export const fieldsOf = (schema: unknown): ReadonlyArray<FormField> | undefined => {
  if (!isObject(schema)) return undefined
  const fields = propertiesOf(schema).flatMap(([name, property, isRequired]) =>
    isObject(property)
      ? propertiesOf(property).map(([inner, innerSchema, isInnerRequired]) =>
        fieldOf([name, inner], innerSchema, isRequired && isInnerRequired)
      )
      : [fieldOf([name], property, isRequired)]
  )
  const known = fields.filter((found) => found !== undefined)
  return known.length === fields.length && known.length > 0 && known.length <= maxFields ? known : undefined
}

/** The typed text of each field, by its path. */
export type Typed = Readonly<Record<string, string | boolean | ReadonlyArray<string>>>

export const keyOf = ({ path }: Pick<FormField, "path">): string => path.join(".")

export type Problems = Readonly<Record<string, string>>

const isBlank = (typed: Typed[string] | undefined) =>
  typed === undefined || typed === "" || (Array.isArray(typed) && typed.length === 0)

const valueOf = (
  { kind }: FormField,
  typed: Typed[string]
): { readonly value: unknown } | { readonly problem: string } => {
  if (kind !== "number" && kind !== "integer") return { value: typed }
  const number = typeof typed === "string" ? Number(typed) : NaN
  if (kind === "integer" && !Number.isSafeInteger(number)) return { problem: "Must be a whole number" }
  return Number.isFinite(number) ? { value: number } : { problem: "Must be a number" }
}

const put = (target: Record<string, unknown>, [first = "", second]: ReadonlyArray<string>, value: unknown) => {
  const inner = second === undefined
    ? undefined
    : { ...(isFields(target[first]) ? target[first] : {}), [second]: value }
  Object.defineProperty(target, first, { value: inner ?? value, enumerable: true, configurable: true, writable: true })
}

/** The object of the form, or the problems of its fields. Empty optional fields are left out. */
export const outputOf = (
  fields: ReadonlyArray<FormField>,
  typed: Typed
): { readonly value: unknown } | { readonly problems: Problems } => {
  const value: Record<string, unknown> = {}
  const problems: Record<string, string> = {}
  for (const each of fields) {
    const key = keyOf(each)
    const given = typed[key] ?? (each.kind === "boolean" ? false : undefined)
    if (given === undefined || isBlank(given)) {
      if (each.isRequired && each.kind !== "many") problems[key] = "Must be given"
      else if (each.isRequired) put(value, each.path, [])
      continue
    }
    const read = valueOf(each, given)
    if ("problem" in read) problems[key] = read.problem
    else put(value, each.path, read.value)
  }
  return Object.keys(problems).length === 0 ? { value } : { problems }
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
