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
import type { UploadError } from "../../../services/files/AssistantBackend.ts"
import type { NoSlotLeft } from "../../../services/limits/UserSlots.ts"
import {
  PayloadTooLarge,
  RequestTimeout,
  Unauthorized,
  UnsupportedMediaType,
  ValidationFailed
} from "../../contract/Errors.ts"
import type { BodyError } from "../../handlers/body/BodyReader.ts"

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

export const modelNotFound = (name: string): Refused =>
  refused(404, `The model '${name}' does not exist.`, "model_not_found", "model")

export const unsupported = (method: string, path: string): Refused =>
  refused(404, `${method} ${path} is not supported by this service.`, "unsupported")

export const notCancellable = (status: string): Refused =>
  refused(409, `The response is ${status} and cannot be cancelled.`, "response_not_cancellable")

export const inputNotKept = refused(404, "The input of this response was too large to keep.", "not_found")

export const fileNotFound = (id: string): Refused => refused(404, `No such file: ${id}`, "not_found", "id")

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
  | UploadError
  | NoSlotLeft

export type Failure = BodyError | TaskFailure

type Mapping = readonly [status: number, code: string | null, param?: string]

/** The same for what is unknown and what belongs to another user. */
const notFound: Mapping = [404, "not_found"]
const tooMany: Mapping = [429, "rate_limit_exceeded"]

const mappings: Readonly<Record<Exclude<TaskFailure, Refused>["_tag"], Mapping>> = {
  TaskNotFound: notFound,
  TaskBelongsToAnother: notFound,
  TaskNotInterrupted: [409, "conflict"],
  TaskHasEnded: [409, "response_not_cancellable"],
  ToolResultsMismatch: [400, null, "input"],
  IdempotencyKeyReused: [400, null, "Idempotency-Key"],
  FileRefused: [400, null, "file"],
  BackendRefused: [400, null, "file"],
  BackendUnauthorized: [401, "invalid_api_key"],
  BackendUnavailable: [502, "server_error"],
  NoSlotLeft: tooMany,
  TooManyActiveTasks: tooMany,
  TooManyWaiting: tooMany,
  StoreUnavailable: [503, "server_error"]
}

/** For failures whose own message is empty or says too much. */
const messages: Readonly<Record<string, string>> = {
  TaskNotFound: "There is no such response.",
  TaskBelongsToAnother: "There is no such response.",
  BackendRefused: "The assistant backend refused the file.",
  BackendUnauthorized: "The assistant backend refused the token.",
  BackendUnavailable: "The assistant backend did not answer as expected.",
  NoSlotLeft: "Too many uploads at a time."
}

const ofTask = (failure: TaskFailure): Refused => {
  if (failure instanceof Refused) return failure
  const [status, code, param] = mappings[failure._tag]
  return refused(status, messages[failure._tag] ?? failure.message, code, param)
}

const ofRequest = (failure: BodyError): Refused => {
  if (failure instanceof ValidationFailed) {
    const field = Object.keys(failure.errors)[0] ?? "body"
    return invalid(field.replaceAll(/\.(\d+)/g, "[$1]"), failure.message)
  }
  if (failure instanceof Unauthorized) return refused(401, failure.message, "invalid_api_key")
  const [, status = 503] = statuses.find(([Kind]) => failure instanceof Kind) ?? []
  return refused(status, failure.message, status === 503 ? "server_error" : null)
}

const statuses = [[PayloadTooLarge, 413], [RequestTimeout, 408], [UnsupportedMediaType, 415]] as const

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

const internal = refused(500, "Something went wrong on our side.", "server_error")

export const catchFailure = <R>(handler: Effect.Effect<HttpServerResponse.HttpServerResponse, Failure, R>) =>
  handler.pipe(
    Effect.catchDefect((defect) => Effect.andThen(Effect.logError("a request failed", defect), Effect.fail(internal))),
    Effect.catch((failure) => Effect.succeed(toResponse(failure)))
  )
