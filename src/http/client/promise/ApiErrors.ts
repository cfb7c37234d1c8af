/** What a call may be rejected with: one class for each status, all of them `ApiError`, and one for no answer at all. */

/** The root of all rejections of this client. */
export class TaskServiceError extends Error {
  override readonly name: string = "TaskServiceError"
}

/** The service answered with an error. */
export class ApiError extends TaskServiceError {
  override readonly name: string = "ApiError"
  readonly status: number
  readonly headers: Headers
  /** Names the request in the service's logs. */
  readonly requestId: string | null

  constructor(status: number, message: string, headers: Headers) {
    super(message)
    this.status = status
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

/** 409: the task is not interrupted. */
export class ConflictError extends ApiError {
  override readonly name = "ConflictError"
}

/** 422: `errors` maps a dotted field path, as in `input.0.type`, to what is wrong there. */
export class ValidationError extends ApiError {
  override readonly name = "ValidationError"
  readonly errors: Readonly<Record<string, ReadonlyArray<string>>>

  constructor(
    status: number,
    message: string,
    headers: Headers,
    errors: Readonly<Record<string, ReadonlyArray<string>>>
  ) {
    super(status, message, headers)
    this.errors = errors
  }
}

/** 429: the user has as many active tasks as allowed (SPEC "Limits"), or too many requests that wait. */
export class RateLimitError extends ApiError {
  override readonly name = "RateLimitError"
}

/** 5xx: the service or the assistant backend behind it. */
export class ServerError extends ApiError {
  override readonly name = "ServerError"
}

/** No answer came: the service could not be reached, or the connection broke. `cause` has the reason. */
export class ConnectionError extends TaskServiceError {
  override readonly name: string = "ConnectionError"
}

/** No answer came in time. */
export class TimeoutError extends ConnectionError {
  override readonly name = "TimeoutError"
}

/** The caller's own `AbortSignal` ended the call; `cause` is its reason. */
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

/** A proxy may answer in its own words. */
const parse = (body: string): { readonly message?: unknown; readonly errors?: unknown } | null => {
  try {
    return JSON.parse(body)
  } catch {
    return null
  }
}

/** The error of an answer, whatever its body is. */
export const fromAnswer = (status: number, body: string, headers: Headers): ApiError => {
  const parsed = parse(body)
  const message = typeof parsed?.message === "string" ? parsed.message : `The service answered ${status}`
  if (status === 422) {
    const errors = parsed?.errors
    return new ValidationError(
      status,
      message,
      headers,
      typeof errors === "object" && errors !== null ? errors as ValidationError["errors"] : {}
    )
  }
  const Class = byStatus[status] ?? (status >= 500 ? ServerError : ApiError)
  return new Class(status, message, headers)
}
