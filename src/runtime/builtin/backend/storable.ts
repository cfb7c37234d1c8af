/** Replaces the characters with which the service refuses an event, NUL and lone surrogates, by U+FFFD. */
import { Predicate, type Schema } from "effect"
import { isJsonObject, type JsonObject } from "../../../domain/OpaqueJson.ts"

export const storableText = (text: string): string => text.toWellFormed().replaceAll("\0", "\uFFFD")

export const storableObject = (object: JsonObject): JsonObject =>
  Object.fromEntries(Object.entries(object).map(([key, value]) => [storableText(key), storable(value)]))

export const storable = (value: Schema.Json): Schema.Json => {
  if (Predicate.isString(value)) return storableText(value)
  if (Array.isArray(value)) return value.map(storable)
  return isJsonObject(value) ? storableObject(value) : value
}
