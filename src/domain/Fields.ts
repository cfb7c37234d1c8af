/** Rules of the fields of requests. */
import { Schema } from "effect"

/** Whether Postgres and other systems can store the text: it has no NUL and no lone surrogate. */
export const isStorable = (text: string): boolean => !text.includes("\0") && text.isWellFormed()

/** A field that may be missing. `null` means the same. */
export const absentOr = <S extends Schema.Top>(schema: S, description: string) =>
  Schema.optional(Schema.NullOr(schema)).annotate({ description })

/** Counts Unicode characters, not UTF-16 units. */
export const hasAtMostCharacters = (text: string, maximum: number): boolean =>
  text.length <= maximum || (text.length <= 2 * maximum && Array.from(text).length <= maximum)

export const isAtMostCharacters = (maximum: number) =>
  Schema.makeFilter(
    (text: string) => hasAtMostCharacters(text, maximum),
    { expected: `at most ${maximum} characters`, toJsonSchema: () => ({ maxLength: maximum }) }
  )
