/** The parameters of the methods. Versions 1.0 and 0.3 name some fields differently; unknown fields are ignored. */
import { Effect, identity, Schema } from "effect"
import { isAtMostCharacters } from "../../domain/Fields.ts"
import * as OpaqueJson from "../../domain/json/OpaqueJson.ts"
import * as RawJson from "../../domain/json/RawJson.ts"
import { Kind } from "../../domain/json/tables.ts"
import * as Limits from "../../domain/Limits.ts"
import { CreateTaskBody } from "../../domain/TaskRequest.ts"
import { type BodyKind, decodeBytes, kind } from "../handlers/body/JsonBody.ts"
import { invalidParams, ofParams, type Refused } from "./Errors.ts"

/** The extension for tools that the client runs. */
export const clientTools = "urn:async-task-service:a2a:client-tools:v1"
/** The extension for the revision of a task in its metadata. */
export const revision = "urn:async-task-service:a2a:revision:v1"

const contextIdLength = 255

const optional = <S extends Schema.Top>(schema: S) => Schema.optional(Schema.NullOr(schema))

const ContextId = Schema.String.check(isAtMostCharacters(contextIdLength))

const HistoryLength = Schema.Int.check(Schema.isGreaterThanOrEqualTo(0, { expected: "a number of messages" }))

const Part = Schema.Struct({
  text: optional(RawJson.Text),
  raw: optional(RawJson.Text),
  url: optional(RawJson.Any),
  data: optional(RawJson.Any),
  filename: optional(Schema.String),
  mediaType: optional(Schema.String),
  /** Version 0.3 has this field. */
  file: optional(Schema.Struct({
    bytes: optional(RawJson.Text),
    uri: optional(RawJson.Any),
    name: optional(Schema.String),
    mimeType: optional(Schema.String)
  }))
})
export type Part = typeof Part.Type

const Send = Schema.Struct({
  message: Schema.Struct({
    messageId: Schema.NonEmptyString.annotate({ expected: "a text that is not empty" }),
    role: Schema.Literals(["ROLE_USER", "user"]).annotate({ expected: "the role of the user" }),
    parts: Schema.Array(Part).check(
      Schema.isMinLength(1, { expected: "at least one part" }),
      Schema.isMaxLength(Limits.inputItems, { expected: `at most ${Limits.inputItems} parts` })
    ),
    contextId: optional(ContextId),
    taskId: optional(Schema.String),
    extensions: optional(Schema.Array(Schema.String)),
    metadata: optional(Schema.Struct({
      [clientTools]: optional(Schema.Struct({ client_tools: CreateTaskBody.fields.client_tools }))
    }))
  }),
  configuration: optional(Schema.Struct({
    returnImmediately: optional(Schema.Boolean),
    blocking: optional(Schema.Boolean),
    historyLength: optional(HistoryLength),
    taskPushNotificationConfig: optional(RawJson.Any),
    pushNotificationConfig: optional(RawJson.Any)
  }))
})

/** `source` has the bytes of the message, which identify it. */
export const send = kind(Send, {
  to: (params, body) => {
    const message = body?.found.field("message")
    return { ...params, source: body!.bytes.subarray(message!.start, message!.end) }
  }
})
export type Send = typeof Send.Type & { readonly source: Uint8Array }

export const task = kind(Schema.Struct({ id: Schema.String, historyLength: optional(HistoryLength) }), { to: identity })

export const list = kind(
  Schema.Struct({
    contextId: optional(ContextId),
    status: optional(Schema.String),
    pageSize: optional(
      Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 100 }, { expected: "an integer between 1 and 100" }))
    ),
    pageToken: optional(Schema.String),
    historyLength: optional(HistoryLength),
    statusTimestampAfter: optional(Schema.String),
    includeArtifacts: optional(Schema.Boolean)
  }),
  { to: identity }
)

/** Results of tools, in a part with data. */
const Results = Schema.Struct({
  tool_results: Schema.Array(Schema.Struct({
    tool_call_id: Schema.NonEmptyString,
    output: RawJson.Any,
    is_error: optional(Schema.Boolean)
  })).check(Schema.isMaxLength(Limits.toolCalls, { expected: `at most ${Limits.toolCalls} items` }))
})
const results = kind(Results, { to: identity })

const none = new RawJson.RawJson(Kind.object, OpaqueJson.encode("{}"))

export const decode = <A>(kind: BodyKind<A>, params: RawJson.RawJson = none) =>
  Effect.mapError(decodeBytes(kind, params.bytes), ofParams)

export const decodeResults = (data: RawJson.RawJson): Effect.Effect<typeof Results.Type, Refused> =>
  Effect.mapError(
    decodeBytes(results, data.bytes),
    ({ message }) => invalidParams("message.parts", `Expected data with tool_results: ${message}`)
  )
