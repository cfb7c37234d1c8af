/**
 * Validates a tool call's arguments against the client's JSON Schema, within a budget of steps. The schema is not compiled or
 * expanded, because references make a small schema exponentially large. Validation ends with the budget. Keywords that are
 * not interpreted here accept everything; regular expressions are never run.
 */
import type { Schema } from "effect"
import { isJsonObject } from "../../../domain/json/OpaqueJson.ts"

/** Maximum steps; each visits one value of the schema or the arguments. */
const maxSteps = 50_000

/** Maximum levels of nested schemas and references. */
const maxDepth = 200

const maxProblems = 10
const maxKeyCharacters = 100
const maxProblemCharacters = 1000
const maxReferenceCharacters = 1000

class OutOfBudget extends Error {}

type Json = Schema.Json | undefined
type Path = ReadonlyArray<string | number>
type Keywords = Schema.JsonObject

const typeOf = (value: Json) => value === null ? "null" : Array.isArray(value) ? "array" : typeof value

const isOfType = (value: Json, type: Json) =>
  type === "integer" ? Number.isInteger(value) : typeof type !== "string" || typeOf(value) === type

const nameOf = (step: string | number) =>
  JSON.stringify(typeof step === "string" ? step.slice(0, maxKeyCharacters) : step)

const numberBounds: ReadonlyArray<readonly [keyword: string, isKept: (value: number, bound: number) => boolean]> = [
  ["minimum", (value, bound) => value >= bound],
  ["maximum", (value, bound) => value <= bound],
  ["exclusiveMinimum", (value, bound) => value > bound],
  ["exclusiveMaximum", (value, bound) => value < bound]
]

class Check {
  readonly #root: Json
  #left = maxSteps

  constructor(root: Json) {
    this.#root = root
  }

  step(cost = 1) {
    if ((this.#left -= cost) < 0) throw new OutOfBudget()
  }

  /** Formats a problem, which takes one step per level of its path. */
  problem(message: string, path: Path): string {
    this.step(path.length)
    return `${message} at ${path.map((step) => `[${nameOf(step)}]`).join("")}`.slice(0, maxProblemCharacters)
  }

  /** The schema that a `$ref` within the document points to; undefined, which accepts everything, for other documents. */
  resolve(reference: string): Json {
    if (!reference.startsWith("#") || reference.length > maxReferenceCharacters) return undefined
    let found = this.#root
    for (const part of reference.split("/").slice(1)) {
      this.step()
      const key = decodeURIComponent(part).replaceAll("~1", "/").replaceAll("~0", "~")
      if (Array.isArray(found)) found = /^\d+$/.test(key) ? found[Number(key)] : undefined
      else found = isJsonObject(found) && Object.hasOwn(found, key) ? found[key] : undefined
    }
    return found
  }

  isEqual(one: Json, other: Json): boolean {
    this.step()
    if (Array.isArray(one) && Array.isArray(other)) {
      return one.length === other.length && one.every((item, index) => this.isEqual(item, other[index]))
    }
    if (!isJsonObject(one) || !isJsonObject(other)) return one === other
    const keys = Object.keys(one)
    this.step(keys.length)
    return keys.length === Object.keys(other).length
      && keys.every((key) => Object.hasOwn(other, key) && this.isEqual(one[key], other[key]))
  }

  isValid(schema: Json, value: Json, depth: number) {
    return this.problems(schema, value, [], depth).length === 0
  }

  problems(schema: Json, value: Json, path: Path, depth: number): ReadonlyArray<string> {
    this.step()
    if (depth > maxDepth) throw new OutOfBudget()
    if (schema === false) return [this.problem("Unexpected value", path)]
    if (!isJsonObject(schema)) return []
    const { $ref, type } = schema
    const types = Array.isArray(type) ? type : [type]
    this.step(types.length)
    if (!types.some((one) => isOfType(value, one))) {
      return [this.problem(`Expected ${types.join(" or ")}, got ${typeOf(value)}`, path)]
    }
    return [
      ...(typeof $ref === "string" ? this.problems(this.resolve($ref), value, path, depth + 1) : []),
      ...this.#values(schema, value, path),
      ...this.#alternatives(schema, value, path, depth),
      ...(Array.isArray(value)
        ? this.#items(schema, value, path, depth)
        : isJsonObject(value)
        ? this.#properties(schema, value, path, depth)
        : [])
    ].slice(0, maxProblems)
  }

  #values(schema: Keywords, value: Json, path: Path): ReadonlyArray<string> {
    const { enum: allowed, maxLength, minLength } = schema
    const problems: Array<string> = []
    const add = (message: string) => problems.push(this.problem(message, path))
    if (Array.isArray(allowed) && !allowed.some((one) => this.isEqual(one, value))) {
      add("Expected one of the values of enum")
    }
    if ("const" in schema && !this.isEqual(schema["const"], value)) add("Expected the value of const")
    if (typeof value === "number") {
      for (const [keyword, isKept] of numberBounds) {
        const bound = schema[keyword]
        if (typeof bound === "number" && !isKept(value, bound)) add(`Expected ${keyword} ${bound}`)
      }
    }
    if (typeof value === "string") {
      if (typeof minLength === "number" && value.length < minLength) add(`Expected at least ${minLength} characters`)
      if (typeof maxLength === "number" && value.length > maxLength) add(`Expected at most ${maxLength} characters`)
    }
    return problems
  }

  #alternatives(schema: Keywords, value: Json, path: Path, depth: number): ReadonlyArray<string> {
    const { allOf, anyOf, oneOf } = schema
    const fits = (one: Json) => this.isValid(one, value, depth + 1)
    return [
      ...(Array.isArray(allOf) ? allOf.flatMap((one) => this.problems(one, value, path, depth + 1)) : []),
      ...(Array.isArray(anyOf) && !anyOf.some(fits)
        ? [this.problem("Expected one of the schemas of anyOf", path)]
        : []),
      ...(Array.isArray(oneOf) && oneOf.filter(fits).length !== 1
        ? [this.problem("Expected exactly one of the schemas of oneOf", path)]
        : [])
    ]
  }

  #items(schema: Keywords, value: ReadonlyArray<Json>, path: Path, depth: number): ReadonlyArray<string> {
    const { items, maxItems, minItems, prefixItems } = schema
    const first = Array.isArray(prefixItems) ? prefixItems : []
    const problems: Array<string> = []
    const add = (message: string) => problems.push(this.problem(message, path))
    if (typeof minItems === "number" && value.length < minItems) add(`Expected at least ${minItems} items`)
    if (typeof maxItems === "number" && value.length > maxItems) add(`Expected at most ${maxItems} items`)
    for (const [index, item] of value.entries()) {
      problems.push(...this.problems(index < first.length ? first[index] : items, item, [...path, index], depth + 1))
      if (problems.length >= maxProblems) break
    }
    return problems
  }

  #properties(schema: Keywords, value: Keywords, path: Path, depth: number): ReadonlyArray<string> {
    const { additionalProperties, patternProperties, properties, required } = schema
    const known = isJsonObject(properties) ? properties : {}
    const problems: Array<string> = []
    if (Array.isArray(required)) {
      this.step(required.length)
      for (const key of required) {
        const isMissing = typeof key === "string" && !Object.hasOwn(value, key)
        if (isMissing && problems.length < maxProblems) problems.push(this.problem("Missing key", [...path, key]))
      }
    }
    // Patterns are not run, so any key may match one.
    const rest = isJsonObject(patternProperties) ? undefined : additionalProperties
    const keys = Object.keys(value)
    this.step(keys.length)
    for (const key of keys) {
      const isKnown = Object.hasOwn(known, key)
      if (!isKnown && rest === false) problems.push(this.problem("Unexpected key", [...path, key]))
      else problems.push(...this.problems(isKnown ? known[key] : rest, value[key], [...path, key], depth + 1))
      if (problems.length >= maxProblems) break
    }
    return problems
  }
}

/** Problems of the arguments, with messages for the model; none when validation exceeds its budget. */
export const problemsOf = (schema: Json, given: Json): ReadonlyArray<string> => {
  const check = new Check(schema)
  try {
    return check.problems(schema, given, [], 0)
  } catch {
    return []
  }
}

/** True if a value has more levels than `maxLevels`. */
export const isDeeperThan = (value: unknown, maxLevels: number): boolean => {
  if (typeof value !== "object" || value === null) return false
  return maxLevels === 0 || Object.values(value).some((inner) => isDeeperThan(inner, maxLevels - 1))
}
