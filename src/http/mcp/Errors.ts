/** Failures of requests, as errors of JSON-RPC, and failures of tools, as texts for the model. */
import { Schema } from "effect"
import { ValidationFailed } from "../contract/Errors.ts"
import * as Defects from "../Defects.ts"
import * as Refusals from "../facades/Refusals.ts"
import type { BodyError } from "../handlers/body/BodyReader.ts"

/** An error of JSON-RPC, with the status of its HTTP response. */
export class Refused extends Schema.TaggedError<Refused>()("McpRefused", {
  status: Schema.Int,
  code: Schema.Int,
  message: Schema.String,
  data: Schema.optional(Schema.Json)
}) {}

export const notRequest = (problem: string) => new Refused({ status: 400, code: -32600, message: problem })

/** 404 in the revisions that give each error a status. */
export const noMethod = (method: string, status: number) =>
  new Refused({ status, code: -32601, message: `There is no method ${method.slice(0, 64)}.` })

export const invalidParams = (message: string, status = 400) => new Refused({ status, code: -32602, message })

export const headerMismatch = (header: string) =>
  new Refused({ status: 400, code: -32020, message: `The header ${header} must be the same as in the body.` })

export const unsupportedVersion = (requested: string, supported: ReadonlyArray<string>) =>
  new Refused({
    status: 400,
    code: -32022,
    message: `Unsupported protocol version. Supported: ${supported.join(", ")}.`,
    data: { supported, requested: requested.slice(0, 64) }
  })

export const missingCapability = (extension: string) =>
  new Refused({
    status: 400,
    code: -32021,
    message: `The client must have the capability ${extension}.`,
    data: { requiredCapabilities: { extensions: { [extension]: {} } } }
  })

export const internalError = new Refused({ status: 500, code: -32603, message: Defects.message })

export const unavailable = (message: string) => new Refused({ status: 503, code: -32603, message })

export const wrongOrigin = new Refused({
  status: 403,
  code: -32600,
  message: "Web pages of this origin may not call the service: CORS_ORIGINS lists those that may."
})

/** A token that is refused, or a body that cannot be read. */
export const ofRequest = (failure: BodyError): Refused => {
  const status = Refusals.statusOf(failure)
  return new Refused({
    status,
    code: status === 400 ? -32700 : status === 503 ? -32603 : -32600,
    message: failure.message
  })
}

export type ToolFailure = ValidationFailed | Refusals.TaskFailure

const noTask = "There is no such task of this user. Call list_tasks."

/** The remedy, behind the message of the failure. */
const ways: Partial<Record<Refusals.Failed, string>> = {
  TaskHasEnded: "Call get_task for its result.",
  TaskNotInterrupted: "Call get_task.",
  ToolResultsMismatch: "Send one result for each of pending_tool_calls.",
  IdempotencyKeyReused: "Use a new idempotency_key for another request.",
  TooManyActiveTasks: "Answer or cancel interrupted tasks, or wait until one has ended: call list_tasks."
}

export const messageOf = (failure: ToolFailure): string => {
  if (failure instanceof ValidationFailed) {
    return Object.entries(failure.errors).map(([field, messages]) => `${field}: ${messages.join("; ")}`).join("\n")
  }
  return Refusals.messageOf(failure, noTask, ways)
}
