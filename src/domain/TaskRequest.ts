/**
 * The body of `POST /api/tasks`, and `RunRequest`: the part of it that the core receives, with accepted variants
 * normalized to one form. Absent and `null` mean the same.
 */
import { Array as Arr, Effect, Predicate, Schema, SchemaGetter, SchemaIssue } from "effect"
import { absentOr, isAtMostCharacters } from "./Fields.ts"
import * as Limits from "./Limits.ts"
import * as Metadata from "./Metadata.ts"
import { fromValue, isJsonObject, JsonObject, JsonObjects, type OpaqueJson } from "./OpaqueJson.ts"
import type { CallbackFormat } from "./OpenAiWebhook.ts"

const Id = Schema.Int.check(
  Schema.isBetween({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER }, {
    expected: `an integer between 1 and ${Number.MAX_SAFE_INTEGER}`
  })
)

const isHttpUrl = Schema.makeFilter(
  // The URL parser silently drops blanks and line breaks, so they are rejected here.
  (text: string) => /^https?:\/\/[^/?#\s]\S*$/i.test(text) && URL.canParse(text),
  { expected: "an absolute http or https URL", toJsonSchema: () => ({ format: "uri" }) }
)

/** DNS allows no longer name, and the database indexes deliveries by it. */
const hasPossibleHost = Schema.makeFilter(
  (text: string) => (URL.parse(text)?.hostname.length ?? 0) <= Limits.hostLength,
  { expected: `a host of at most ${Limits.hostLength} characters` }
)

const ProviderData = Schema.Struct({ path: absentOr(Schema.String, "Storage-relative path of the file.") })

const uploadedId = Schema.String.annotate({
  description: "Always a string, even when the upload returned a number."
})
const fileName = Schema.String.annotate({ description: "File name." })
const mediaType = Schema.String.annotate({ description: "Media type, as in `application/pdf`." })

export const TextItem = Schema.Struct({
  type: Schema.Literal("text"),
  text: Schema.String.annotate({ description: "The user's text." })
}).annotate({ identifier: "TextItem", description: "A piece of text." })

export const FileItem = Schema.Struct({
  type: Schema.Literal("file"),
  file: Schema.Struct({
    id: uploadedId,
    name: fileName,
    mime_type: mediaType,
    provider_data: absentOr(ProviderData, "The location of the file in storage, as the upload returned it.")
  }).annotate({ description: "The file." })
}).annotate({
  identifier: "FileItem",
  description: "An uploaded file, as `POST /api/files` returned it. The model chooses the tool that processes it."
})

export const VoiceItem = Schema.Struct({
  type: Schema.Literal("voice"),
  voice: Schema.Struct({
    id: uploadedId,
    name: fileName,
    mime_type: mediaType,
    duration: absentOr(Schema.Finite.check(Schema.isGreaterThanOrEqualTo(0)), "Length in seconds.")
  }).annotate({ description: "The recording." })
}).annotate({
  identifier: "VoiceItem",
  description: "A recording, uploaded like a file. It is transcribed to text before processing."
})

export const InputItem = Schema.Union([TextItem, FileItem, VoiceItem]).annotate({
  identifier: "InputItem",
  description: "One input item; items of all types may be mixed.",
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

/** One item of `turns`: a message, or the whole turn of an earlier task, which is replaced by its messages. */
const TurnsItem = JsonObject.annotate({ identifier: "ConversationItem" }).pipe(
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

/** One item of `client_tools`, in the normalized form that the core receives. */
export const ClientTool = Schema.Struct({
  type: Schema.Literal("function"),
  name: Schema.String.check(
    Schema.isPattern(/^[A-Za-z0-9_-]{1,64}$/, { expected: "1 to 64 letters, digits, _ or -" })
  ),
  description: absentOr(Schema.String, "When and how the model should call the tool."),
  parameters: absentOr(JsonObject, "JSON Schema of the tool's arguments, an object."),
  strict: absentOr(Schema.Boolean, "Whether the model must follow `parameters` exactly."),
  output_schema: Schema.optional(JsonObject).annotate({
    description:
      "JSON Schema of the tool's output, from which the console makes a form. Anything but an object is ignored."
  })
}).annotate({ identifier: "ClientTool", description: "A function that the client runs for the model." })
export type ClientTool = typeof ClientTool.Type

type Path = ReadonlyArray<PropertyKey>

interface UnfoldedTool {
  readonly tool: JsonObject
  /** The path of a field in the client's form. */
  readonly placeOf: (field: PropertyKey) => Path
}

/** Normalizes the nested OpenAI form, MCP's `inputSchema` and Anthropic's `input_schema` to `ClientTool`. */
const unfoldTool = (tool: JsonObject): UnfoldedTool => {
  const nested: unknown = tool["function"]
  if (isJsonObject(nested)) {
    return {
      tool: { ...nested, type: tool["type"] ?? "function" },
      placeOf: (field) => field === "type" ? [field] : ["function", field]
    }
  }
  const alias = ["inputSchema", "input_schema"].find((name) => tool[name] !== undefined && tool[name] !== null)
  if (alias === undefined) return { tool, placeOf: (field) => [field] }
  const type = tool["type"] === "custom" ? "function" : tool["type"] ?? "function"
  const { parameters } = tool
  return Predicate.isNullish(parameters)
    ? {
      tool: { ...tool, type, parameters: tool[alias] ?? null },
      placeOf: (field) => [field === "parameters" ? alias : field]
    }
    : { tool: { ...tool, type }, placeOf: (field) => [field] }
}

/** Keeps the schema of the output, in our or MCP's spelling. Clients may have sent anything there before it had a meaning. */
const keepOutputSchema = ({ output_schema, outputSchema, ...tool }: JsonObject): JsonObject => {
  const schema = [output_schema, outputSchema].find(isJsonObject)
  return schema === undefined ? tool : { ...tool, output_schema: schema }
}

/** Moves issues from the normalized fields to the fields of the client's form. */
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

const ClientToolsItem = JsonObject.annotate({ identifier: "ClientToolDefinition" }).pipe(
  Schema.decodeTo(ClientTool, {
    decode: SchemaGetter.transformEffect((item: JsonObject) => {
      const { placeOf, tool } = unfoldTool(item)
      return Effect.mapError(decodeClientTool(keepOutputSchema(tool)), ({ issue }) => relocate(issue, placeOf))
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
  assistant_id: Id.annotate({ description: "The assistant, by its id in the assistant backend." }),
  input: Schema.Array(InputItem).check(
    Schema.isMinLength(1, { expected: "at least one item" }),
    Schema.isMaxLength(Limits.inputItems, { expected: `at most ${Limits.inputItems} items` })
  ).annotate({ description: `The user's input: 1 to ${Limits.inputItems} items.` }),
  turns: absentOr(
    Schema.Array(TurnsItem).check(Schema.isMaxLength(Limits.turns, { expected: `at most ${Limits.turns} items` })),
    `Conversation so far, oldest first: up to ${Limits.turns} items. An item may be the whole \`turn\` of an earlier task.`
  ),
  llm_model_id: absentOr(
    Id,
    "Id of an LLM configuration of the assistant, not a model's name. An unknown id silently means the default."
  ),
  image_generator_id: absentOr(
    Id,
    "Id of an image generator configuration of the assistant. An unknown id silently means the default."
  ),
  callback_url: absentOr(
    Schema.String.check(isAtMostCharacters(Limits.callbackUrlLength), isHttpUrl, hasPossibleHost),
    `The URL that receives webhooks: absolute, http or https, up to ${Limits.callbackUrlLength} characters.`
  ),
  callback_secret: absentOr(
    Schema.String.check(isAtMostCharacters(Limits.callbackSecretLength)),
    `Key of the webhooks' HMAC-SHA256 signature, up to ${Limits.callbackSecretLength} characters.`
  ),
  client_tools: absentOr(
    Schema.Array(ClientToolsItem).check(
      Schema.isMaxLength(Limits.clientTools, { expected: `at most ${Limits.clientTools} items` }),
      isUniqueByName
    ),
    `Functions that the client runs for the model: up to ${Limits.clientTools}, each with a unique name.`
  ),
  max_execution_time: absentOr(
    Schema.Int.check(
      Schema.isBetween({ minimum: 1, maximum: Limits.maxExecutionTime }, {
        expected: `an integer between 1 and ${Limits.maxExecutionTime}`
      })
    ),
    `Limit in seconds, counted from creation and including the wait in the queue; ${Limits.maxExecutionTime} by default.`
  ),
  metadata: absentOr(
    Metadata.Metadata,
    `Labels of the client's own: up to ${Limits.metadataPairs} texts of up to ${Limits.metadataValueLength} characters, `
      + `by keys of up to ${Limits.metadataKeyLength}. \`?include=metadata\` returns them, \`?metadata[key]=value\` filters lists.`
  )
}).annotate({ identifier: "CreateTask", description: "A task to run. `null` means the same as absent." })
export type CreateTaskBody = typeof CreateTaskBody.Type

/** The part of a request that the core receives. */
export const RunRequest = Schema.Struct({
  assistant_id: Schema.Int,
  input: Schema.Array(Schema.Json),
  turns: Schema.Array(Schema.Json),
  client_tools: Schema.Array(Schema.Json),
  llm_model_id: Schema.NullOr(Schema.Int),
  image_generator_id: Schema.NullOr(Schema.Int)
})
export type RunRequest = typeof RunRequest.Type

/** A task to create. The part that the gateway only stores and forwards is one JSON text, so that its size costs little. */
export interface CreateTask {
  readonly callback_url: string | null
  readonly callback_secret: string | null
  /** The task itself, if absent. */
  readonly callback_format?: CallbackFormat
  /** Seconds. */
  readonly max_execution_time: number
  readonly metadata: Metadata.Metadata | null
  /** The `RunRequest`. */
  readonly request: OpaqueJson
}

/** The fields of the `RunRequest`. */
export const runFieldsOf = (body: Partial<CreateTaskBody>) =>
  ({
    assistant_id: body.assistant_id,
    input: body.input,
    turns: (body.turns ?? []).flat(),
    client_tools: body.client_tools ?? [],
    llm_model_id: body.llm_model_id ?? null,
    image_generator_id: body.image_generator_id ?? null
  }) satisfies Record<keyof RunRequest, unknown>

/** The fields that only the gateway uses. */
export const taskFieldsOf = (body: Partial<CreateTaskBody>): Omit<CreateTask, "request" | "callback_format"> => ({
  callback_url: body.callback_url ? new URL(body.callback_url).href : null,
  callback_secret: body.callback_secret || null,
  max_execution_time: body.max_execution_time ?? Limits.maxExecutionTime,
  metadata: Metadata.orNull(body.metadata)
})

export const toCreateTask = (body: CreateTaskBody): CreateTask => ({
  ...taskFieldsOf(body),
  request: fromValue(runFieldsOf(body))
})
