/** Answers to tool calls, and the results that are sent. */
import type { ToolResult } from "../client/promise/Types.ts"
import { field, isFields, listField, parse, textField } from "./json.ts"
import { fieldsOf, type FormField, schemaLike } from "./schemaForm.ts"
import { mismatchOf, type Output, outputOf, type Problems, type Typed, typedOf } from "./typedForm.ts"

export const answerKinds = ["form", "approve", "edit", "decline", "text", "json", "failed"] as const
export type AnswerKind = typeof answerKinds[number]

export interface Draft {
  readonly kind: AnswerKind | undefined
  readonly text: string
  readonly json: string
  readonly form: Typed
  /** The arguments of the call, as they are approved. */
  readonly edit: Typed
}

/** What a call may be answered with. */
export interface AnswerShape {
  /** The tool's output schema; undefined without one. */
  readonly schema: unknown
  /** The fields of a form; undefined when the schema has parts that no field can show. */
  readonly fields: ReadonlyArray<FormField> | undefined
  /** What the model proposes for them. Decisions are not in it: those are of the person. */
  readonly proposed: Typed
  /** Undefined when the arguments have parts that no field can show. */
  readonly edited:
    | { readonly schema: unknown; readonly fields: ReadonlyArray<FormField>; readonly typed: Typed }
    | undefined
  readonly kinds: ReadonlyArray<AnswerKind>
}

const isDecision = ({ kind }: FormField) => kind === "boolean" || kind === "one" || kind === "many"

const editOf = (schema: unknown, given: unknown): AnswerShape["edited"] => {
  for (const each of [schema, schemaLike(given)]) {
    const fields = fieldsOf(each, given)
    if (fields !== undefined) return { schema: each, fields, typed: typedOf(fields, given) }
  }
  return undefined
}

const noArguments = {}

/** A tool with a schema gets no answer of another shape. */
export const shapeOf = (
  { output, parameters }: Partial<ToolSchemas> = {},
  given: Readonly<Record<string, unknown>> = noArguments
): AnswerShape => {
  const fields = fieldsOf(output, given)
  const decisions = [true, false].every((approved) => mismatchOf(output, { approved }) === undefined)
  const edited = Object.keys(given).length === 0 || !isApproval(output, given) ? undefined : editOf(parameters, given)
  const offered: Readonly<Record<AnswerKind, boolean>> = {
    form: fields !== undefined,
    approve: decisions,
    edit: edited !== undefined,
    decline: decisions,
    text: mismatchOf(output, "text") === undefined,
    json: true,
    failed: true
  }
  return {
    schema: output,
    fields,
    proposed: typedOf(fields?.filter((each) => !isDecision(each)) ?? [], given),
    edited,
    kinds: answerKinds.filter((kind) => offered[kind])
  }
}

/** Whether a tool takes an approval with other arguments. */
const isApproval = (output: unknown, given: unknown) =>
  mismatchOf(output, { approved: true, arguments: given }) === undefined

export type Answer =
  | { readonly result: ToolResult }
  | { readonly problem: string; readonly problems?: Problems }

/** The result of one call, or what is missing. An answer that does not match the tool's schema is refused, however it was typed. */
export const resultOf = (callId: string, draft: Draft, { edited, fields, schema }: AnswerShape): Answer => {
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
    case "form":
      return ofForm(outputOf(schema, fields ?? [], draft.form), answer)
    case "edit":
      return ofForm(
        outputOf(edited?.schema, edited?.fields ?? [], draft.edit),
        (value) => answer({ approved: true, arguments: value })
      )
    default:
      return { problem: "Choose an answer" }
  }
}

const ofForm = (read: Output, answer: (value: unknown) => Answer): Answer =>
  "value" in read ? answer(read.value) : { problem: read.problem ?? "Check the fields", problems: read.problems }

/** The definition of a tool in the request. */
export interface ToolSchemas {
  readonly output: unknown
  readonly parameters: unknown
}

export type Tools = Readonly<Record<string, ToolSchemas>>

const none: Tools = {}

const byRequest = new WeakMap<object, Tools>()

/** The schemas of a task's client tools, by name. */
export const toolsOf = (task: object): Tools => {
  const request = field(task, "request")
  if (!isFields(request)) return none
  const known = byRequest.get(request)
  if (known !== undefined) return known
  const tools = Object.fromEntries(
    listField(request, "client_tools").flatMap((tool) => {
      const name = textField(tool, "name")
      const output = field(tool, "output_schema") ?? field(tool, "outputSchema")
      return name === undefined ? [] : [[name, { output, parameters: field(tool, "parameters") }]]
    })
  )
  byRequest.set(request, tools)
  return tools
}
