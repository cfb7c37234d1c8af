/** Parts of the schemas of request bodies. */
import { Schema } from "effect"

/** A field that may be missing. `null` means the same. */
export const absentOr = <S extends Schema.Top>(schema: S, description: string) =>
  Schema.optional(Schema.NullOr(schema)).annotate({ description })

/** Counts Unicode characters, not UTF-16 units. */
export const isAtMostCharacters = (maximum: number) =>
  Schema.makeFilter(
    (text: string) => text.length <= maximum || (text.length <= 2 * maximum && Array.from(text).length <= maximum),
    { expected: `at most ${maximum} characters`, toJsonSchema: () => ({ maxLength: maximum }) }
  )
