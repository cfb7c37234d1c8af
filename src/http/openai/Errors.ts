/** Errors as the OpenAI API has them: `{error: {message, type, param, code}}`. */
import { Effect, Schema } from "effect"
import { HttpServerResponse } from "effect/http"
import {
  PayloadTooLarge,
  RequestTimeout,
  Unauthorized,
  UnsupportedMediaType,
  ValidationFailed
} from "../contract/Errors.ts"
import * as Defects from "../Defects.ts"
import type { TaskFailure } from "../facades/TaskFailure.ts"
import type { BodyError } from "../handlers/body/BodyReader.ts"

export class Refused extends Schema.TaggedError<Refused>()("OpenAiRefused", {
  status: Schema.Int,
  message: Schema.String,
  param: Schema.NullOr(Schema.String),
  code: Schema.NullOr(Schema.String)
}) {}

const refused = (status: number, message: string, code: string | null, param: string | null = null) =>
  new Refused({ status, message, code, param })

/** A 400 for one field. */
export const invalid = (param: string, message: string, code: string | null = null): Refused =>
  refused(400, message, code, param)

export const unsupported = (method: string, path: string): Refused =>
  refused(
    404,
    `${method} ${path} is not supported by this service. Use POST /v1/responses, GET /v1/responses/{id}, `
      + "POST /v1/responses/{id}/cancel, GET /v1/models or POST /v1/files.",
    "unsupported"
  )

export const notCancellable = (status: string): Refused =>
  refused(
    409,
    `The response is ${status} and cannot be cancelled. GET /v1/responses/{id} returns it.`,
    "response_not_cancellable"
  )

export const inputNotKept = refused(
  404,
  "The input of this response was too large to keep. Upload files to /v1/files, and send only their ids.",
  "not_found"
)

export const fileNotFound = (id: string): Refused =>
  refused(404, `No such file: ${id}. Upload it to /v1/files, which returns its id.`, "not_found", "id")

export type Failure = BodyError | Refused | TaskFailure

type Mapping = readonly [status: number, code: string | null, param?: string]

/** The same for what is unknown and what belongs to another user. */
const notFound: Mapping = [404, "not_found"]
const tooMany: Mapping = [429, "rate_limit_exceeded"]

const mappings: Readonly<Record<TaskFailure["_tag"], Mapping>> = {
  ModelNotFound: [404, "model_not_found", "model"],
  TaskNotFound: notFound,
  TaskBelongsToAnother: notFound,
  TaskNotInterrupted: [409, "conflict"],
  TaskHasEnded: [409, "response_not_cancellable"],
  ToolResultsMismatch: [400, null, "input"],
  IdempotencyKeyReused: [400, null, "Idempotency-Key"],
  FileRefused: [400, null, "file"],
  BackendRefused: [400, null, "file"],
  FilesNotKept: [404, "not_found"],
  BackendUnauthorized: [401, "invalid_api_key"],
  BackendUnavailable: [502, "server_error"],
  NoSlotLeft: tooMany,
  CreateRefused: [400, "storage_limit_exceeded"],
  TooManyActiveTasks: tooMany,
  TooManyWaiting: tooMany,
  StoreUnavailable: [503, "server_error"]
}

const noResponse = "The token's user has no such response. It may have been deleted after its retention."

/** For failures whose own message is empty or says too much. */
const messages: Readonly<Record<string, string>> = {
  TaskNotFound: noResponse,
  TaskBelongsToAnother: noResponse,
  BackendRefused: "The assistant backend refused the file. Send another one, or omit it.",
  BackendUnauthorized: "The assistant backend refused the token. Send a token that it accepts as the API key.",
  BackendUnavailable: "The assistant backend did not answer as expected. Try again later.",
  NoSlotLeft: "Too many uploads at a time. Try again when one has ended."
}

/** What helps, behind the message of a failure that does not say so. */
const ways: Readonly<Record<string, string>> = {
  TaskNotInterrupted: "Retrieve the response again.",
  TaskHasEnded: "GET /v1/responses/{id} returns it.",
  ToolResultsMismatch: "Send one function_call_output for each function_call of the response.",
  IdempotencyKeyReused: "Use a new key for another request.",
  FileRefused: "Send a file of an accepted format.",
  TooManyActiveTasks: "Answer or cancel responses that wait for tool outputs, or wait until one has ended.",
  TooManyWaiting: "Send background: true, and retrieve the response later.",
  StoreUnavailable: "Try again later."
}

const sentence = (text: string) => /[.!?]$/.test(text) ? text : `${text}.`

const ofTask = (failure: Refused | TaskFailure): Refused => {
  if (failure instanceof Refused) return failure
  const { _tag: tag, message } = failure
  const [status, code, param] = mappings[tag]
  const way = ways[tag]
  const said = messages[tag] ?? message
  return refused(
    status,
    way === undefined ? said : `${sentence(said || "The service is not available")} ${way}`,
    code,
    param
  )
}

const ofRequest = (failure: BodyError): Refused => {
  if (failure instanceof ValidationFailed) {
    const field = Object.keys(failure.errors)[0] ?? "body"
    return invalid(field.replaceAll(/\.(\d+)/g, "[$1]"), failure.message)
  }
  if (failure instanceof Unauthorized) {
    return refused(401, `${sentence(failure.message)} Pass a user's JWT as the API key.`, "invalid_api_key")
  }
  const [, status, way] = statuses.find(([Kind]) => failure instanceof Kind) ?? [undefined, 503, "Try again later."]
  return refused(status, `${sentence(failure.message)} ${way}`, status === 503 ? "server_error" : null)
}

const statuses = [
  [PayloadTooLarge, 413, "Upload files to /v1/files, and send only their ids."],
  [RequestTimeout, 408, "Send the request again."],
  [UnsupportedMediaType, 415, "Send JSON as application/json."]
] as const

const toRefused = (failure: Failure): Refused => "_tag" in failure ? ofTask(failure) : ofRequest(failure)

const typeOf = (status: number) =>
  status >= 500 ? "server_error" : status === 429 ? "rate_limit_error" : "invalid_request_error"

const toResponse = (failure: Failure): HttpServerResponse.HttpServerResponse => {
  const { code, message, param, status } = toRefused(failure)
  return HttpServerResponse.jsonUnsafe(
    { error: { message, type: typeOf(status), param, code } },
    // The SDK repeats a 409 unless it is told not to.
    { status, headers: status === 409 ? { "x-should-retry": "false" } : {} }
  )
}

const internal = refused(500, Defects.message, "server_error")

export const catchFailure = <R>(handler: Effect.Effect<HttpServerResponse.HttpServerResponse, Failure, R>) =>
  handler.pipe(
    Defects.failWith(internal),
    Effect.catch((failure) => Effect.succeed(toResponse(failure)))
  )
