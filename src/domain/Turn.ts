/**
 * The usual shape of a turn, and its text. The gateway stores the core's turn unread, so any part may be missing or of
 * another shape. Without imports, because it is part of the small client.
 */

export type Json = null | boolean | number | string | ReadonlyArray<Json> | JsonObject

export interface JsonObject {
  readonly [key: string]: Json
}

/** A reference to a stored file. Its download link is the storage URL, `/`, and `provider_data.path`. */
export type OutputFile = {
  readonly id: string
  readonly name: string
  readonly mime_type: string
  readonly provider_data: { readonly path: string }
}

export type TextOutput = { readonly type: "text"; readonly text: string }
export type ImageOutput = { readonly type: "image"; readonly file: OutputFile }
export type FileOutput = { readonly type: "file"; readonly file: OutputFile }

/** By `type`. Items of other types may be added later: skip an item whose type your code does not know. */
export type OutputItem = TextOutput | ImageOutput | FileOutput

/** The assistant's answer. */
export type Turn = {
  readonly output?: ReadonlyArray<OutputItem>
  /** The model's messages in full. A later task continues the conversation with `turns: [turn]`. */
  readonly messages?: ReadonlyArray<JsonObject>
  /** `model`, `finish_reason`, `usage` and more. */
  readonly metadata?: JsonObject
  /** Reason of an interrupted turn. */
  readonly interrupt?: Json
}

const textOf = (item: unknown): ReadonlyArray<string> =>
  typeof item === "object" && item !== null && "type" in item && item.type === "text" && "text" in item
    && typeof item.text === "string"
    ? [item.text]
    : []

/** The text of a task's output: its text items, separated by blank lines. Empty without any, whatever the turn is. */
export const outputText = ({ turn }: { readonly turn: Turn | null }): string => {
  const output: unknown = turn?.output
  return Array.isArray(output) ? output.flatMap(textOf).join("\n\n") : ""
}
