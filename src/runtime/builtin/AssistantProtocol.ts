/** The protocol of the assistant backend: the requests that the core sends, and the lines of a streamed turn. */
import { Schema } from "effect"
import { isStorable } from "../../domain/Fields.ts"
import { JsonObject } from "../../domain/json/OpaqueJson.ts"
import { RunOptions } from "../../domain/TaskRequest.ts"
import { ToolCall, ToolResult } from "../../domain/ToolCall.ts"

export const CreateChat = Schema.Struct({
  assistant_id: Schema.Int,
  llm_model_id: Schema.optional(Schema.NullOr(Schema.Int)),
  image_generator_id: Schema.optional(Schema.NullOr(Schema.Int))
})

/** The id of a chat is a segment of the path of its turns. URLs resolve `.` and `..`, and cannot encode a lone surrogate. */
const isSegment = Schema.makeFilter((id: string) => isStorable(id) && !/^\.{0,2}$/.test(id), {
  expected: "a segment of a path"
})

export const Chat = Schema.Struct({ id: Schema.Union([Schema.String.check(isSegment), Schema.Int]) })

export const CreateTurn = Schema.Struct({
  input: Schema.Array(Schema.Json),
  turns: Schema.Array(Schema.Json),
  client_tools: Schema.Array(Schema.Json),
  tool_results: Schema.optional(Schema.Array(ToolResult)),
  options: Schema.optional(RunOptions)
})
export type CreateTurn = typeof CreateTurn.Type

export const CreateTranscription = Schema.Struct({ file: Schema.Struct({ id: Schema.String }) })

export const Transcription = Schema.Struct({ text: Schema.String })

/**
 * One line of a turn's stream (`application/x-ndjson`). The last line is `completed`, `tool_calls` or `failed`. The
 * message of `failed` is safe to show to users.
 */
export const TurnLine = Schema.Union([
  Schema.Struct({ type: Schema.Literal("progress"), turn: JsonObject }),
  Schema.Struct({ type: Schema.Literal("completed"), turn: JsonObject }),
  Schema.Struct({
    type: Schema.Literal("tool_calls"),
    tool_calls: Schema.NonEmptyArray(ToolCall),
    turn: Schema.optional(JsonObject)
  }),
  Schema.Struct({
    type: Schema.Literal("failed"),
    code: Schema.optional(Schema.Literals(["payment_required", "internal"])),
    message: Schema.optional(Schema.String),
    turn: Schema.optional(JsonObject)
  })
])
export type TurnLine = typeof TurnLine.Type
