/** The body of `POST /v1/responses`. It is parsed on the thread that decodes it, so that no large body blocks the event loop. */
import { Effect, Predicate, Schema } from "effect"
import { absentOr } from "../../../domain/Fields.ts"
import { JsonObject, JsonObjects, JsonValue } from "../../../domain/OpaqueJson.ts"
import { type CreateTask, CreateTaskBody, taskFieldsOf } from "../../../domain/TaskRequest.ts"
import { invalid } from "./Errors.ts"
import * as Items from "./Items.ts"
import * as Kept from "./Kept.ts"

const taskFields = CreateTaskBody.fields

const notSupported = absentOr(JsonValue, "Not supported.")

/** Fields that are not listed are ignored. */
export const CreateResponseBody = Schema.Struct({
  model: Schema.String,
  input: Schema.Union([Schema.String, JsonObjects]).annotate({ expected: "a text or an array of items" }),
  instructions: absentOr(Schema.String, "A system message in front of the conversation."),
  previous_response_id: absentOr(Schema.String, "The response that this request continues or answers."),
  tools: absentOr(JsonObjects, "Functions of the client."),
  tool_choice: absentOr(JsonValue, "`auto` or `none`."),
  background: absentOr(Schema.Boolean, "Whether to answer immediately."),
  stream: absentOr(Schema.Boolean, "Whether to answer with events."),
  store: absentOr(Schema.Boolean, "Responses are always stored."),
  text: absentOr(JsonObject, "Only text is supported."),
  metadata: taskFields.metadata,
  callback_url: taskFields.callback_url,
  callback_secret: taskFields.callback_secret,
  max_execution_time: taskFields.max_execution_time,
  conversation: notSupported,
  prompt: notSupported,
  max_output_tokens: notSupported,
  max_tool_calls: notSupported
})
type CreateResponseBody = typeof CreateResponseBody.Type

export interface CreateResponse {
  readonly model: string
  readonly previous: string | null
  readonly isBackground: boolean
  readonly isStream: boolean
  readonly conversation: Items.Conversation
  /** JSON of the system message; null without instructions. */
  readonly instructions: string | null
  /** JSON of the task's `client_tools`. */
  readonly tools: string
  readonly fields: Omit<CreateTask, "request" | "callback_format" | "max_execution_time">
  /** Seconds. */
  readonly timeLimit: number | null
  /** See `Kept`. */
  readonly kept: string
  /** A field that would change the result and is not supported. */
  readonly unsupported: string | null
}

/** The reason why a request is invalid. A plain object, because errors lose their class between threads. */
export interface Problem {
  readonly problem: { readonly param: string; readonly message: string; readonly code: string | null }
}

const decodeTools = Schema.decodeUnknownEffect(Schema.Struct({ tools: taskFields.client_tools }))

const toolsOf = Effect.fnUntraced(function*({ tool_choice, tools }: CreateResponseBody) {
  const choice = tool_choice ?? "auto"
  if (choice !== "auto" && choice !== "none") {
    return yield* invalid("tool_choice", "Expected auto or none", "unsupported_parameter")
  }
  const unsupported = (tools ?? []).findIndex((tool) => tool["type"] !== "function" || tool["async"] === true)
  if (unsupported >= 0) {
    const param = `tools[${unsupported}].${tools?.[unsupported]?.["type"] === "function" ? "async" : "type"}`
    return yield* invalid(param, "Only synchronous functions are supported as tools", "unsupported_parameter")
  }
  if (choice === "none") return []
  const decoded = yield* Effect.mapError(
    decodeTools({ tools }),
    // The other lines are the path, in another notation.
    ({ message }) => invalid("tools", message.split("\n", 1)[0]?.slice(0, 512) ?? "")
  )
  return decoded.tools ?? []
})

const unsupportedField = (body: CreateResponseBody): string | null => {
  const format = body.text?.["format"]
  if (Predicate.hasProperty(format, "type") && format.type !== "text") return "text.format"
  if (body.store === false) return "store"
  const { conversation, max_output_tokens, max_tool_calls, prompt } = body
  const hints = Object.entries({ conversation, max_output_tokens, max_tool_calls, prompt })
  return hints.find(([, value]) => !Predicate.isNullish(value))?.[0] ?? null
}

const toRequest = Effect.fnUntraced(function*(body: CreateResponseBody) {
  const {
    background,
    callback_secret,
    callback_url,
    input,
    instructions,
    metadata,
    model,
    previous_response_id,
    stream,
    tools
  } = body
  const request: CreateResponse = {
    model,
    previous: previous_response_id ?? null,
    isBackground: background ?? false,
    isStream: stream ?? false,
    conversation: yield* Items.parse(input),
    instructions: instructions ? JSON.stringify({ role: "system", content: instructions }) : null,
    tools: JSON.stringify(yield* toolsOf(body)),
    fields: taskFieldsOf({ callback_secret, callback_url, metadata }),
    timeLimit: body.max_execution_time ?? null,
    kept: Kept.encode({
      model,
      instructions: instructions ?? null,
      previous_response_id: previous_response_id ?? null,
      metadata: metadata ?? {},
      tools: tools ?? [],
      background: background ?? false,
      input
    }),
    unsupported: unsupportedField(body)
  }
  return request
})

export const parse = (body: CreateResponseBody): Effect.Effect<CreateResponse | Problem> =>
  Effect.match(toRequest(body), {
    onSuccess: (request) => request,
    onFailure: ({ code, message, param }) => ({ problem: { param: param ?? "body", message, code } })
  })
