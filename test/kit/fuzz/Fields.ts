/** Every field of every request body and core event, with its kind. */
import * as Limits from "../../../src/domain/Limits.ts"
import * as Kinds from "./Kinds.ts"

export interface Field {
  /** `*` stands for an item of a list. */
  readonly path: string
  readonly kind: Kinds.Kind
  /** A field that is "not null" may be missing. */
  readonly need: "required" | "not null" | "optional"
  /** A valid value that contains the field: the item at `*`, or the whole body. */
  readonly host?: object
}

const text = { type: "text", text: "x" }
const fileItem = {
  type: "file",
  file: { id: "1", name: "a.txt", mime_type: "text/plain", provider_data: { path: "a" } }
}
const voiceItem = { type: "voice", voice: { id: "1", name: "a.mp3", mime_type: "audio/mpeg", duration: 1.5 } }
const message = { role: "user", content: "x" }
const previousTurn = { output: [], messages: [message], metadata: {} }
export const tool = {
  type: "function",
  name: "host_tool",
  description: "x",
  parameters: { type: "object" },
  strict: true
}
export const nestedTool = {
  type: "function",
  function: { name: "host_tool", description: "x", parameters: {}, strict: true }
}
export const mcpTool = { name: "host_tool", description: "x", inputSchema: {} }
export const anthropicTool = { type: "custom", name: "host_tool", description: "x", input_schema: {} }

const field = (path: string, kind: Kinds.Kind, need: Field["need"], host?: object): Field => ({
  path,
  kind,
  need,
  ...(host === undefined ? {} : { host })
})

const unknownFields = (prefix: string, host?: object) => [
  field(`${prefix}unknown_field`, Kinds.opaqueValue, "optional", host),
  field(`${prefix}constructor`, Kinds.opaqueValue, "optional", host),
  field(`${prefix}__proto__`, Kinds.opaqueValue, "optional", host)
]

export const createFields: ReadonlyArray<Field> = [
  field("assistant_id", Kinds.id, "required"),
  field("llm_model_id", Kinds.anyId, "optional"),
  field("image_generator_id", Kinds.anyId, "optional"),
  field("max_execution_time", Kinds.seconds, "optional"),
  field("priority", Kinds.priority, "optional"),
  field("callback_url", Kinds.url, "optional"),
  field("callback_secret", Kinds.textOf(Limits.callbackSecretLength), "optional"),
  field("input", Kinds.list(Limits.inputItems, text, false), "required"),
  field("input.*", Kinds.item, "required", text),
  field("input.*.type", Kinds.inputType, "required", text),
  field("input.*.text", Kinds.passedText, "required", text),
  field("input.*.file", Kinds.object, "required", fileItem),
  field("input.*.file.id", Kinds.anyText, "required", fileItem),
  field("input.*.file.name", Kinds.anyText, "required", fileItem),
  field("input.*.file.mime_type", Kinds.anyText, "required", fileItem),
  field("input.*.file.provider_data", Kinds.object, "optional", fileItem),
  field("input.*.file.provider_data.path", Kinds.anyText, "optional", fileItem),
  field("input.*.voice", Kinds.object, "required", voiceItem),
  field("input.*.voice.id", Kinds.anyText, "required", voiceItem),
  field("input.*.voice.name", Kinds.anyText, "required", voiceItem),
  field("input.*.voice.mime_type", Kinds.anyText, "required", voiceItem),
  field("input.*.voice.duration", Kinds.duration, "optional", voiceItem),
  field("turns", Kinds.list(Limits.turns, message, true), "optional"),
  field("turns.*", Kinds.item, "required", message),
  field("turns.*.role", Kinds.role, "required", message),
  field("turns.*.content", Kinds.content, "required", message),
  field("turns.*.messages", Kinds.objects, "optional", previousTurn),
  field(
    "client_tools",
    Kinds.list(Limits.clientTools, tool, true, (n) => ({ ...tool, name: `tool_${n}` })),
    "optional"
  ),
  field("client_tools.*", Kinds.item, "required", tool),
  field("client_tools.*.type", Kinds.toolType, "required", tool),
  field("client_tools.*.name", Kinds.toolName, "required", tool),
  field("client_tools.*.description", Kinds.passedText, "optional", tool),
  field("client_tools.*.parameters", Kinds.opaqueObject, "optional", tool),
  field("client_tools.*.strict", Kinds.boolean, "optional", tool),
  field("client_tools.*.function.name", Kinds.toolName, "required", nestedTool),
  field("client_tools.*.function.description", Kinds.passedText, "optional", nestedTool),
  field("client_tools.*.function.parameters", Kinds.opaqueObject, "optional", nestedTool),
  field("client_tools.*.function.strict", Kinds.boolean, "optional", nestedTool),
  field("client_tools.*.inputSchema", Kinds.opaqueObject, "optional", mcpTool),
  field("client_tools.*.input_schema", Kinds.opaqueObject, "optional", anthropicTool),
  field("metadata", Kinds.metadata, "optional"),
  field("metadata.key", Kinds.textOf(Limits.metadataValueLength), "not null", {
    assistant_id: 1,
    input: [text],
    metadata: { other: "x" }
  }),
  ...unknownFields(""),
  ...unknownFields("input.*.", text),
  ...unknownFields("client_tools.*.", tool)
]

/** All fields are optional. Items of lists have the same rules as in a create. */
export const rerunFields: ReadonlyArray<Field> = createFields.filter(({ path }) => !path.includes("*")).map((field) =>
  field.need === "required" ? { ...field, need: "not null" } : field
)

const result = { output: { a: 1 }, is_error: false }

export const resultFields: ReadonlyArray<Field> = [
  field("results", Kinds.list(Limits.toolCalls, { tool_call_id: "c1", output: 1 }, true), "required"),
  field("results.*", Kinds.item, "required"),
  field("results.*.tool_call_id", Kinds.name, "required"),
  field("results.*.output", Kinds.anyJson, "required", result),
  field("results.*.is_error", Kinds.boolean, "optional"),
  ...unknownFields(""),
  ...unknownFields("results.*.")
]

export const cancelFields: ReadonlyArray<Field> = [
  field("reason", Kinds.textOf(Limits.cancelReasonLength), "optional"),
  ...unknownFields("")
]

const call = { id: "host_call", name: "look", arguments: {} }
const event = (type: string, more: object = {}) => ({
  task_id: "{uuid}",
  run_id: "{run_id}",
  event_id: "host_event",
  type,
  ...more
})
export const interrupted = event("interrupted", { tool_calls: [call], state: { at: 1 } })
const failed = event("failed", { code: "internal", message: "x" })
const toolCalls = Kinds.list(Limits.toolCalls, call, false, (n) => ({ ...call, id: `call_${n}` }))

export const eventFields: ReadonlyArray<Field> = [
  field("task_id", Kinds.anyText, "required"),
  field("run_id", Kinds.anyText, "required"),
  field("event_id", Kinds.eventId, "required"),
  field("type", Kinds.eventType, "required"),
  field("turn", Kinds.opaqueObject, "optional", event("progress")),
  field("turn", Kinds.opaqueObject, "required", event("completed")),
  field("turn", Kinds.opaqueObject, "optional", interrupted),
  field("turn", Kinds.opaqueObject, "optional", failed),
  field("tool_calls", toolCalls, "required", interrupted),
  field("tool_calls.*", Kinds.item, "required", call),
  field("tool_calls.*.id", Kinds.name, "required", call),
  field("tool_calls.*.name", Kinds.name, "required", call),
  field("tool_calls.*.arguments", Kinds.opaqueObject, "required", call),
  field("state", Kinds.anyJson, "optional", interrupted),
  field("code", Kinds.failureCode, "required", failed),
  field("message", Kinds.anyText, "optional", failed),
  ...unknownFields("")
]
