/**
 * What a client may ask for (SPEC "POST /api/tasks", CONTRACT 2), as it stands on the wire, and `TaskRequest`: the same
 * with its accepted variants folded into one form. Absent and `null` mean the same.
 */
import { Array as Arr, Effect, Predicate, Schema, SchemaGetter, SchemaIssue } from "effect"
import * as Limits from "./Limits.ts"
import { JsonObject, JsonObjects } from "./OpaqueJson.ts"

const absentOr = <S extends Schema.Top>(schema: S) => Schema.optional(Schema.NullOr(schema))

/** Counts characters as people do, not UTF-16 units. */
export const isAtMostCharacters = (maximum: number) =>
  Schema.makeFilter(
    (text: string) => text.length <= maximum || (text.length <= 2 * maximum && Array.from(text).length <= maximum),
    { expected: `at most ${maximum} characters`, toJsonSchema: () => ({ maxLength: maximum }) }
  )

const Id = Schema.Int.check(
  Schema.isBetween({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER }, { expected: "an integer of at least 1" })
)

const isHttpUrl = Schema.makeFilter(
  // The parser would drop blanks and line breaks without a word.
  (text: string) => /^https?:\/\/[^/?#\s]\S*$/i.test(text) && URL.canParse(text),
  { expected: "an absolute http or https URL", toJsonSchema: () => ({ format: "uri" }) }
)

const ProviderData = Schema.Struct({ path: absentOr(Schema.String) })

export const TextItem = Schema.Struct({
  type: Schema.Literal("text"),
  text: Schema.String
}).annotate({ identifier: "TextItem" })

export const FileItem = Schema.Struct({
  type: Schema.Literal("file"),
  file: Schema.Struct({
    id: Schema.String,
    name: Schema.String,
    mime_type: Schema.String,
    provider_data: absentOr(ProviderData)
  })
}).annotate({ identifier: "FileItem" })

export const VoiceItem = Schema.Struct({
  type: Schema.Literal("voice"),
  voice: Schema.Struct({
    id: Schema.String,
    name: Schema.String,
    mime_type: Schema.String,
    duration: absentOr(Schema.Finite.check(Schema.isGreaterThanOrEqualTo(0)))
  })
}).annotate({ identifier: "VoiceItem" })

/** SPEC "Input items". */
export const InputItem = Schema.Union([TextItem, FileItem, VoiceItem]).annotate({
  identifier: "InputItem",
  discriminator: "type",
  expected: "one of text, file, voice"
})
export type InputItem = typeof InputItem.Type

export const Message = Schema.Struct({
  role: Schema.Literals(["user", "assistant", "system"]),
  content: Schema.Union([Schema.String, JsonObjects]).annotate({
    expected: "a string or an array of parts"
  })
}).annotate({ identifier: "Message" })

export const PreviousTurn = Schema.Struct({ messages: JsonObjects }).annotate({ identifier: "PreviousTurn" })

const decodeMessage = Schema.decodeUnknownEffect(Message, { errors: "all" })
const decodePreviousTurn = Schema.decodeUnknownEffect(PreviousTurn)

/** One item of `turns`: a message, or a previous task's whole turn, whose messages are spliced in. */
const TurnsItem = JsonObject.pipe(
  Schema.decodeTo(Schema.Array(JsonObject), {
    decode: SchemaGetter.transformEffect((item: JsonObject) => {
      const isPreviousTurn = "messages" in item && !("role" in item)
      const decoded = isPreviousTurn
        ? Effect.map(decodePreviousTurn(item), ({ messages }) => messages)
        : Effect.as(decodeMessage(item), [item])
      return Effect.mapError(decoded, (error) => error.issue)
    }),
    encode: SchemaGetter.transform((messages) => ({ messages }))
  })
)

/** One item of `client_tools`, in the one form that the core sees. */
export const ClientTool = Schema.Struct({
  type: Schema.Literal("function"),
  name: Schema.String.check(
    Schema.isPattern(/^[A-Za-z0-9_-]{1,64}$/, { expected: "1 to 64 letters, digits, _ or -" })
  ),
  description: absentOr(Schema.String),
  parameters: absentOr(JsonObject),
  strict: absentOr(Schema.Boolean)
}).annotate({ identifier: "ClientTool" })
export type ClientTool = typeof ClientTool.Type

type Path = ReadonlyArray<PropertyKey>

interface UnfoldedTool {
  readonly tool: JsonObject
  /** Where the client wrote a field. */
  readonly placeOf: (field: PropertyKey) => Path
}

/** Folds the nested OpenAI form, MCP's `inputSchema` and Anthropic's `input_schema` into `ClientTool`'s shape. */
const unfoldTool = (tool: JsonObject): UnfoldedTool => {
  const nested = tool["function"]
  if (Predicate.isObject(nested)) {
    return {
      tool: { ...nested as JsonObject, type: tool["type"] ?? "function" },
      placeOf: (field) => field === "type" ? [field] : ["function", field]
    }
  }
  const alias = ["inputSchema", "input_schema"].find((name) => tool[name] !== undefined && tool[name] !== null)
  if (alias === undefined) return { tool, placeOf: (field) => [field] }
  const type = tool["type"] === "custom" ? "function" : tool["type"] ?? "function"
  const { parameters } = tool
  return Predicate.isNullish(parameters)
    ? {
      tool: { ...tool, type, parameters: tool[alias]! },
      placeOf: (field) => [field === "parameters" ? alias : field]
    }
    : { tool: { ...tool, type }, placeOf: (field) => [field] }
}

/** Blames the fields that the client wrote, not those they were folded into. */
const relocate = (issue: SchemaIssue.Issue, placeOf: UnfoldedTool["placeOf"]): SchemaIssue.Issue => {
  switch (issue._tag) {
    case "Composite":
      return new SchemaIssue.Composite(issue.ast, Arr.map(issue.issues, (inner) => relocate(inner, placeOf)))
    case "Pointer": {
      const [field, ...rest] = issue.path
      return field === undefined ? issue : new SchemaIssue.Pointer([...placeOf(field), ...rest], issue.issue)
    }
    default:
      return issue
  }
}

const decodeClientTool = Schema.decodeUnknownEffect(ClientTool, { errors: "all" })

const ClientToolsItem = JsonObject.pipe(
  Schema.decodeTo(ClientTool, {
    decode: SchemaGetter.transformEffect((item: JsonObject) => {
      const { placeOf, tool } = unfoldTool(item)
      return Effect.mapError(decodeClientTool(tool), ({ issue }) => relocate(issue, placeOf))
    }),
    encode: SchemaGetter.passthrough({ strict: false })
  })
)

const isUniqueByName = Schema.makeFilter((tools: ReadonlyArray<ClientTool>) => {
  const seen = new Set<string>()
  return tools.flatMap(({ name }, index): ReadonlyArray<Schema.FilterIssue> => {
    if (!seen.has(name)) {
      seen.add(name)
      return []
    }
    return [{ path: [index, "name"], issue: `The tool name ${name} is used more than once` }]
  })
})

/** Body of `POST /api/tasks`. */
export const CreateTaskBody = Schema.Struct({
  assistant_id: Id,
  input: Schema.Array(InputItem).check(
    Schema.isMinLength(1, { expected: "at least one item" }),
    Schema.isMaxLength(Limits.inputItems, { expected: `at most ${Limits.inputItems} items` })
  ),
  turns: absentOr(
    Schema.Array(TurnsItem).check(Schema.isMaxLength(Limits.turns, { expected: `at most ${Limits.turns} items` }))
  ),
  llm_model_id: absentOr(Id),
  image_generator_id: absentOr(Id),
  callback_url: absentOr(Schema.String.check(isAtMostCharacters(Limits.callbackUrlLength), isHttpUrl)),
  callback_secret: absentOr(Schema.String.check(isAtMostCharacters(Limits.callbackSecretLength))),
  client_tools: absentOr(
    Schema.Array(ClientToolsItem).check(
      Schema.isMaxLength(Limits.clientTools, { expected: `at most ${Limits.clientTools} items` }),
      isUniqueByName
    )
  ),
  max_execution_time: absentOr(
    Schema.Int.check(
      Schema.isBetween({ minimum: 1, maximum: Limits.maxExecutionTime }, {
        expected: `an integer between 1 and ${Limits.maxExecutionTime}`
      })
    )
  )
}).annotate({ identifier: "CreateTask" })
export type CreateTaskBody = typeof CreateTaskBody.Type

/** The part of a request that the core is handed (CONTRACT 4). */
export const RunRequest = Schema.Struct({
  assistant_id: Schema.Int,
  input: Schema.Array(Schema.Json),
  turns: Schema.Array(Schema.Json),
  client_tools: Schema.Array(Schema.Json),
  llm_model_id: Schema.NullOr(Schema.Int),
  image_generator_id: Schema.NullOr(Schema.Int)
})
export type RunRequest = typeof RunRequest.Type

export const toRunRequest = (body: CreateTaskBody): RunRequest => ({
  assistant_id: body.assistant_id,
  input: body.input as ReadonlyArray<Schema.Json>,
  turns: (body.turns ?? []).flat(),
  client_tools: (body.client_tools ?? []) as ReadonlyArray<Schema.Json>,
  llm_model_id: body.llm_model_id ?? null,
  image_generator_id: body.image_generator_id ?? null
})
