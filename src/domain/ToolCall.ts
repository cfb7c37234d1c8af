/** Calls of client tools, and their results. */
import { Effect, Schema } from "effect"
import { absentOr } from "./Fields.ts"
import { encode, fromValue, JsonObject, JsonValue, OpaqueJson } from "./json/OpaqueJson.ts"
import * as RawJson from "./json/RawJson.ts"
import { scan } from "./json/Scanner.ts"
import * as JsonShape from "./json/Shape.ts"
import type { Writable } from "./json/Writer.ts"

export const ToolCall = Schema.Struct({
  id: Schema.NonEmptyString.annotate({ description: "Identifies the call. Its result carries it as `tool_call_id`." }),
  name: Schema.NonEmptyString.annotate({ description: "The client tool to run." }),
  arguments: JsonObject
}).annotate({ identifier: "PendingToolCall", description: "A call of a client tool that awaits its result." })
export type ToolCall = typeof ToolCall.Type

/** A call as the gateway passes it on. */
export const PassedCall = Schema.Struct({ ...ToolCall.fields, arguments: RawJson.AnyObject }).annotate({
  identifier: "ToolCall",
  description: "A call of a client tool."
})
export type PassedCall = typeof PassedCall.Type

const callsShape = JsonShape.shapeOf(Schema.Array(PassedCall))

/** The calls of stored JSON, read with pauses if it is long. */
export const readCalls = (json: OpaqueJson | null): Effect.Effect<ReadonlyArray<PassedCall>> =>
  json === null
    ? Effect.succeed([])
    : Effect.map(RawJson.read(callsShape, encode(json)), (calls) => calls as ReadonlyArray<PassedCall>)

const namesShape = JsonShape.array(JsonShape.object({ name: JsonShape.small }))

/** The names of the calls that end in the beginning of stored JSON. */
export const namesOf = (begin: string): ReadonlyArray<string> => {
  const bytes = encode(begin)
  const { found } = scan(bytes, namesShape)
  const calls = found === undefined ? [] : RawJson.decodable(found, bytes).value as ReadonlyArray<PassedCall>
  return calls.map(({ name }) => name)
}

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

/** A result as the gateway passes it on. */
export const PassedResult = Schema.Struct({
  ...ToolResult.fields,
  output: RawJson.Any.annotate({ description: "The output of the tool: any JSON." })
}).annotate({ identifier: "ToolResult", description: "The result of one pending call." })

interface Result {
  readonly tool_call_id: string
  readonly output: Writable
  readonly is_error?: boolean | null | undefined
}

export const toToolResults = (results: ReadonlyArray<Result>): ToolResults => ({
  ids: results.map(({ tool_call_id }) => tool_call_id),
  text: fromValue(results.map((result) => ({ ...result })))
})
