/** Answers to tool calls, and the results that are sent. */
import type { ToolResult } from "../client/promise/Types.ts"
import { parse } from "./json.ts"
import { fieldsOf, type FormField, mismatchOf, outputOf, type Problems, type Typed } from "./schemaForm.ts"

export type AnswerKind = "approve" | "decline" | "form" | "text" | "json" | "failed"

export interface Draft {
  readonly kind: AnswerKind | undefined
  readonly text: string
  readonly json: string
  readonly form: Typed
}

/** What a call may be answered with. */
export interface AnswerShape {
  /** The tool's output schema; undefined without one. */
  readonly schema: unknown
  /** The fields of a form; undefined when the schema has parts that no field can show. */
  readonly fields: ReadonlyArray<FormField> | undefined
  readonly kinds: ReadonlyArray<AnswerKind>
}

/** A tool with a schema gets no answer of another shape. */
export const shapeOf = (schema: unknown): AnswerShape => {
  const fields = fieldsOf(schema)
  const decisions = [true, false].every((approved) => mismatchOf(schema, { approved }) === undefined)
  const wanted: ReadonlyArray<readonly [kind: AnswerKind, isOffered: boolean]> = [
    ["form", fields !== undefined],
    ["approve", decisions],
    ["decline", decisions],
    ["text", mismatchOf(schema, "text") === undefined],
    ["json", true],
    ["failed", true]
  ]
  return { schema, fields, kinds: wanted.flatMap(([kind, isOffered]) => isOffered ? [kind] : []) }
}

export type Answer =
  | { readonly result: ToolResult }
  | { readonly problem: string; readonly problems?: Problems }

/** The result of one call, or what is missing. An answer that does not match the tool's schema is refused, however it was typed. */
export const resultOf = (callId: string, draft: Draft, { fields, schema }: AnswerShape): Answer => {
  const answer = (output: unknown): Answer => {
    const mismatch = mismatchOf(schema, output)
    return mismatch === undefined
      ? { result: { tool_call_id: callId, output } as ToolResult }
      : { problem: `This does not match the tool’s schema. ${mismatch}` }
  }
  switch (draft.kind) {
    case "approve":
      return answer({ approved: true })
    case "decline":
      return answer({ approved: false })
    case "text":
      return draft.text === "" ? { problem: "Type the answer" } : answer(draft.text)
    case "json": {
      const parsed = parse(draft.json)
      return parsed === undefined ? { problem: "This is not valid JSON" } : answer(parsed.value)
    }
    case "failed":
      return draft.text === ""
        ? { problem: "Say what went wrong" }
        : { result: { tool_call_id: callId, output: draft.text, is_error: true } }
    case "form": {
      const read = outputOf(schema, fields ?? [], draft.form)
      return "value" in read
        ? answer(read.value)
        : { problem: read.problem ?? "Check the fields", problems: read.problems }
    }
    default:
      return { problem: "Choose an answer" }
  }
}
