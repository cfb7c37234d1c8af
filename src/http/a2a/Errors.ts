/** Failures as errors of JSON-RPC, with the reasons of A2A. */
import { Schema } from "effect"
import type { ValidationFailed } from "../contract/Errors.ts"
import * as Defects from "../Defects.ts"
import { type Failed, messageOf, statusOf, type TaskFailure } from "../facades/Refusals.ts"
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

const noTask = "The token's user has no such task. It may have been deleted."

/** Advice for the client, appended to the message of a failure. */
const ways: Partial<Record<Failed, string>> = {
  TaskNotInterrupted: "Send the message without its taskId.",
  TooManyActiveTasks: "Answer or cancel tasks that wait for input.",
  TooManyWaiting: "Set returnImmediately, and call GetTask later."
}

/** The reason of each failure; with a field it is a parameter that is invalid. Those without a code of their own may be over later. */
const reasons: Readonly<Record<Failed, string | { readonly field: string; readonly description?: string }>> = {
  TaskNotFound: "TASK_NOT_FOUND",
  TaskBelongsToAnother: "TASK_NOT_FOUND",
  ModelNotFound: "INVALID_PARAMS",
  TaskNotInterrupted: "UNSUPPORTED_OPERATION",
  TaskHasEnded: "TASK_NOT_CANCELABLE",
  ToolResultsMismatch: { field: "message.parts" },
  IdempotencyKeyReused: {
    field: "message.messageId",
    description: "Another message had this id within the last 24 hours"
  },
  FileRefused: "CONTENT_TYPE_NOT_SUPPORTED",
  BackendRefused: "CONTENT_TYPE_NOT_SUPPORTED",
  FilesNotKept: "CONTENT_TYPE_NOT_SUPPORTED",
  TooManyActiveTasks: "TOO_MANY_ACTIVE_TASKS",
  TooManyWaiting: "TOO_MANY_WAITING_REQUESTS",
  CreateRefused: "TOO_MANY",
  NoSlotLeft: "TOO_MANY_UPLOADS",
  BackendUnauthorized: "BACKEND_UNAUTHORIZED",
  BackendUnavailable: "UNAVAILABLE",
  StoreUnavailable: "UNAVAILABLE"
}

const hasCode = (reason: string): reason is keyof typeof codes => reason in codes

const ofTask = (failure: Refused | TaskFailure): Refused => {
  if (failure instanceof Refused) return failure
  const reason = reasons[failure._tag]
  const message = messageOf(failure, noTask, ways)
  if (typeof reason !== "string") return invalidParams(reason.field, reason.description ?? message)
  if (failure._tag === "CreateRefused") return internal(`${reason}_${failure.limit.toUpperCase()}`, message)
  return hasCode(reason)
    ? refused(reason, message, failure._tag === "ModelNotFound" ? 404 : 200)
    : internal(reason, message)
}

const ofRequest = (failure: BodyError): Refused => {
  const { message } = failure
  const status = statusOf(failure)
  return status === 400
    ? refused("PARSE_ERROR", message)
    : status === 401
    ? new Refused({ code: codes.INVALID_REQUEST, reason: "UNAUTHENTICATED", message, status })
    : status === 503
    ? internal("UNAVAILABLE", message, status)
    : refused("INVALID_REQUEST", message, status)
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
