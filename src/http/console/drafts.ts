/** Drafts of answers to tool calls, which this tab keeps. */
import { type AnswerKind, answerKinds, type AnswerShape, type Draft } from "./answers.ts"
import { isFields, parse } from "./json.ts"
import * as preferences from "./preferences.ts"
import { rowsIn, type Typed } from "./typedForm.ts"

/** A form begins with what the model proposes. */
const emptyDraft = ({ edited, fields, proposed }: AnswerShape): Draft => ({
  kind: fields === undefined ? undefined : "form",
  text: "",
  json: "",
  form: proposed,
  edit: edited?.typed ?? {}
})

const isKind = (value: unknown): value is AnswerKind => answerKinds.some((kind) => kind === value)

const isTyped = (value: unknown): value is Typed =>
  isFields(value)
  && Object.values(value).every((each) =>
    typeof each === "string" || typeof each === "boolean" ||
    (Array.isArray(each) && each.every((one) => typeof one === "string")) ||
    rowsIn(each)?.every(isTyped) === true
  )

/** Ids of calls are unique within a task only. */
const nameOf = (uuid: string, callId: string) => `draft.${uuid}.${callId.slice(0, 500)}`

/** The draft of a call that this tab keeps. */
export const loadDraft = (uuid: string, callId: string, shape: AnswerShape): Draft => {
  const empty = emptyDraft(shape)
  const kept = parse(preferences.read(preferences.tab, nameOf(uuid, callId)) ?? "")?.value
  if (!isFields(kept)) return empty
  const { edit, form, json, kind, text } = kept
  return {
    kind: isKind(kind) && shape.kinds.includes(kind) ? kind : empty.kind,
    text: typeof text === "string" ? text : "",
    json: typeof json === "string" ? json : "",
    form: isTyped(form) ? form : empty.form,
    edit: isTyped(edit) ? edit : empty.edit
  }
}

export const keepDraft = (uuid: string, callId: string, draft: Draft | undefined) =>
  preferences.write(preferences.tab, nameOf(uuid, callId), draft === undefined ? null : JSON.stringify(draft))
