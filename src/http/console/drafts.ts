/** Drafts of answers to tool calls, which this tab keeps. */
import type { AnswerKind, AnswerShape, Draft } from "./answers.ts"
import { isFields, parse } from "./json.ts"
import * as preferences from "./preferences.ts"
import type { Typed } from "./schemaForm.ts"

const emptyDraft = (hasForm: boolean): Draft => ({
  kind: hasForm ? "form" : undefined,
  text: "",
  json: "",
  form: {}
})

const allKinds: ReadonlySet<unknown> = new Set<AnswerKind>(["approve", "decline", "form", "text", "json", "failed"])
const isKind = (value: unknown): value is AnswerKind => allKinds.has(value)

const isTyped = (value: unknown): value is Typed =>
  isFields(value)
  && Object.values(value).every((each) => typeof each === "string" || typeof each === "boolean" || Array.isArray(each))

/** Ids of calls are unique within a task only. */
const nameOf = (uuid: string, callId: string) => `draft.${uuid}.${callId.slice(0, 500)}`

/** The draft of a call that this tab keeps. */
export const loadDraft = (uuid: string, callId: string, { fields, kinds }: AnswerShape): Draft => {
  const empty = emptyDraft(fields !== undefined)
  const kept = parse(preferences.read(preferences.tab, nameOf(uuid, callId)) ?? "")?.value
  if (!isFields(kept)) return empty
  const { form, json, kind, text } = kept
  return {
    kind: isKind(kind) && kinds.includes(kind) ? kind : empty.kind,
    text: typeof text === "string" ? text : "",
    json: typeof json === "string" ? json : "",
    form: isTyped(form) ? form : {}
  }
}

export const keepDraft = (uuid: string, callId: string, draft: Draft | undefined) =>
  preferences.write(preferences.tab, nameOf(uuid, callId), draft === undefined ? null : JSON.stringify(draft))
