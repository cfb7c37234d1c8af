/** The meaning of each response in the OpenAPI document. */
import * as Limits from "../../domain/Limits.ts"
import { operatorErrors, operatorResponses } from "./OperatorDocs.ts"

/** Descriptions of successes, and of errors with a meaning specific to the operation; keyed by `operationId` and status. */
const byOperation: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  "files.upload": {
    201: "The assistant backend stored the file. The body is an input item.",
    408: "The upload stalled: no data arrived in time.",
    422: "The file or the form was refused; `errors` has the field `file`, or is the assistant backend's own.",
    429: "The user has too many uploads in progress on this node."
  },
  "files.storageBase": { 200: "The public base URL of the storage." },
  "tasks.create": {
    201: "The task was created and is queued. With a repeated `Idempotency-Key`, the task of the first request.",
    429: "The user has the maximum number of active tasks."
  },
  "tasks.rerun": {
    201: "Another task was created and is queued. With a repeated `Idempotency-Key`, that of the first request.",
    409: "The request was too large to keep, or the task ended before the service kept requests.",
    429: "The user has the maximum number of active tasks."
  },
  "tasks.list": { 200: "One page of the caller's tasks. It is empty when no task matches." },
  "tasks.get": {
    200: "The current version of the task, which `ETag` names.",
    304: "The task has not changed since the version in `If-None-Match`.",
    429: "The user has too many waiting requests and streams on this node."
  },
  "tasks.delete": {
    204: "The task was deleted with its result, events and webhooks.",
    409: "The task has not ended."
  },
  "tasks.events": {
    200: "The stream of events. It ends with the task, or when the token expires or is revoked.",
    204: "The task has ended and `Last-Event-ID` is its last event: no event follows.",
    429: "The user has too many waiting requests and streams on this node."
  },
  "tasks.deliveries": { 200: "The webhooks of the task with their attempts; an empty list before the first one." },
  "tasks.redeliver": {
    202: "The next attempt is due now. The body is the delivery.",
    404: "There is no such task, or it has no such delivery.",
    409: `The delivery needs \`callback_secret\`, or it has had ${Limits.maxWebhookAttempts} attempts.`,
    429: "The user requests redeliveries too often."
  },
  "tasks.cancelInterrupted": { 200: "The tasks that were canceled; an empty list when no task was interrupted." },
  "tasks.submitToolResults": {
    200: "The results were accepted and the task is processing again.",
    409: "The task is not interrupted."
  },
  "tasks.cancel": {
    200: "The task was canceled. Its `error` is the `reason`.",
    409: "The task is not interrupted."
  },
  "core.report": {
    200: "The event was recorded, or had no effect: `applied` is false then.",
    409: "The run is not the task's current one, or the task has ended: stop the run."
  },
  "tokens.revoke": { 204: "The revocation is stored and takes effect within 5 seconds on every node." },
  "operations.metrics": { 200: "The current metrics of this node." }
}

const errors: Readonly<Record<string, string>> = {
  401: "The token is missing, invalid, expired or revoked.",
  403: "The task belongs to another user.",
  404: "There is no such task.",
  408: "The request body did not arrive in time.",
  413: `The JSON body is larger than ${Limits.jsonBodyBytes} bytes.`,
  415: "The body has a `Content-Encoding`, or a content type that this operation does not read.",
  422: "The request is not valid; `errors` names every invalid field by its dotted path. A JSON body may have up to "
    + `${Limits.jsonValues} values (items of arrays and members of objects, at any depth) and ${Limits.jsonDepth} levels.`,
  502: "The assistant backend did not respond as expected.",
  503:
    "The database, the keys or the revocations are unavailable, or the node has too many large requests. Try again later."
}

/** Errors that any operation may return. */
export const commonErrors: Readonly<Record<string, string>> = {
  400: "The request is not valid HTTP, or its `Host` header names more than one host.",
  408: "The request did not arrive in time.",
  431: "The headers of the request are larger than 16 KiB.",
  500: "A fault of the service. Its log has the details under the `X-Request-Id`."
}

export const describeResponse = (operationId: string, status: string): string => {
  const description = byOperation[operationId]?.[status] ?? operatorResponses[operationId]?.[status]
    ?? (operationId.startsWith("operator.") ? operatorErrors[status] : undefined) ?? errors[status]
  if (description === undefined) throw new Error(`${operationId} ${status} has no description`)
  return description
}
