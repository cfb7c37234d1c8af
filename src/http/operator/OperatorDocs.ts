/** Documents the operator interface in OpenAPI: names, parameters, examples and responses. */
import * as Limits from "../../domain/Limits.ts"
import { AttemptError, DeliveryState } from "../../domain/Webhook.ts"
import { actions } from "../../services/operator/Audit.ts"
import { completedAt, deliveryId, uuid } from "../contract/Examples.ts"
import { type Node, schemaRef } from "../contract/OpaqueSchemas.ts"
import { integer, operation, query } from "../contract/Operation.ts"
import { clocks, maxStuckMinutes, pages } from "./OperatorSchemas.ts"

const names = {
  overview: "getOverview",
  tasks: "searchTasks",
  task: "getAnyTask",
  content: "getTaskContent",
  cancel: "cancelAnyTask",
  errors: "listErrors",
  durations: "listDurations",
  stuck: "listStuckTasks",
  clocks: "listClocks",
  history: "getHistory",
  origins: "listOrigins",
  deliveries: "searchDeliveries",
  redeliver: "redeliverWebhooks",
  queue: "getQueue",
  changeAssistant: "changeQueuedAssistant",
  cluster: "getCluster",
  drain: "drainNode",
  takeIn: "takeInNode",
  revocations: "listRevocations",
  revoke: "revokeAsOperator",
  audit: "searchAudit",
  startBulk: "startBulkAction",
  listBulk: "listBulkActions",
  getBulk: "getBulkAction",
  stopBulk: "stopBulkAction",
  silences: "listSilences",
  silence: "setSilence",
  user: "getUser",
  setLimits: "setUserLimits",
  exportUser: "exportUser",
  eraseUser: "eraseUser"
}

const text = { type: "string" }
const moment = { type: "string", format: "date-time" }
const range = [
  query("from", "Begin of the range, a moment in ISO 8601; by default 24 hours before its end.", moment),
  query("to", "End of the range, at most 31 days after its begin; now by default.", moment)
]
const paging = [
  query("cursor", "`next` of the page before, with the same filter.", text),
  query("limit", "Page size.", integer(1, pages.maximum, pages.default))
]
const error = (description: string, schema: Node = text) => query("error", description, schema)

const parameters: Readonly<Record<string, ReadonlyArray<Node>>> = {
  tasks: [
    query(
      "q",
      "Only tasks with this text in their id, their user, their metadata or their error, whatever the case. An id is found outside of the "
        + "range too if its first eight digits are given; `01920000…abcd` is short for one.",
      { type: "string", minLength: 1, maxLength: Limits.searchLength }
    ),
    query("sub", "Only tasks of this user.", text),
    query("status", "Only tasks of this status.", schemaRef("TaskStatus")),
    query("assistant", "Only tasks of the assistant with this id.", { type: "integer" }),
    query("label", "Only tasks with this pair in their metadata, as `key=value`.", text),
    error("Only tasks that failed with this in the first 500 characters of their error, whatever the case."),
    query("fingerprint", "Only tasks whose error has this fingerprint, from `GET /internal/operator/errors`.", text),
    ...range,
    ...paging
  ],
  errors: range,
  durations: range,
  stuck: [
    query("minutes", "Minutes without progress; `STUCK_AFTER` by default.", integer(1, maxStuckMinutes, undefined)),
    query("limit", "Number of tasks.", integer(1, clocks.maximum, clocks.default))
  ],
  clocks: [query("limit", "Items of each list.", integer(1, clocks.maximum, clocks.default))],
  history: [
    ...range,
    query("step", "Seconds of a period.", { type: "integer", enum: [60, 300, 3600], default: 300 })
  ],
  origins: range,
  deliveries: [
    query("origin", "Only of this origin.", text),
    query("state", "Only of this state.", { type: "string", enum: DeliveryState.literals }),
    error("Only those whose last attempt failed like this.", { type: "string", enum: AttemptError.literals }),
    ...range,
    ...paging
  ],
  revocations: paging,
  audit: [
    query("sub", "Only about this user, also after the erasure of the user's data.", text),
    query("task", "Only about this task.", { type: "string", format: "uuid" }),
    query("operator", "Only by the operator with this name.", text),
    query(
      "action",
      `Only this action: ${actions.map((action) => `\`${action}\``).join(", ")}, or one of an extension.`,
      { type: "string", pattern: "^[a-z_]{1,64}$" }
    ),
    query("from", "Only from this moment, in ISO 8601; all that is kept by default.", moment),
    query("to", "Only before this moment.", moment),
    ...paging
  ]
}

const at = "2026-11-21T08:30:04.654321Z"
const origin = "https://client.example.com"
const end = { next: null, complete: true }
const task = {
  uuid,
  sub: "user-1",
  assistant_id: 1,
  assistant_name: "Rules",
  status: "failed",
  error: "The model did not answer.",
  created_at: at,
  completed_at: at,
  deadline_at: at,
  acceptance_deadline_at: null,
  callback_origin: origin,
  pending_tools: []
}
const delivery = {
  id: deliveryId,
  task_uuid: uuid,
  origin,
  status: "failed",
  state: "failed",
  created_at: at,
  next_attempt_at: null,
  attempts: [{ number: 1, started_at: at, duration_ms: 15_000, response_status: null, error: "timed_out", hint: null }]
}
const silence = { kind: "cause", key: "Model … is overloaded", until: at, by: "token-1" }
const runId = "019ac5d2-8001-7b10-a5f3-90b1c2d3e4f5"
const node = {
  instance: uuid,
  address: "10.0.0.1:34431",
  version: "0.1.0",
  is_self: true,
  started_at: at,
  seen_at: at,
  drained: false,
  shards: [0, 1, 2],
  tasks: 17,
  next_due: at,
  lateness_ms: 3
}

const queuedAssistant = {
  assistant_id: 7,
  name: "Analyst",
  runs: 4,
  running: 4,
  waiting: 12,
  oldest_waiting_since: at,
  paused: false
}

const bulk = {
  id: "019ac5d2-9b00-7c10-8000-0a0b0c0d0e11",
  action: "rerun",
  filter: { status: "failed", from: at, to: at },
  by: "ana",
  reason: "The deploy of 08:30 was wrong.",
  rate: 50,
  started_at: at,
  ended_at: null,
  state: "running",
  matched: 4000,
  done: 1200,
  skipped: 3,
  failed: 0,
  errors: []
}

const examples: Readonly<Record<string, { readonly request?: unknown; readonly response?: unknown }>> = {
  overview: {
    response: {
      at,
      live: { pending: 1, processing: 12, interrupted: 4 },
      next_deadline: at,
      overdue_ms: 0,
      last_hour: { created: 120, completed: 110, failed: 3, canceled: 1 },
      deliveries: { pending: 2, failed: 1 },
      queue: { running: 12, waiting: 0, oldest_waiting_since: null, core_busy_since: null },
      nodes: 3,
      node_starts: [at, at, at],
      unowned: 0,
      operators: [{ name: "ana", role: "full" }, { name: "bob", role: "read" }],
      largest_users: [{ sub: "user-1", bytes: 1_048_576, tasks: 120, counted_at: at }],
      alerts: [{ id: "webhooks_failing", message: `Webhooks failed in the last hour: 1 to ${origin}.` }]
    }
  },
  tasks: { response: { data: [task], ...end } },
  task: {
    response: {
      ...task,
      run_id: runId,
      revision: 2,
      shard: 19,
      owner: node.address,
      waiting_on: null,
      bytes: { request: 412, turn: null },
      ended_by: { by: "core", name: null, bulk_id: null, at },
      events: [{ uuid, revision: 2, type: "Failed", status: "failed", occurred_at: at, actor: null }],
      deliveries: [delivery]
    }
  },
  content: { response: { turn: null, pending_tool_calls: [] } },
  cancel: { request: { reason: "Stuck." }, response: { uuid, status: "canceled" } },
  errors: {
    response: {
      window: { failures: 3, complete: true },
      groups: [{
        fingerprint: task.error,
        error: task.error,
        count: 3,
        users: 2,
        assistants: 1,
        first_at: at,
        last_at: at,
        counts: Array.from({ length: 24 }, (_, part) => part === 23 ? 3 : 0),
        samples: [uuid]
      }]
    }
  },
  stuck: {
    response: {
      data: [{
        uuid,
        sub: "user-1",
        status: "processing",
        created_at: at,
        progress_at: at,
        idle_ms: 1_260_000,
        waiting_on: { party: "core", for: "result", position: null, until: at, silent_since: null, hand_overs: null }
      }],
      total: 1,
      before: at,
      core_unreachable: null,
      complete: true
    }
  },
  durations: {
    response: {
      data: [{
        assistant_id: 7,
        name: "Analyst",
        tasks: 412,
        waiting_ms: { p50: 90, p95: 1200 },
        running_ms: { p50: 8300, p95: 41_000 }
      }],
      complete: true
    }
  },
  clocks: {
    response: {
      tasks: [{ uuid, sub: "user-1", status: "processing", clock: "time_limit", due_at: at, late_ms: 0 }],
      stops: [{ run_id: runId, task_uuid: uuid, reason: "canceled", attempts: 1, due_at: at, late_ms: 0 }]
    }
  },
  history: { response: { step: 300, from: at, series: { created: [4, 7], failed: [0, 1] } } },
  origins: {
    response: {
      data: [{ origin, pending: 2, failed: 1, last_error: "timed_out", oldest_failed_at: at }],
      complete: true
    }
  },
  deliveries: { response: { data: [delivery], ...end } },
  redeliver: {
    request: { filter: { origin, error: "timed_out" }, limit: 100, dry_run: true },
    response: { matched: 12, owed: 0, needs_secret: 0, left: 12 }
  },
  queue: {
    response: {
      runs: 256,
      runs_per_assistant: null,
      core_busy_since: null,
      core_unreachable: null,
      running: 256,
      waiting: 12,
      oldest_waiting_since: at,
      assistants: [queuedAssistant]
    }
  },
  changeAssistant: { request: { runs: 4, paused: false }, response: queuedAssistant },
  cluster: { response: { members: [node], shards: 60, unowned: [] } },
  drain: { response: { instance: uuid, wanted: "drained" } },
  takeIn: { response: { instance: uuid, wanted: "taken_in" } },
  revocations: {
    response: {
      data: [{ jti: null, token_hash: null, sub: "user-1", issued_before: at, expires_at: null, revoked_at: at }],
      ...end
    }
  },
  revoke: { request: { sub: "user-1", issued_before: completedAt } },
  audit: {
    response: {
      data: [{
        id: "019ac5d2-9a00-7c10-8000-0a0b0c0d0e10",
        at,
        operator: "ana",
        via: "console",
        action: "cancel",
        target: uuid,
        sub: "user-1",
        reason: "Stuck.",
        outcome: "done",
        bulk_id: null
      }],
      ...end
    }
  },
  startBulk: {
    request: {
      action: "rerun",
      filter: { status: "failed", fingerprint: "HTTP … from model", from: at },
      reason: "The deploy of 08:30 was wrong.",
      dry_run: true
    },
    response: { matched: 4000, sample: [task] }
  },
  listBulk: { response: { data: [bulk] } },
  getBulk: { response: bulk },
  stopBulk: { response: { ...bulk, state: "stopped", ended_at: at } },
  silences: { response: { data: [silence] } },
  silence: { request: { kind: silence.kind, key: silence.key, hours: 24 }, response: silence },
  user: {
    response: {
      sub: "user-1",
      slots: { used: 3, maximum: 5 },
      limits: { max_active_tasks: null },
      running: 1,
      waiting: 1,
      interrupted: 1,
      failures: 2,
      stored_bytes: { bytes: 1_048_576, tasks: 120, complete: true },
      last_revocation: null,
      schedules: { active: 1, paused: 0, ended: 2 },
      usage: { tasks: 40, total_tokens: 81_000, cost: "1.25" }
    }
  },
  exportUser: {
    response:
      `{"type":"export","sub":"user-1","at":"${at}"}\n{"type":"task","uuid":"${uuid}","status":"completed"}\n{"type":"end","lines":1}\n`
  },
  setLimits: { request: { max_active_tasks: 200 }, response: { sub: "user-1", max_active_tasks: 200 } },
  eraseUser: { request: { confirm: "user-1" }, response: { id: bulk.id, matched: 120 } }
}

const unknownNode = { 404: "No node that reports has this instance." }

const unknownBulk = { 404: "There is no such action." }

type Responses = Parameters<typeof operation>[0]["responses"]

const responses: Readonly<Record<keyof typeof names, Responses>> = {
  overview: { 200: "The state of the service at most two seconds ago." },
  tasks: { 200: "One page of the tasks that match." },
  task: { 200: "The task with its history and webhooks." },
  content: {
    200: "The turn and the pending tool calls.",
    403: "The token may only read, or `OPERATOR_CONTENT` is off."
  },
  cancel: { 200: "The task was canceled by the operator.", 409: "The task has ended." },
  errors: { 200: "The failures of the range by their cause." },
  durations: { 200: "The times of each assistant." },
  stuck: { 200: "The tasks without progress, and the party that has to act." },
  clocks: { 200: "The next deadlines and stop requests." },
  history: { 200: "The counts of each period of the range." },
  origins: { 200: "The targets of webhooks with their failures." },
  deliveries: { 200: "One page of the webhooks that match." },
  redeliver: { 200: "How many webhooks match and are sent again." },
  queue: { 200: "The runs that the core has, and those that wait." },
  changeAssistant: { 200: "The row of the assistant after the change." },
  cluster: { 200: "The nodes that report, with their shards." },
  drain: { 202: "The node will give its shards to the others.", ...unknownNode },
  takeIn: { 202: "The node will own shards again.", ...unknownNode },
  revocations: { 200: "One page of the revocations." },
  revoke: {
    204: "The revocation of the operator is stored, and takes effect within 5 seconds on every node."
  },
  audit: { 200: "One page of the audit, newest first." },
  startBulk: {
    200: "With `dry_run`: what matches.",
    202: { description: "The action is stored, and begins.", example: { id: bulk.id, matched: 4000 } }
  },
  listBulk: { 200: "The last bulk actions." },
  getBulk: { 200: "How far the action is.", ...unknownBulk },
  stopBulk: {
    200: "The action is stopped where it is.",
    ...unknownBulk,
    409: "The action has ended, or is an erasure."
  },
  silences: { 200: "What is put aside now." },
  silence: { 200: "It is put aside, or no longer." },
  user: { 200: "What is kept of the user, in numbers." },
  setLimits: { 200: "The limit holds from the next create on." },
  exportUser: {
    200: "The records of the user, as they are read.",
    403: "The token may only read, or `OPERATOR_CONTENT` is off."
  },
  eraseUser: { 202: "The erasure has begun; the id is that of a bulk action." }
}

const ofUser = { sub: { description: "The user, as in the `sub` claim of a token.", example: "user-1" } }
const ofBulk = { id: { description: "The bulk action.", example: bulk.id } }

/** Parts of paths that mean something else in other groups. */
const paths: Readonly<Record<string, Readonly<Record<string, Node>>>> = {
  getBulk: ofBulk,
  stopBulk: ofBulk,
  user: ofUser,
  setLimits: ofUser,
  exportUser: ofUser,
  eraseUser: ofUser
}

/** Errors that mean the same for all of them. */
const errors = {
  403: "The token may only read, or a web page of another origin sent the request with a session.",
  503: "The database is unavailable, or the search took longer than 2 seconds."
}

/** The description of an operation of the group. */
export const documented = (id: keyof typeof names, summary: string, description: string) =>
  operation({
    name: names[id],
    summary,
    description,
    parameters: parameters[id] ?? [],
    ...(paths[id] === undefined ? {} : { path: paths[id] }),
    isBodyOptional: id === "cancel",
    ...examples[id],
    responses: { ...errors, ...responses[id] }
  })

export const securitySchemes = {
  operatorToken: {
    type: "http",
    scheme: "bearer",
    description: "One of the operator's `INTERNAL_TOKENS`, or of `OPERATOR_READ_TOKENS` for calls that change nothing."
  }
}
