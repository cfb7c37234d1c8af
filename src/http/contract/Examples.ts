/** One example of every request and response, shown in the documentation and checked against the schemas by a test. */

export const uuid = "019ac5d2-7f3e-7c41-9b1a-2f60c8a7d913"
export const deliveryId = `${uuid}-2`
const createdAt = "2026-11-21T08:30:00.123456Z"
const completedAt = "2026-11-21T08:30:04.654321Z"

const uploaded = {
  type: "file",
  file: { id: "17", name: "report.pdf", mime_type: "application/pdf", provider_data: { path: "17/report.pdf" } }
}

const toolCall = { id: "call_1", name: "get_calendar", arguments: { day: "2026-11-23" } }

const turn = {
  output: [{ type: "text", text: "The report finds that sales rose by a tenth." }],
  messages: [{ role: "assistant", content: "The report finds that sales rose by a tenth." }],
  metadata: { model: "demo-1", finish_reason: "stop", usage: { input_tokens: 12, output_tokens: 11, total_tokens: 23 } }
}

const summary = { uuid, status: "completed", error: null, created_at: createdAt, completed_at: completedAt }

const delivery = {
  id: deliveryId,
  status: "completed",
  state: "delivered",
  created_at: completedAt,
  next_attempt_at: null,
  attempts: [
    { number: 1, started_at: completedAt, duration_ms: 84, response_status: 200, error: null }
  ]
}

interface Example {
  readonly request?: unknown
  /** Body of the success response. */
  readonly response?: unknown
}

/** Examples, keyed by `operationId`. */
export const examples: Readonly<Record<string, Example>> = {
  "files.upload": { response: uploaded },
  "files.storageBase": { response: { url: "https://storage.example.com/public" } },
  "tasks.create": {
    // It succeeds on a fresh installation, so that the first try completes.
    request: { assistant_id: 1, input: [{ type: "text", text: "What is 6 * 7?" }] },
    response: { uuid, status: "pending", max_execution_time: 86_400 }
  },
  "tasks.rerun": {
    request: { input: [{ type: "text", text: "What else does the report say?" }], callback_url: null },
    response: { uuid, status: "pending", max_execution_time: 3600 }
  },
  "tasks.list": {
    response: {
      data: [
        { ...summary, status: "interrupted", completed_at: null, pending_tool_calls: [toolCall] },
        summary
      ],
      meta: { current_page: 1, per_page: 25, last_page: 1, total: 2 }
    }
  },
  "tasks.get": { response: { ...summary, turn } },
  "tasks.events": {
    response: `id: 1\nevent: processing\ndata: ${
      JSON.stringify({ uuid, revision: 1, status: "processing", occurred_at: createdAt })
    }\n\n`
  },
  "tasks.deliveries": { response: { data: [delivery] } },
  "tasks.redeliver": {
    request: { callback_secret: "a long random secret" },
    response: { ...delivery, state: "pending", next_attempt_at: completedAt }
  },
  "tasks.submitToolResults": {
    request: { results: [{ tool_call_id: "call_1", output: { appointments: [] } }] },
    response: { uuid, status: "processing" }
  },
  "tasks.cancel": {
    request: { reason: "The user closed the window." },
    response: { uuid, status: "canceled" }
  },
  "tasks.cancelInterrupted": { response: { canceled: 1, uuids: [uuid] } },
  "core.report": {
    request: {
      task_id: uuid,
      run_id: "019ac5d2-8001-7b10-a5f3-90b1c2d3e4f5",
      event_id: "evt-1",
      type: "completed",
      turn
    },
    response: { status: "completed", applied: true }
  },
  "operations.metrics": {
    response: "# TYPE task_active gauge\ntask_active 3\n"
  },
  "tokens.revoke": { request: { sub: "user-1", issued_before: completedAt } }
}

/** The body of each error status. */
export const errorExamples: Readonly<Record<string, unknown>> = {
  400: { message: "The request is not valid HTTP." },
  401: { message: "The token is missing, invalid, expired or revoked." },
  403: { message: "The task belongs to another user." },
  404: { message: "There is no such task." },
  408: { message: "The request body did not arrive in time." },
  409: { message: "The task is completed, not interrupted." },
  413: { message: "The request body is larger than 16777216 bytes." },
  415: { message: "The request body must come without a Content-Encoding." },
  422: {
    message: "input.0.type: Expected one of text, file, voice",
    errors: { "input.0.type": ["Expected one of text, file, voice"] }
  },
  431: { message: "The headers are larger than 16384 bytes." },
  429: { message: "Too many active tasks. The maximum is 5 concurrent tasks." },
  500: { message: "Something went wrong on our side." },
  502: { message: "The assistant backend did not respond as expected." },
  503: { message: "The service cannot reach its database at the moment. Try again soon." }
}

/** A webhook's body: the task as `GET /api/tasks/{uuid}` returns it. */
export const webhookExample = { ...summary, turn }
