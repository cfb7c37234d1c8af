/** Drafts of answers to tool calls, and the results that are sent. */
import type { ToolResult } from "../client/promise/Types.ts"
import { isFields, parse } from "./json.ts"
import * as preferences from "./preferences.ts"
import { type FormField, outputOf, type Problems, type Typed } from "./schemaForm.ts"

export type AnswerKind = "approve" | "decline" | "form" | "text" | "json" | "failed"

export interface Draft {
  readonly kind: AnswerKind | undefined
  readonly text: string
  readonly json: string
  readonly form: Typed
}

const emptyDraft = (hasForm: boolean): Draft => ({
  kind: hasForm ? "form" : undefined,
  text: "",
  json: "",
  form: {}
})

const kinds: ReadonlySet<unknown> = new Set<AnswerKind>(["approve", "decline", "form", "text", "json", "failed"])
const isKind = (value: unknown): value is AnswerKind => kinds.has(value)

const isTyped = (value: unknown): value is Typed =>
  isFields(value)
  && Object.values(value).every((each) => typeof each === "string" || typeof each === "boolean" || Array.isArray(each))

/** Ids of calls are unique within a task only. */
const nameOf = (uuid: string, callId: string) => `draft.${uuid}.${callId.slice(0, 500)}`

/** The draft of a call that this tab keeps. */
export const loadDraft = (uuid: string, callId: string, hasForm: boolean): Draft => {
  const empty = emptyDraft(hasForm)
  const kept = parse(preferences.read(preferences.tab, nameOf(uuid, callId)) ?? "")?.value
  if (!isFields(kept)) return empty
  const { form, json, kind, text } = kept
  return {
    kind: isKind(kind) && (kind !== "form" || hasForm) ? kind : empty.kind,
    text: typeof text === "string" ? text : "",
    json: typeof json === "string" ? json : "",
    form: isTyped(form) ? form : {}
  }
}

export const keepDraft = (uuid: string, callId: string, draft: Draft | undefined) =>
  preferences.write(preferences.tab, nameOf(uuid, callId), draft === undefined ? null : JSON.stringify(draft))

export type Answer =
  | { readonly result: ToolResult }
  | { readonly problem: string; readonly problems?: Problems }

/** The result of one call, or what is missing. */
export const resultOf = (callId: string, draft: Draft, fields: ReadonlyArray<FormField> | undefined): Answer => {
  const answer = (output: unknown): Answer => ({ result: { tool_call_id: callId, output } as ToolResult })
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
      const read = outputOf(fields ?? [], draft.form)
      return "value" in read ? answer(read.value) : { problem: "Check the fields", problems: read.problems }
    }
    default:
      return { problem: "Choose an answer" }
  }
}
