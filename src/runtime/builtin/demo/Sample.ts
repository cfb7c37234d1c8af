/** A value that fits a JSON Schema of the usual keywords, for demo assistants that are asked for JSON. */
import { Predicate } from "effect"
import type { Schema } from "effect"
import type { JsonObject } from "../../../domain/json/OpaqueJson.ts"

/** Bounds of a value, whatever its schema says. */
const maxDepth = 16
const maxMembers = 100
const maxTotal = 1000
const textCharacters = 1000

const isObject = (value: unknown): value is JsonObject => Predicate.isObject(value)

const listOf = (value: unknown): ReadonlyArray<Schema.Json> => Array.isArray(value) ? value : []

/** The part of the root at a reference within it, as in `#/$defs/Person`. */
const resolve = (root: JsonObject, reference: string): unknown =>
  reference.slice(1).split("/").filter((name) => name !== "").reduce<unknown>(
    (found, name) => isObject(found) && Object.hasOwn(found, name) ? found[name] : undefined,
    root
  )

/** The first number within the bounds. */
const numberFor = ({ maximum, minimum }: JsonObject): number =>
  Predicate.isNumber(minimum) ? minimum : Predicate.isNumber(maximum) && maximum < 1 ? maximum : 1

const textFor = ({ maxLength, minLength }: JsonObject, text: string): string => {
  const most = Math.min(textCharacters, Predicate.isNumber(maxLength) ? maxLength : textCharacters)
  const least = Math.min(most, Predicate.isNumber(minLength) ? minLength : 0)
  return text.slice(0, most).toWellFormed().padEnd(least, ".")
}

/** A large constant is not repeated. */
const constant = (value: Schema.Json): Schema.Json =>
  Predicate.isObject(value) || Array.isArray(value)
    ? null
    : Predicate.isString(value)
    ? value.slice(0, textCharacters)
    : value

/** `text` stands for every string. */
export const of = (schema: unknown, text: string): Schema.Json => {
  const root = isObject(schema) ? schema : { type: "object", properties: { answer: { type: "string" } } }
  let total = 0
  const sample = (given: unknown, depth: number): Schema.Json => {
    if (!isObject(given) || depth > maxDepth || ++total > maxTotal) return null
    const { $ref: reference, const: only } = given
    if (Predicate.isString(reference)) return sample(resolve(root, reference), depth + 1)
    if (only !== undefined) return constant(only)
    const [first] = listOf(given["enum"])
    if (first !== undefined) return constant(first)
    const [choice] = [...listOf(given["anyOf"]), ...listOf(given["oneOf"]), ...listOf(given["allOf"])]
    if (choice !== undefined) return sample(choice, depth + 1)
    const type = Array.isArray(given["type"]) ? given["type"][0] : given["type"]
    switch (type ?? (isObject(given["properties"]) ? "object" : "string")) {
      case "object": {
        const properties = Object.entries(isObject(given["properties"]) ? given["properties"] : {})
        return Object.fromEntries(
          properties.slice(0, maxMembers).map(([name, property]) => [name, sample(property, depth + 1)])
        )
      }
      case "array": {
        const least = Predicate.isNumber(given["minItems"]) ? given["minItems"] : 1
        const length = Math.max(0, Math.min(least, maxMembers))
        return Array.from({ length }, () => sample(given["items"] ?? {}, depth + 1))
      }
      case "number":
      case "integer":
        return numberFor(given)
      case "boolean":
        return true
      case "null":
        return null
      default:
        return textFor(given, text)
    }
  }
  return sample(root, 0)
}
