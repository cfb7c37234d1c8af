/** Calls of client tools, and their results. */
import { Schema } from "effect"
import { absentOr } from "./Fields.ts"
import { fromValue, JsonObject, JsonValue, OpaqueJson } from "./OpaqueJson.ts"

export const ToolCall = Schema.Struct({
  id: Schema.NonEmptyString.annotate({ description: "Identifies the call. Its result carries it as `tool_call_id`." }),
  name: Schema.NonEmptyString.annotate({ description: "The client tool to run." }),
  arguments: JsonObject
}).annotate({ identifier: "PendingToolCall", description: "A call of a client tool that awaits its result." })
export type ToolCall = typeof ToolCall.Type

export const ToolResult = Schema.Struct({
  tool_call_id: Schema.NonEmptyString.annotate({ description: "The `id` of a pending call." }),
  output: JsonValue.annotate({ description: "The output of the tool: any JSON." }),
  is_error: absentOr(Schema.Boolean, "Whether the tool failed. `output` then describes the error.")
}).annotate({ identifier: "ToolResult", description: "The result of one pending call." })
export type ToolResult = typeof ToolResult.Type

/** The results of one answer, as they are stored and handed to the core. */
export const ToolResults = Schema.Struct({
  /** The `tool_call_id` of each result, in order. */
  ids: Schema.Array(Schema.String),
  /** The array of results. */
  text: OpaqueJson
})
export type ToolResults = typeof ToolResults.Type

export const toToolResults = (results: ReadonlyArray<ToolResult>): ToolResults => ({
  ids: results.map(({ tool_call_id }) => tool_call_id),
  text: fromValue(results)
})
