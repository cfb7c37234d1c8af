/** Client tool calls and their answers (SPEC "Pending tool call", CONTRACT 2 "tool-results"). */
import { Schema } from "effect"
import { JsonObject } from "./OpaqueJson.ts"

export const ToolCall = Schema.Struct({
  id: Schema.NonEmptyString,
  name: Schema.NonEmptyString,
  arguments: JsonObject
}).annotate({ identifier: "PendingToolCall" })
export type ToolCall = typeof ToolCall.Type

export const ToolResult = Schema.Struct({
  tool_call_id: Schema.NonEmptyString,
  output: Schema.Json,
  is_error: Schema.optional(Schema.NullOr(Schema.Boolean))
}).annotate({ identifier: "ToolResult" })
export type ToolResult = typeof ToolResult.Type
