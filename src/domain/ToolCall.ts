/** Calls of client tools, and their results. */
import { Schema } from "effect"
import { JsonObject } from "./OpaqueJson.ts"

export const ToolCall = Schema.Struct({
  id: Schema.NonEmptyString.annotate({ description: "Identifies the call. Its result carries it as `tool_call_id`." }),
  name: Schema.NonEmptyString.annotate({ description: "The client tool to run." }),
  arguments: JsonObject
}).annotate({ identifier: "PendingToolCall", description: "A call of a client tool that awaits its result." })
export type ToolCall = typeof ToolCall.Type

export const ToolResult = Schema.Struct({
  tool_call_id: Schema.NonEmptyString.annotate({ description: "The `id` of a pending call." }),
  output: Schema.Json.annotate({ description: "The output of the tool: any JSON." }),
  is_error: Schema.optional(Schema.NullOr(Schema.Boolean)).annotate({
    description: "Whether the tool failed. `output` then describes the error."
  })
}).annotate({ identifier: "ToolResult", description: "The result of one pending call." })
export type ToolResult = typeof ToolResult.Type
