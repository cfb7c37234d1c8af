/** Metadata: the client's own labels of a task, which the service stores, returns and searches, and the core never receives. */
import { Schema } from "effect"
import { isAtMostCharacters } from "./Fields.ts"
import { fromJsonText } from "./json/OpaqueJson.ts"
import * as Limits from "./Limits.ts"

const isValue = isAtMostCharacters(Limits.metadataValueLength)
const isKey = Schema.is(Schema.NonEmptyString.check(isAtMostCharacters(Limits.metadataKeyLength)))

const keyRule = `Expected a key of 1 to ${Limits.metadataKeyLength} characters`

const hasValidKeys = Schema.makeFilter((metadata: Readonly<Record<string, string>>) =>
  Object.keys(metadata).flatMap((key) => isKey(key) ? [] : [{ path: [key], issue: keyRule }])
)

export const Metadata = Schema.Record(Schema.String, Schema.String.check(isValue)).check(
  Schema.isMaxProperties(Limits.metadataPairs, { expected: `at most ${Limits.metadataPairs} pairs` }),
  hasValidKeys
)
export type Metadata = typeof Metadata.Type

/** Null for an object without pairs. */
export const orNull = (metadata: Metadata | null | undefined): Metadata | null =>
  metadata && Object.keys(metadata).length > 0 ? metadata : null

/** Whether metadata has all wanted pairs. */
export const hasAll = (metadata: Metadata | null | undefined, wanted: Metadata): boolean =>
  Object.entries(wanted).every(([key, value]) => metadata?.[key] === value)

/** JSON as it is stored and returned. */
export const FromJson = fromJsonText(Schema.Record(Schema.String, Schema.String))
