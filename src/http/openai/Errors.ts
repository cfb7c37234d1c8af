/** Errors as the OpenAI API has them: `{error: {message, type, param, code}}`. */
import { Effect, Schema } from "effect"
import { HttpServerResponse } from "effect/http"
import { ValidationFailed } from "../contract/Errors.ts"
import * as Defects from "../Defects.ts"
import { type Failed, messageOf, sentence, statusOf, type TaskFailure } from "../facades/Refusals.ts"
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

const mappings: Readonly<Record<Failed, Mapping>> = {
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

/** Advice for the client, appended to the message of a failure. */
const ways: Partial<Record<Failed, string>> = {
  BackendRefused: "Send another one, or omit it.",
  BackendUnauthorized: "Send a token that it accepts as the API key.",
  TaskNotInterrupted: "Retrieve the response again.",
  TaskHasEnded: "GET /v1/responses/{id} returns it.",
  ToolResultsMismatch: "Send one function_call_output for each function_call of the response.",
  IdempotencyKeyReused: "Use a new key for another request.",
  FileRefused: "Send a file of an accepted format.",
  TooManyActiveTasks: "Answer or cancel responses that wait for tool outputs, or wait until one has ended.",
  TooManyWaiting: "Send background: true, and retrieve the response later."
}

const ofTask = (failure: Refused | TaskFailure): Refused => {
  if (failure instanceof Refused) return failure
  const [status, code, param] = mappings[failure._tag]
  return refused(status, messageOf(failure, noResponse, ways), code, param)
}

/** The remedy for a request that was refused before it was read. */
const waysOfStatus: Readonly<Record<number, string>> = {
  401: "Pass a user's JWT as the API key.",
  408: "Send the request again.",
  413: "Upload files to /v1/files, and send only their ids.",
  415: "Send JSON as application/json.",
  503: "Try again later."
}

const ofRequest = (failure: BodyError): Refused => {
  if (failure instanceof ValidationFailed) {
    const field = Object.keys(failure.errors)[0] ?? "body"
    return invalid(field.replaceAll(/\.(\d+)/g, "[$1]"), failure.message)
  }
  const status = statusOf(failure)
  const code = status === 401 ? "invalid_api_key" : status === 503 ? "server_error" : null
  return refused(status, `${sentence(failure.message)} ${waysOfStatus[status]}`, code)
}

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
