/** Failures as errors of JSON-RPC, with the reasons of A2A. */
import { Schema } from "effect"
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

/** The reasons that have codes of their own. */
const codes = {
  PARSE_ERROR: -32700,
  INVALID_REQUEST: -32600,
  METHOD_NOT_FOUND: -32601,
  INVALID_PARAMS: -32602,
  TASK_NOT_FOUND: -32001,
  TASK_NOT_CANCELABLE: -32002,
  PUSH_NOTIFICATION_NOT_SUPPORTED: -32003,
  UNSUPPORTED_OPERATION: -32004,
  CONTENT_TYPE_NOT_SUPPORTED: -32005,
  EXTENDED_AGENT_CARD_NOT_CONFIGURED: -32007,
  VERSION_NOT_SUPPORTED: -32009
} as const

export class Refused extends Schema.TaggedError<Refused>()("A2aRefused", {
  code: Schema.Int,
  reason: Schema.String,
  message: Schema.String,
  /** The status of the HTTP response. */
  status: Schema.Int,
  violations: Schema.optional(
    Schema.Array(Schema.Struct({ field: Schema.String, description: Schema.String }))
  )
}) {}

export const refused = (reason: keyof typeof codes, message: string, status = 200) =>
  new Refused({ code: codes[reason], reason, message, status })

export const invalidParams = (field: string, description: string) =>
  new Refused({
    code: codes.INVALID_PARAMS,
    reason: "INVALID_PARAMS",
    message: `${field}: ${description}`,
    status: 200,
    violations: [{ field, description }]
  })

/** The client may try again later. */
const internal = (reason: string, message: string, status = 200) =>
  new Refused({ code: -32603, reason, message, status })

export const withoutDefects = Defects.failWith(internal("INTERNAL", Defects.message))

export type Failure = BodyError | Refused | TaskFailure

const noTask = refused("TASK_NOT_FOUND", "The token's user has no such task. It may have been deleted.")

const ofTask = (failure: Refused | TaskFailure): Refused => {
  switch (failure._tag) {
    case "A2aRefused":
      return failure
    // The same for what is unknown and what belongs to another user.
    case "TaskNotFound":
    case "TaskBelongsToAnother":
      return noTask
    case "ModelNotFound":
      return refused("INVALID_PARAMS", failure.message, 404)
    case "TaskNotInterrupted":
      return refused("UNSUPPORTED_OPERATION", `${failure.message} Send the message without its taskId.`)
    case "TaskHasEnded":
      return refused("TASK_NOT_CANCELABLE", failure.message)
    case "ToolResultsMismatch":
      return invalidParams("message.parts", failure.message)
    case "IdempotencyKeyReused":
      return invalidParams("message.messageId", "Another message had this id within the last 24 hours")
    case "FileRefused":
      return refused("CONTENT_TYPE_NOT_SUPPORTED", failure.message)
    case "BackendRefused":
      return refused("CONTENT_TYPE_NOT_SUPPORTED", "The assistant backend refused the file.")
    case "TooManyActiveTasks":
      return internal("TOO_MANY_ACTIVE_TASKS", `${failure.message} Answer or cancel tasks that wait for input.`)
    case "TooManyWaiting":
      return internal("TOO_MANY_WAITING_REQUESTS", `${failure.message} Set returnImmediately, and call GetTask later.`)
    case "CreateRefused":
      return internal(`TOO_MANY_${failure.limit.toUpperCase()}`, failure.message)
    case "NoSlotLeft":
      return internal("TOO_MANY_UPLOADS", "Too many uploads at a time. Try again when one has ended.")
    case "FilesNotKept":
      return refused("CONTENT_TYPE_NOT_SUPPORTED", failure.message)
    case "BackendUnauthorized":
      return internal("BACKEND_UNAUTHORIZED", "The assistant backend refused the token.")
    case "BackendUnavailable":
      return internal("UNAVAILABLE", "The assistant backend did not answer as expected. Try again later.")
    case "StoreUnavailable":
      return internal("UNAVAILABLE", "The service is not available at the moment. Try again later.")
  }
}

const statuses = [[PayloadTooLarge, 413], [RequestTimeout, 408], [UnsupportedMediaType, 415]] as const

const ofRequest = (failure: BodyError): Refused => {
  if (failure instanceof ValidationFailed) return refused("PARSE_ERROR", failure.message)
  if (failure instanceof Unauthorized) {
    return new Refused({ code: -32600, reason: "UNAUTHENTICATED", message: failure.message, status: 401 })
  }
  const [, status] = statuses.find(([Kind]) => failure instanceof Kind) ?? []
  return status === undefined
    ? internal("UNAVAILABLE", failure.message, 503)
    : refused("INVALID_REQUEST", failure.message, status)
}

export const toRefused = (failure: Failure): Refused => "_tag" in failure ? ofTask(failure) : ofRequest(failure)

/** Invalid parameters, field by field. */
export const ofParams = ({ errors, message }: ValidationFailed) =>
  new Refused({
    code: codes.INVALID_PARAMS,
    reason: "INVALID_PARAMS",
    message,
    status: 200,
    violations: Object.entries(errors).flatMap(([field, messages]) =>
      messages.map((description) => ({ field, description }))
    )
  })

const googleRpc = (name: string) => `type.googleapis.com/google.rpc.${name}`

/** The details of an error of version 1.0. */
export const detailsOf = ({ reason, violations }: Refused) => [
  { "@type": googleRpc("ErrorInfo"), reason, domain: "a2a-protocol.org" },
  ...(violations === undefined ? [] : [{ "@type": googleRpc("BadRequest"), fieldViolations: violations }])
]

/** A user who has too many of something may try again when one has ended. */
export const headersOf = ({ reason }: Refused): Readonly<Record<string, string>> =>
  reason.startsWith("TOO_MANY") ? { "retry-after": "5" } : {}
