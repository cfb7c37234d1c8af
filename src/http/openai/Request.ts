/** The body of `POST /v1/responses`. */
import { Effect, identity, Predicate, Schema } from "effect"
import { absentOr } from "../../domain/Fields.ts"
import * as RawJson from "../../domain/json/RawJson.ts"
import { type Shape, shapeOf } from "../../domain/json/Shape.ts"
import { Kind } from "../../domain/json/tables.ts"
import type { Writable } from "../../domain/json/Writer.ts"
import * as Limits from "../../domain/Limits.ts"
import { CreateTaskBody, ownFieldsOf } from "../../domain/TaskRequest.ts"
import { type BodyKind, kind } from "../handlers/body/JsonBody.ts"
import { invalid } from "./Errors.ts"
import * as Items from "./Items.ts"
import * as Kept from "./Kept.ts"

const taskFields = CreateTaskBody.fields

const notSupported = absentOr(RawJson.Any, "Not supported.")

/** Bound of `max_output_tokens`, far above what models write. */
const maxTokens = 10_000_000

/** Fields that are not listed are ignored. */
const CreateResponseBody = Schema.Struct({
  model: Schema.String,
  input: Schema.Union([RawJson.Text, RawJson.Objects]).annotate({ expected: "a text or an array of items" }),
  instructions: absentOr(Schema.String, "A system message in front of the conversation."),
  previous_response_id: absentOr(Schema.String, "The response that this request continues or answers."),
  tools: absentOr(RawJson.Objects, "Functions of the client."),
  tool_choice: absentOr(Schema.Unknown, "`auto` or `none`."),
  background: absentOr(Schema.Boolean, "True to answer immediately."),
  stream: absentOr(Schema.Boolean, "True to answer with events."),
  store: absentOr(Schema.Boolean, "If false, the task is deleted an hour after its end."),
  text: absentOr(
    Schema.Struct({ format: absentOr(RawJson.AnyObject, "`json_schema`, `json_object` or `text`.") }),
    "The form of the answer."
  ),
  max_output_tokens: absentOr(
    Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: maxTokens }, {
      expected: `an integer between 1 and ${maxTokens}`
    })),
    "Passed to the core."
  ),
  metadata: taskFields.metadata,
  callback_url: taskFields.callback_url,
  callback_secret: taskFields.callback_secret,
  max_execution_time: taskFields.max_execution_time,
  priority: taskFields.priority,
  conversation: notSupported,
  prompt: notSupported,
  max_tool_calls: notSupported
})
type CreateResponseBody = typeof CreateResponseBody.Type

export interface CreateResponse {
  readonly model: string
  readonly previous: string | null
  readonly isBackground: boolean
  readonly isStream: boolean
  readonly conversation: Items.Conversation
  /** The system message; undefined without instructions. */
  readonly instructions: Writable | undefined
  /** The task's `client_tools`. */
  readonly tools: Writable
  readonly fields: ReturnType<typeof ownFieldsOf>
  /** See `RunOptions`; undefined when there are none. */
  readonly options: Writable | undefined
  readonly isStored: boolean
  /** Seconds. */
  readonly timeLimit: number | null
  /** See `Kept`. */
  readonly kept: string
  /** A field that would change the result and is not supported. */
  readonly unsupported: string | null
}

/** The reason why a request is invalid. */
export interface Problem {
  readonly problem: { readonly param: string; readonly message: string; readonly code: string | null }
}

const Tools = Schema.Struct({ tools: taskFields.client_tools })
const decodeTools = Schema.decodeUnknownEffect(Tools)
const toolsShape = shapeOf(Schema.Array(Schema.Struct({
  type: Schema.optional(Schema.Unknown),
  async: Schema.optional(Schema.Unknown)
})))
const clientToolsShape = shapeOf(taskFields.client_tools)

type ToolKind = { readonly type?: unknown; readonly async?: unknown }

/** The part of a raw value that a shape wants, of at most `Limits.turns` items. */
const scan = Effect.fnUntraced(function*(param: string, shape: Shape, bytes: Uint8Array) {
  const { excess: [excess], value } = RawJson.decodable(yield* RawJson.find(shape, bytes), bytes)
  return excess === undefined ? value : yield* invalid(param, `Expected at most ${excess.maximum} ${excess.unit}`)
})

const onlyFunctions =
  "Only functions that are not async are supported. Declare the tool as a function, and run it in your app."

const toolsOf = Effect.fnUntraced(function*({ tool_choice, tools: given }: CreateResponseBody) {
  const choice = tool_choice ?? "auto"
  if (choice !== "auto" && choice !== "none") {
    return yield* invalid(
      "tool_choice",
      "Expected auto or none. Send only those tools that the model may call.",
      "unsupported_parameter"
    )
  }
  const raw = given instanceof RawJson.RawJson ? given.bytes : undefined
  // The body's schema, or the shape of the scan, has the fields.
  const tools = (raw === undefined ? given ?? [] : yield* scan("tools", toolsShape, raw)) as ReadonlyArray<ToolKind>
  const unsupported = tools.findIndex(({ async, type }) => type !== "function" || async === true)
  if (unsupported >= 0) {
    const param = `tools[${unsupported}].${tools[unsupported]?.type === "function" ? "async" : "type"}`
    return yield* invalid(param, onlyFunctions, "unsupported_parameter")
  }
  if (choice === "none") return []
  const whole = raw === undefined ? given : yield* scan("tools", clientToolsShape, raw)
  const decoded = yield* Effect.mapError(
    decodeTools({ tools: whole }),
    // The other lines are the path, in another notation.
    ({ message }) => invalid("tools", message.split("\n", 1)[0]?.slice(0, 512) ?? "")
  )
  return decoded.tools ?? []
})

/** Texts and outputs of the items stay raw. */
const inputOf = Effect.fnUntraced(function*({ input }: CreateResponseBody) {
  // The body's schema takes a text or a list, and a list is raw.
  if (!(input instanceof RawJson.RawJson) || input.kind === Kind.string) return input as string | RawJson.RawJson
  if (input.count > Limits.turns) return yield* invalid("input", `Expected at most ${Limits.turns} items`)
  return (yield* scan("input", Items.shape, input.bytes)) as ReadonlyArray<{ readonly [field: string]: unknown }>
})

const formatShape = shapeOf(Schema.Struct({
  type: Schema.optional(Schema.Unknown),
  name: Schema.optional(Schema.Unknown),
  schema: Schema.optional(RawJson.Any)
}))

const isAnyObject = Schema.is(RawJson.AnyObject)

/** The `text.format`, unless it is text, and its type. Its bytes are passed on. */
const formatOf = Effect.fnUntraced(function*({ text }: CreateResponseBody) {
  const format = text?.format
  if (Predicate.isNullish(format)) return undefined
  // Either way an object: the schema takes no other value.
  const fields =
    (format instanceof RawJson.RawJson ? yield* scan("text.format", formatShape, format.bytes) : format) as {
      readonly [field: string]: unknown
    }
  const { name, schema, type = "text" } = fields
  if (type === "json_schema" && !isAnyObject(schema)) {
    return yield* invalid("text.format.schema", "Expected a JSON Schema: an object")
  }
  if (type === "json_schema" && !Predicate.isString(name)) {
    return yield* invalid("text.format.name", "Expected a name of the schema: a text")
  }
  return type === "text" ? undefined : { type, format }
})

const passedFormats: ReadonlySet<unknown> = new Set(["json_schema", "json_object"])

const unsupportedField = (body: CreateResponseBody, formatType: unknown): string | null => {
  if (formatType !== undefined && !passedFormats.has(formatType)) return "text.format"
  const { conversation, max_tool_calls, prompt } = body
  const hints = Object.entries({ conversation, max_tool_calls, prompt })
  return hints.find(([, value]) => !Predicate.isNullish(value))?.[0] ?? null
}

const optionsOf = (maximum: number | null | undefined, format: Effect.Success<ReturnType<typeof formatOf>>) => {
  const options: { readonly [name: string]: Writable } = {
    ...(Predicate.isNullish(maximum) ? {} : { max_output_tokens: maximum }),
    ...(passedFormats.has(format?.type) && format !== undefined ? { response_format: format.format } : {})
  }
  return Object.keys(options).length === 0 ? undefined : options
}

const backgroundNeedsStore = invalid(
  "store",
  "A response with background: true has to be stored. Omit store, or send background: false."
)

const toRequest = Effect.fnUntraced(function*(body: CreateResponseBody) {
  const {
    background,
    callback_secret,
    callback_url,
    input,
    instructions,
    max_output_tokens,
    metadata,
    model,
    previous_response_id,
    priority,
    store,
    stream,
    tools
  } = body
  const isStored = store ?? true
  if (background === true && !isStored) return yield* backgroundNeedsStore
  const format = yield* formatOf(body)
  const request: CreateResponse = {
    model,
    previous: previous_response_id ?? null,
    isBackground: background ?? false,
    isStream: stream ?? false,
    conversation: yield* Items.parse(yield* inputOf(body)),
    instructions: instructions ? { role: "system", content: instructions } : undefined,
    tools: yield* toolsOf(body),
    fields: ownFieldsOf({ callback_secret, callback_url, metadata, priority }),
    timeLimit: body.max_execution_time ?? null,
    options: optionsOf(max_output_tokens, format),
    isStored,
    kept: Kept.encode({
      model,
      instructions: instructions ?? null,
      previous_response_id: previous_response_id ?? null,
      metadata: metadata ?? {},
      tools: tools ?? [],
      background: background ?? false,
      store: isStored,
      max_output_tokens: max_output_tokens ?? null,
      text: { format: body.text?.format ?? { type: "text" } },
      input
    }),
    unsupported: unsupportedField(body, format?.type)
  }
  return request
})

const parse = (body: CreateResponseBody): Effect.Effect<CreateResponse | Problem> =>
  Effect.match(toRequest(body), {
    onSuccess: (request) => request,
    onFailure: ({ code, message, param }) => ({ problem: { param: param ?? "body", message, code } })
  })

const decoded = kind(CreateResponseBody, { to: identity })

export const createResponse: BodyKind<CreateResponse | Problem> = {
  ...decoded,
  whenEmpty: undefined,
  decode: (found, bytes) => Effect.flatMap(decoded.decode(found, bytes), parse)
}
