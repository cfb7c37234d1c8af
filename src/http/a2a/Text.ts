import { Predicate } from "effect"
import { textOfToken } from "../../domain/JsonBytes.ts"
import type { RawJson } from "../../domain/RawJson.ts"

/** The text of a JSON string. */
export const stringOf = (text: string | RawJson): string =>
  Predicate.isString(text) ? text : textOfToken(text.bytes, 0, text.bytes.length, true)
