/** The `code` of an error: a stable word by which a program tells errors apart. Messages may be reworded, codes are not. */

export type ErrorCodes = Readonly<Record<string, readonly [status: number, meaning: string]>>

/** The codes of the core. Extensions have more: `ExtensionRoutes.errorCodes`. */
export const errorCodes = {
  bad_request: [400, "The request is not valid HTTP, or its `Host` header names more than one host."],
  unauthorized: [401, "The token is missing, invalid, expired or revoked."],
  forbidden: [403, "The token does not allow this."],
  task_belongs_to_another: [403, "The task belongs to another user."],
  not_found: [404, "There is nothing at this address."],
  task_not_found: [404, "There is no such task; a malformed uuid is none."],
  delivery_not_found: [404, "The task has no such delivery."],
  files_not_kept: [404, "The service keeps no files: it has no assistant backend and no directory for them."],
  method_not_allowed: [405, "The address exists, but not with this method. `Allow` names the methods."],
  request_timeout: [408, "Head, JSON body or the next bytes of an upload did not arrive in time."],
  conflict: [409, "The request does not fit the current state."],
  task_not_interrupted: [409, "Tool results and cancels need an interrupted task."],
  task_not_ended: [409, "Only a task that has ended can be deleted."],
  task_has_ended: [409, "The task has ended already."],
  request_not_kept: [409, "The task cannot run again, because its request was too large to keep."],
  delivery_needs_secret: [409, "The webhook was signed: send its `callback_secret` again."],
  delivery_exhausted: [409, "The webhook has had the maximum number of attempts."],
  run_superseded: [409, "The run is not the task's current one, or the task has ended: the core stops."],
  precondition_failed: [412, "The object has another version than `If-Match` names."],
  payload_too_large: [413, "The body is larger than this operation takes."],
  unsupported_media_type: [415, "The body has a `Content-Encoding`: send it plain."],
  expectation_failed: [417, "Nothing but `100-continue` can be expected."],
  validation_failed: [422, "The request is not valid: `errors` names every invalid field."],
  file_refused: [422, "The file is too large or of a format that is not accepted."],
  idempotency_key_reused: [422, "The `Idempotency-Key` was used for another request within the last 24 hours."],
  tool_results_mismatch: [422, "The tool results do not answer each pending call exactly once."],
  upgrade_required: [426, "This address needs POST, or an upgrade to a WebSocket."],
  too_many_requests: [429, "The user makes too many of these requests."],
  too_many_active_tasks: [
    429,
    "The user has the maximum number of active tasks: answer or cancel those of `GET /api/tasks?status=interrupted`."
  ],
  too_many_waiting: [429, "The user has the maximum number of long polls and event streams on this node."],
  too_many_redeliveries: [429, "The user requests redeliveries too often."],
  too_many_uploads: [429, "The user has the maximum number of uploads at a time."],
  headers_too_large: [431, "The headers are larger than 16 KiB."],
  internal_error: [500, "A fault of the service. Its log has the details under the `X-Request-Id`."],
  bad_gateway: [502, "The assistant backend did not respond as expected."],
  service_unavailable: [503, "The service cannot answer at the moment. Try again soon."],
  store_unavailable: [503, "The database cannot be reached at the moment. Try again soon."],
  tokens_unavailable: [503, "Keys or revocations of tokens cannot be checked at the moment. Try again soon."],
  too_busy: [503, "The node has too many large requests or connections. Try again soon."],
  search_too_long: [503, "The search took too long. It would again: narrow the filter or the range."],
  not_ready: [503, "The node is not ready; `checks` names why."]
} as const satisfies ErrorCodes

export type ErrorCode = keyof typeof errorCodes

const byStatus: Readonly<Record<number, ErrorCode>> = {
  400: "bad_request",
  401: "unauthorized",
  403: "forbidden",
  404: "not_found",
  405: "method_not_allowed",
  408: "request_timeout",
  409: "conflict",
  412: "precondition_failed",
  413: "payload_too_large",
  415: "unsupported_media_type",
  417: "expectation_failed",
  422: "validation_failed",
  426: "upgrade_required",
  429: "too_many_requests",
  431: "headers_too_large",
  502: "bad_gateway",
  503: "service_unavailable"
}

/** The code of an error that says no more than its status. */
export const codeOfStatus = (status: number): ErrorCode =>
  byStatus[status] ?? (status < 500 ? "bad_request" : "internal_error")

/** The code of an error by the name that the services have for it: `TooManyActiveTasks` is `too_many_active_tasks`. */
export const codeOfTag = (tag: string): string => tag.replaceAll(/(?<!^)[A-Z]/g, "_$&").toLowerCase()
