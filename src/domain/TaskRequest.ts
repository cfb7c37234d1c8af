/**
 * The body of `POST /api/tasks`, and `RunRequest`: the part of it that the core receives, with accepted variants
 * normalized to one form. Absent and `null` mean the same.
 */
import { Array as Arr, Effect, Predicate, Schema, SchemaGetter, SchemaIssue, Struct } from "effect"
import { absentOr, isAtMostCharacters } from "./Fields.ts"
import { fromValue, JsonObject, type OpaqueJson } from "./json/OpaqueJson.ts"
import * as RawJson from "./json/RawJson.ts"
import type { Writable } from "./json/Writer.ts"
import * as Limits from "./Limits.ts"
import * as Metadata from "./Metadata.ts"
import { usualPriority } from "./Task.ts"

const Id = Schema.Int.check(
  Schema.isBetween({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER }, {
    expected: `an integer between 1 and ${Number.MAX_SAFE_INTEGER}`
  })
)

/** An unknown id means the default. */
const AnyId = Schema.Int.check(
  Schema.isBetween({ minimum: Number.MIN_SAFE_INTEGER, maximum: Number.MAX_SAFE_INTEGER }, {
    expected: `an integer between ${Number.MIN_SAFE_INTEGER} and ${Number.MAX_SAFE_INTEGER}`
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

/** The addresses to which webhooks may be sent. */
export const WebhookUrl = Schema.String.check(
  isAtMostCharacters(Limits.callbackUrlLength),
  isHttpUrl,
  hasPossibleHost
)

const ProviderData = Schema.Struct({ path: absentOr(Schema.String, "Storage-relative path of the file.") })

const uploadedId = Schema.String.annotateKey({
  description: "Always a string, even when the upload returned a number."
})
const fileName = Schema.String.annotateKey({ description: "File name." })
const mediaType = Schema.String.annotateKey({ description: "Media type, as in `application/pdf`." })

export const TextItem = Schema.Struct({
  type: Schema.Literal("text"),
  text: RawJson.Text.annotateKey({ description: "The user's text." })
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

/** A message of the conversation. Fields besides these are dropped. */
export const Message = Schema.Struct({
  role: Schema.Literals(["user", "assistant", "system"]),
  content: Schema.Union([RawJson.Text, RawJson.Objects]).annotate({
    expected: "a string or an array of parts"
  }),
  name: Schema.optional(RawJson.Any),
  tool_calls: Schema.optional(RawJson.Any),
  tool_call_id: Schema.optional(RawJson.Any),
  is_error: Schema.optional(RawJson.Any)
}).annotate({ identifier: "Message" })

export const PreviousTurn = Schema.Struct({ messages: RawJson.Objects }).annotate({ identifier: "PreviousTurn" })

const decodeMessage = Schema.decodeUnknownEffect(Message)
const decodePreviousTurn = Schema.decodeUnknownEffect(PreviousTurn)

/** A message, or the messages of an earlier turn. */
type Messages = typeof Message.Type | typeof PreviousTurn.Type

/** A schema with more forms than documents show: clients send any object. */
const ofAnyObject = <A>(schema: Schema.Codec<A, unknown>) => schema as Schema.Codec<A, JsonObject>

/** One item of `turns`: a message, or the whole turn of an earlier task, which is replaced by its messages. */
const TurnsItem = Schema.Struct({
  role: Schema.optionalKey(Schema.Unknown),
  content: Schema.optionalKey(Schema.Union([RawJson.Text, RawJson.Objects, Schema.Unknown])),
  name: Message.fields.name,
  tool_calls: Message.fields.tool_calls,
  tool_call_id: Message.fields.tool_call_id,
  is_error: Message.fields.is_error,
  messages: Schema.optionalKey(Schema.Union([RawJson.Objects, Schema.Unknown]))
}).annotate({ identifier: "ConversationItem" }).pipe(
  Schema.decodeTo(Schema.declare((value): value is Messages => value !== undefined), {
    decode: SchemaGetter.transformEffect((item, options): Effect.Effect<Messages, SchemaIssue.Issue> => {
      const isPreviousTurn = item.messages !== undefined && item.role === undefined
      const decoded: Effect.Effect<Messages, Schema.SchemaError> = isPreviousTurn
        ? decodePreviousTurn(item, options)
        : decodeMessage(item, options)
      return Effect.mapError(decoded, (error) => error.issue)
    }),
    encode: SchemaGetter.passthrough({ strict: false })
  }),
  ofAnyObject
)

/** One item of `client_tools`, in the normalized form that the core receives. */
export const ClientTool = Schema.Struct({
  type: Schema.Literal("function"),
  name: Schema.String.check(
    Schema.isPattern(/^[A-Za-z0-9_-]{1,64}$/, { expected: "1 to 64 letters, digits, _ or -" })
  ),
  description: absentOr(RawJson.Text, "When and how the model should call the tool."),
  parameters: absentOr(RawJson.AnyObject, "JSON Schema of the tool's arguments, an object."),
  strict: absentOr(Schema.Boolean, "Whether the model must follow `parameters` exactly."),
  output_schema: Schema.optional(RawJson.AnyObject).annotate({
    description:
      "JSON Schema of the tool's output, from which clients can make a form. Anything but an object is ignored."
  })
}).annotate({ identifier: "ClientTool", description: "A function that the client runs for the model." })
export type ClientTool = typeof ClientTool.Type

/** A tool as an object that was parsed. */
export type PlainTool = typeof ClientTool.Encoded
export const isPlainTool = Schema.is(ClientTool) as <I>(value: I) => value is I & PlainTool

type Path = ReadonlyArray<PropertyKey>

/** Every field of the accepted forms. */
const toolFields = {
  type: Schema.optionalKey(Schema.Unknown),
  name: Schema.optionalKey(Schema.Unknown),
  description: Schema.optional(RawJson.Any),
  parameters: Schema.optional(RawJson.Any),
  strict: Schema.optionalKey(Schema.Unknown),
  output_schema: Schema.optional(RawJson.Any),
  outputSchema: Schema.optional(RawJson.Any)
}

const AnyTool = Schema.Struct({
  ...toolFields,
  inputSchema: Schema.optional(RawJson.Any),
  input_schema: Schema.optional(RawJson.Any),
  function: Schema.optionalKey(Schema.Union([Schema.Struct(toolFields), Schema.Unknown]))
})

type ToolFields = { readonly [field: string]: unknown }

interface UnfoldedTool {
  readonly tool: ToolFields
  /** The path of a field in the client's form. */
  readonly placeOf: (field: PropertyKey) => Path
}

/** Normalizes the nested OpenAI form, MCP's `inputSchema` and Anthropic's `input_schema` to `ClientTool`. */
const unfoldTool = (tool: ToolFields): UnfoldedTool => {
  const nested = tool["function"]
  if (Predicate.isObject(nested)) {
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

const isAnyObject = Schema.is(RawJson.AnyObject)

/** Keeps the schema of the output, in our or MCP's spelling. Clients may have sent anything there before it had a meaning. */
const keepOutputSchema = ({ output_schema, outputSchema, ...tool }: ToolFields): ToolFields => {
  const schema = [output_schema, outputSchema].find(isAnyObject)
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

const decodeClientTool = Schema.decodeUnknownEffect(Schema.toType(ClientTool))

const ClientToolsItem = AnyTool.annotate({ identifier: "ClientToolDefinition" }).pipe(
  Schema.decodeTo(Schema.toType(ClientTool), {
    decode: SchemaGetter.transformEffect((item, options) => {
      const { placeOf, tool } = unfoldTool(item)
      return Effect.mapError(decodeClientTool(keepOutputSchema(tool), options), ({ issue }) => relocate(issue, placeOf))
    }),
    encode: SchemaGetter.passthrough({ strict: false })
  }),
  ofAnyObject
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

/** The place in the queue. Without one it is the usual one. */
const priorityUpTo = (maximum: number) =>
  absentOr(
    Schema.Int.check(Schema.isBetween({ minimum: 0, maximum }, { expected: `an integer between 0 and ${maximum}` })),
    `Place in the queue while the core has no room: 0 to ${maximum}, ${usualPriority} by default. A higher one goes first; one that waits rises by one a minute.`
  )

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
    AnyId,
    "Id of an LLM configuration of the assistant, not a model's name. An unknown id silently means the default."
  ),
  image_generator_id: absentOr(
    AnyId,
    "Id of an image generator configuration of the assistant. An unknown id silently means the default."
  ),
  callback_url: absentOr(
    WebhookUrl,
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
  priority: priorityUpTo(Limits.priority.ofUsers),
  metadata: absentOr(
    Metadata.Metadata,
    `Labels of the client's own: up to ${Limits.metadataPairs} texts of up to ${Limits.metadataValueLength} characters, `
      + `by keys of up to ${Limits.metadataKeyLength}. \`?include=metadata\` returns them, \`?metadata[key]=value\` filters lists.`
  )
}).annotate({ identifier: "CreateTask", description: "A task to run. `null` means the same as absent." })
export type CreateTaskBody = typeof CreateTaskBody.Type

/** The priority of a task that an internal caller creates. */
export const internalPriority = priorityUpTo(Limits.priority.highest)

/** The same on behalf of a user, by an internal caller. */
export const InternalCreateTaskBody = Schema.Struct({ ...CreateTaskBody.fields, priority: internalPriority })

/** Wishes of a client of another protocol for the model. Only extensions add it, and a core may ignore it. */
export const RunOptions = Schema.Struct({
  max_output_tokens: Schema.optional(Schema.Int),
  response_format: Schema.optional(JsonObject)
})
export type RunOptions = typeof RunOptions.Type

/** The part of a request that the core receives. */
export const RunRequest = Schema.Struct({
  assistant_id: Schema.Int,
  input: Schema.Array(Schema.Json),
  turns: Schema.Array(Schema.Json),
  client_tools: Schema.Array(Schema.Json),
  llm_model_id: Schema.NullOr(Schema.Int),
  image_generator_id: Schema.NullOr(Schema.Int),
  options: Schema.optional(RunOptions)
})
export type RunRequest = typeof RunRequest.Type

/** The fields of a request that the gateway itself keeps. A rerun copies it. */
export const KeptFields = Schema.Struct({
  assistantId: Schema.Int,
  callbackUrl: Schema.NullOr(Schema.String),
  /** Seconds. */
  maxExecutionTime: Schema.Int,
  /** From 0 to 9. The place in the queue: a higher one goes first. */
  priority: Schema.Int,
  metadata: Schema.NullOr(Metadata.Metadata)
})
export interface KeptFields extends Schema.Schema.Type<typeof KeptFields> {}

/** A task to create. The part that the gateway only stores and forwards is one JSON text, so that its size costs little. */
export interface CreateTask extends KeptFields {
  readonly callbackSecret: string | null
  /** The name of the format of the webhooks, which an extension adds. If absent, they have the task itself. */
  readonly callbackFormat?: string
  /** Slots that the task must leave free, for the user's own tasks; none if absent. */
  readonly sparedSlots?: number
  /** See `StoredRequest`. */
  readonly request: OpaqueJson
  /** The `RunRequest` of a request that refers to other tasks, unless it is large. */
  readonly whole?: OpaqueJson | undefined
}

/** The messages of `turns`, with those of earlier turns in their place. */
const messagesOf = (turns: ReadonlyArray<Messages>): ReadonlyArray<Writable> =>
  turns.flatMap((item): ReadonlyArray<Writable> => "messages" in item ? RawJson.itemsOf(item.messages) : [item])

/** The fields of the `RunRequest` that a body has. */
export const runFieldsOf = (body: Partial<CreateTaskBody>) =>
  ({
    assistant_id: body.assistant_id,
    input: body.input,
    turns: messagesOf(body.turns ?? []),
    client_tools: body.client_tools ?? [],
    llm_model_id: body.llm_model_id ?? null,
    image_generator_id: body.image_generator_id ?? null
  }) satisfies Record<Exclude<keyof RunRequest, "options">, Writable | undefined>

type Body = Partial<CreateTaskBody>

/** The fields that only the gateway uses. */
export const ownFieldsOf = (body: Body) => ({
  callbackUrl: body.callback_url ? new URL(body.callback_url).href : null,
  callbackSecret: body.callback_secret || null,
  maxExecutionTime: body.max_execution_time ?? Limits.maxExecutionTime,
  priority: body.priority ?? usualPriority,
  metadata: Metadata.orNull(body.metadata)
})
type OwnFields = ReturnType<typeof ownFieldsOf>

/** Their names in the body. */
const names = {
  callbackUrl: "callback_url",
  callbackSecret: "callback_secret",
  maxExecutionTime: "max_execution_time",
  priority: "priority",
  metadata: "metadata"
} as const satisfies Record<keyof OwnFields, keyof CreateTaskBody>

/** The kept fields as `?include=request` shows them. The `RunRequest` has the assistant's id. */
export const shownFieldsOf = ({ callbackUrl, maxExecutionTime, metadata, priority }: KeptFields) =>
  ({
    max_execution_time: maxExecutionTime,
    priority,
    callback_url: callbackUrl,
    metadata: metadata ?? {}
  }) satisfies Record<Exclude<(typeof names)[keyof typeof names], "callback_secret">, unknown>

/** The fields that the body has, also if they are null. */
export const givenFieldsOf = (body: Body): Partial<OwnFields & Pick<KeptFields, "assistantId">> => ({
  ...Struct.pick(ownFieldsOf(body), Struct.keys(names).filter((field) => body[names[field]] !== undefined)),
  ...(body.assistant_id === undefined ? {} : { assistantId: body.assistant_id })
})

export const toCreateTask = (body: CreateTaskBody): CreateTask => ({
  ...ownFieldsOf(body),
  assistantId: body.assistant_id,
  request: fromValue(runFieldsOf(body))
})
