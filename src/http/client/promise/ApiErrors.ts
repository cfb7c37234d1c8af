/** Errors of the Promise client: a subclass of `ApiError` for each status, and `ConnectionError` when there was no response. */

import type { ErrorCode as KnownErrorCode } from "../../contract/ErrorCodes.ts"

/** The base class of all errors of this client. */
export class TaskServiceError extends Error {
  override readonly name: string = "TaskServiceError"
}

/** The codes of errors that this version of the client knows; a service may send others. */
export type ErrorCode = KnownErrorCode | (string & {})

/** The service responded with an error status. */
export class ApiError extends TaskServiceError {
  override readonly name: string = "ApiError"
  readonly status: number
  /** A stable word for the problem, as in `too_many_active_tasks`; null when the response has none: a proxy may have sent it. */
  readonly code: ErrorCode | null
  readonly headers: Headers
  /** Identifies the request in the service's logs. */
  readonly requestId: string | null

  constructor(status: number, message: string, headers: Headers, code: string | null = null) {
    super(message)
    this.status = status
    this.code = code
    this.headers = headers
    this.requestId = headers.get("x-request-id")
  }
}

/** 401: the token is missing, invalid, expired or revoked. */
export class AuthenticationError extends ApiError {
  override readonly name = "AuthenticationError"
}

/** 403: the task belongs to another user. */
export class PermissionDeniedError extends ApiError {
  override readonly name = "PermissionDeniedError"
}

/** 404: there is no such task. */
export class NotFoundError extends ApiError {
  override readonly name = "NotFoundError"
}

/** 409: the task is not interrupted, or, for `delete`, has not ended. */
export class ConflictError extends ApiError {
  override readonly name = "ConflictError"
}

/** 422: `errors` maps a dotted field path, as in `input.0.type`, to its messages. */
export class ValidationError extends ApiError {
  override readonly name = "ValidationError"
  readonly errors: Readonly<Record<string, ReadonlyArray<string>>>

  constructor(
    status: number,
    message: string,
    headers: Headers,
    errors: Readonly<Record<string, ReadonlyArray<string>>>,
    code: string | null = null
  ) {
    super(status, message, headers, code)
    this.errors = errors
  }
}

/** Seconds of a `Retry-After` header, which may be an HTTP date; null without one. */
export const retryAfterOf = (headers: Headers): number | null => {
  const given = headers.get("retry-after") ?? ""
  const seconds = /^\d+$/.test(given) ? Number(given) : (Date.parse(given) - Date.now()) / 1000
  return Number.isNaN(seconds) ? null : Math.max(0, seconds)
}

/** 429: the user has the maximum number of active tasks, or too many long polls. */
export class RateLimitError extends ApiError {
  override readonly name = "RateLimitError"
  /** Seconds after which another attempt may succeed; null when the service said none. */
  readonly retryAfter: number | null

  constructor(status: number, message: string, headers: Headers, code: string | null = null) {
    super(status, message, headers, code)
    this.retryAfter = retryAfterOf(headers)
  }
}

/** 5xx: the service or its assistant backend failed. */
export class ServerError extends ApiError {
  override readonly name = "ServerError"
}

/** No response: the service is unreachable or the connection broke. `cause` has the reason. */
export class ConnectionError extends TaskServiceError {
  override readonly name: string = "ConnectionError"
}

/** No complete response within the timeout. */
export class TimeoutError extends ConnectionError {
  override readonly name = "TimeoutError"
}

/** The caller's `AbortSignal` aborted the call; `cause` is its reason. */
export class AbortError extends TaskServiceError {
  override readonly name = "AbortError"
}

const byStatus: Readonly<Record<number, typeof ApiError>> = {
  401: AuthenticationError,
  403: PermissionDeniedError,
  404: NotFoundError,
  409: ConflictError,
  429: RateLimitError
}

/** Returns null when the body is not JSON: a proxy may have sent it. */
const parse = (
  body: string
):
  | { readonly message?: unknown; readonly code?: unknown; readonly errors?: ValidationError["errors"] | null }
  | null =>
{
  try {
    return JSON.parse(body)
  } catch {
    return null
  }
}

/** The error of a response, whatever its body is. */
export const fromResponse = (status: number, body: string, headers: Headers): ApiError => {
  const parsed = parse(body)
  const message = typeof parsed?.message === "string" ? parsed.message : `The service answered ${status}`
  const code = typeof parsed?.code === "string" ? parsed.code : null
  if (status === 422) {
    const errors = parsed?.errors
    return new ValidationError(
      status,
      message,
      headers,
      typeof errors === "object" && errors !== null ? errors : {},
      code
    )
  }
  const Class = byStatus[status] ?? (status >= 500 ? ServerError : ApiError)
  return new Class(status, message, headers, code)
}
