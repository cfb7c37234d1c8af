/** Errors as the OpenAI API has them: `{error: {message, type, param, code}}`. */
import { Effect, Schema } from "effect"
import { HttpServerResponse } from "effect/http"
import type { StoreUnavailable } from "../../../domain/StoreUnavailable.ts"
import type {
  IdempotencyKeyReused,
  TaskBelongsToAnother,
  TaskHasEnded,
  TaskNotFound,
  TaskNotInterrupted,
  ToolResultsMismatch,
  TooManyActiveTasks,
  TooManyWaiting
} from "../../../domain/TaskErrors.ts"
import type {
  BackendRefused,
  BackendUnauthorized,
  BackendUnavailable,
  FileRefused
} from "../../../services/files/AssistantBackend.ts"
import type { NoSlotLeft } from "../../../services/limits/UserSlots.ts"
import {
  PayloadTooLarge,
  RequestTimeout,
  type ServiceUnavailable,
  Unauthorized,
  UnsupportedMediaType,
  ValidationFailed
} from "../../contract/Errors.ts"

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

export const responseNotFound = (id: string): Refused =>
  refused(404, `Response with id '${id}' not found.`, "not_found")

export const modelNotFound = (name: string): Refused =>
  refused(404, `The model '${name}' does not exist.`, "model_not_found", "model")

export const unsupported = (method: string, path: string): Refused =>
  refused(404, `${method} ${path} is not supported by this service.`, "unsupported")

export const notCancellable = (status: string): Refused =>
  refused(409, `The response is ${status} and cannot be cancelled.`, "response_not_cancellable")

export const inputNotKept = refused(404, "The input of this response was too large to keep.", "not_found")

export const fileNotFound = (id: string): Refused => refused(404, `No such file: ${id}`, "not_found", "id")

type RequestFailure =
  | PayloadTooLarge
  | RequestTimeout
  | ServiceUnavailable
  | Unauthorized
  | UnsupportedMediaType
  | ValidationFailed

type TaskFailure =
  | Refused
  | StoreUnavailable
  | TaskNotFound
  | TaskBelongsToAnother
  | TaskNotInterrupted
  | TaskHasEnded
  | ToolResultsMismatch
  | TooManyActiveTasks
  | TooManyWaiting
  | IdempotencyKeyReused
  | FileRefused
  | BackendRefused
  | BackendUnauthorized
  | BackendUnavailable
  | NoSlotLeft

export type Failure = RequestFailure | TaskFailure

const invalidKey = (message: string) => refused(401, message, "invalid_api_key")

const ofTask = (failure: TaskFailure): Refused => {
  switch (failure._tag) {
    case "OpenAiRefused":
      return failure
    case "TaskNotFound":
    case "TaskBelongsToAnother":
      return refused(404, "There is no such response.", "not_found")
    case "TaskNotInterrupted":
      return refused(409, failure.message, "conflict")
    case "TaskHasEnded":
      return notCancellable(failure.status)
    case "ToolResultsMismatch":
      return invalid("input", failure.message)
    case "IdempotencyKeyReused":
      return invalid("Idempotency-Key", failure.message)
    case "FileRefused":
      return invalid("file", failure.message)
    case "BackendRefused":
      return invalid("file", "The assistant backend refused the file.")
    case "BackendUnauthorized":
      return invalidKey("The assistant backend refused the token.")
    case "NoSlotLeft":
      return refused(429, `Too many uploads at a time. The maximum is ${failure.maximum}.`, "rate_limit_exceeded")
    case "TooManyActiveTasks":
    case "TooManyWaiting":
      return refused(429, failure.message, "rate_limit_exceeded")
    case "BackendUnavailable":
      return refused(502, "The assistant backend did not answer as expected.", "server_error")
    case "StoreUnavailable":
      return refused(503, failure.message, "server_error")
  }
}

const ofRequest = (failure: RequestFailure): Refused => {
  if (failure instanceof ValidationFailed) return invalid(Object.keys(failure.errors)[0] ?? "body", failure.message)
  if (failure instanceof Unauthorized) return invalidKey(failure.message)
  const [, status = 503] = statuses.find(([Kind]) => failure instanceof Kind) ?? []
  return refused(status, failure.message, status === 503 ? "server_error" : null)
}

const statuses = [[PayloadTooLarge, 413], [RequestTimeout, 408], [UnsupportedMediaType, 415]] as const

const toRefused = (failure: Failure): Refused => "_tag" in failure ? ofTask(failure) : ofRequest(failure)

const typeOf = (status: number) =>
  status >= 500 ? "server_error" : status === 429 ? "rate_limit_error" : "invalid_request_error"

export const toResponse = (failure: Failure): HttpServerResponse.HttpServerResponse => {
  const { code, message, param, status } = toRefused(failure)
  return HttpServerResponse.jsonUnsafe(
    { error: { message, type: typeOf(status), param, code } },
    // The SDK repeats a 409 unless it is told not to.
    { status, headers: status === 409 ? { "x-should-retry": "false" } : {} }
  )
}

export const catchFailure = Effect.catch((failure: Failure) => Effect.succeed(toResponse(failure)))
