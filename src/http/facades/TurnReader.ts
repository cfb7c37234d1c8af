/** Reads a turn of the usual shape. The service stores turns unread, so whatever has another shape is skipped. */
import { Predicate } from "effect"
import { isJsonObject, type JsonObject, type OpaqueJson, toText } from "../../domain/OpaqueJson.ts"
import { outputText } from "../../domain/Turn.ts"

export interface ReadTurn {
  /** The text items, separated by blank lines. */
  readonly text: string
  /** Files and images, by their paths below the storage's base URL. */
  readonly files: ReadonlyArray<{ readonly name: string; readonly path: string }>
  readonly usage: { readonly input: number; readonly output: number; readonly total: number } | null
  readonly messages: ReadonlyArray<JsonObject>
}

const none: ReadTurn = { text: "", files: [], usage: null, messages: [] }

const field = (value: unknown, name: string): unknown => isJsonObject(value) ? value[name] : undefined

const list = (value: unknown): ReadonlyArray<unknown> => Array.isArray(value) ? value : []

const fileOf = (item: unknown) => {
  const file = field(item, "file")
  const [name, path] = [field(file, "name"), field(field(file, "provider_data"), "path")]
  return Predicate.isString(name) && Predicate.isString(path) ? [{ name, path }] : []
}

const usageOf = (usage: unknown): ReadTurn["usage"] => {
  const count = (name: string) => {
    const value = field(usage, name)
    return Number.isSafeInteger(value) ? Number(value) : undefined
  }
  const [input, output] = [count("input_tokens"), count("output_tokens")]
  return input === undefined || output === undefined
    ? null
    : { input, output, total: count("total_tokens") ?? input + output }
}

const hasRole = (message: unknown): message is JsonObject => Predicate.isString(field(message, "role"))

export const read = (json: OpaqueJson | null): ReadTurn => {
  if (json === null) return none
  const turn: unknown = JSON.parse(toText(json))
  if (!isJsonObject(turn)) return none
  return {
    text: list(turn["output"]).length === 0 ? "" : outputText({ turn }),
    files: list(turn["output"]).flatMap(fileOf),
    usage: usageOf(field(turn["metadata"], "usage")),
    messages: list(turn["messages"]).filter(hasRole)
  }
}
