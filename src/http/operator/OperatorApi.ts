/** The interface of operators: what the console's half for operators shows and does, for scripts too. */
import { Schema } from "effect"
import { HttpApi, HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { type ErrorCodes, errorCodes as coreCodes } from "../contract/ErrorCodes.ts"
import * as Errors from "../contract/Errors.ts"
import { completedAt, uuid as exampleUuid } from "../contract/Examples.ts"
import { operation, refusal } from "../contract/Operation.ts"
import { CancelBody, CanceledTaskView } from "../contract/TaskSchemas.ts"
import { RevokeBody } from "../contract/TokenSchemas.ts"
import { OperatorAuthorization } from "../OperatorRoutes.ts"
import * as Parameters from "../Parameters.ts"
import * as Actions from "./ActionSchemas.ts"
import { parameters } from "./OperatorQuery.ts"
import * as Views from "./OperatorSchemas.ts"
import * as Queue from "./QueueSchemas.ts"

const base = "/internal/operator"

/** The codes of errors that the limits of operators add to those of creates, with status and meaning. */
export const errorCodes: ErrorCodes = {
  too_many_stored_bytes: [
    422,
    "The user's tasks hold more bytes than the operator allows (`STORED_BYTES`): delete ended ones."
  ],
  no_fresh_tokens: [422, "Tasks can run again in bulk only with `TOKEN_URL`, which gives fresh tokens of their users."],
  bulk_not_running: [409, "The bulk action has ended already, or is an erasure, which cannot be stopped."]
}

export const securitySchemes = {
  operatorToken: {
    type: "http",
    scheme: "bearer",
    description: "One of the operator's `INTERNAL_TOKENS`, or of `OPERATOR_READ_TOKENS` for calls that change nothing."
  }
}

type Docs = Parameters<typeof operation>[0]

/** Errors that mean the same for all of them. */
const errors = {
  403: "The token may only read, or a web page of another origin sent the request with a session.",
  503: "The database is unavailable, or the search took longer than 2 seconds."
}
const onlyContent = { 403: "The token may only read, or `OPERATOR_CONTENT` is off." }
const unknownNode = { 404: "No node that reports has this instance." }
const unknownBulk = { 404: "There is no such action." }

const documented = ({ responses, ...docs }: Docs) => operation({ ...docs, responses: { ...errors, ...responses } })

const bulkId = "019ac5d2-9b00-7c10-8000-0a0b0c0d0e11"
const onBulk = (docs: Docs) =>
  documented({ path: { id: { description: "The bulk action.", example: bulkId } }, ...docs })
const onUser = (docs: Docs) =>
  documented({
    path: { sub: { description: "The user, as in the `sub` claim of a token.", example: "user-1" } },
    ...docs,
    responses: { 404: "There can be no user with this name.", ...docs.responses }
  })

const id = { id: Schema.String }
const uuid = { uuid: Schema.String }
const sub = { sub: Schema.String }

const search = <const Name extends keyof typeof parameters, Success extends Schema.Codec<unknown, unknown>>(
  name: Name,
  success: Success,
  docs: Docs
) =>
  HttpApiEndpoint.get(name, `${base}/${name}`, { success, error: [Errors.ValidationFailed, Errors.ServiceUnavailable] })
    .annotateMerge(documented({ ...docs, parameters: Parameters.documented(parameters[name]) }))

const read = <const Name extends string, Success extends Schema.Codec<unknown, unknown>>(
  name: Name,
  success: Success,
  docs: Docs,
  path: string = name
) =>
  HttpApiEndpoint.get(name, `${base}/${path}`, { success, error: Errors.ServiceUnavailable }).annotateMerge(
    documented(docs)
  )

const readOne = { error: [Errors.NotFound, Errors.ServiceUnavailable] } as const

const move = (name: "drain" | "takeIn", path: "drain" | "take-in", docs: Docs) =>
  HttpApiEndpoint.post(name, `${base}/nodes/:instance/${path}`, {
    params: { instance: Schema.String },
    success: Views.WantedView.pipe(HttpApiSchema.status(202)),
    ...readOne
  }).annotateMerge(documented(docs))

export class OperatorGroup extends HttpApiGroup.make("operator").add(
  read("overview", Views.OverviewView, {
    name: "getOverview",
    summary: "Read the overview",
    description: "The state of the service and the alerts that hold now. At most 2 s old.",
    responses: { 200: "The state of the service at most two seconds ago." }
  }),
  search("tasks", Views.OperatorTasksView, {
    name: "searchTasks",
    summary: "Search tasks",
    description:
      "Tasks of all users, newest first. Failed tasks of all users are ordered and selected by their end, others by their creation.",
    responses: { 200: "One page of the tasks that match." }
  }),
  HttpApiEndpoint.get("task", `${base}/tasks/:uuid`, {
    params: uuid,
    success: Views.OperatorTaskDetailView,
    ...readOne
  }).annotateMerge(documented({
    name: "getAnyTask",
    summary: "Read a task of any user",
    description: "The row, its history and webhooks, without its content.",
    responses: { 200: "The task with its history and webhooks." }
  })),
  HttpApiEndpoint.get("content", `${base}/tasks/:uuid/content`, {
    params: uuid,
    success: Views.ContentView,
    ...readOne
  }).annotateMerge(documented({
    name: "getTaskContent",
    summary: "Read what a task says",
    description: "Only with `OPERATOR_CONTENT=on` and an internal token. Each read is logged.",
    responses: { 200: "The turn and the pending tool calls.", ...onlyContent }
  })),
  HttpApiEndpoint.post("cancel", `${base}/tasks/:uuid/cancel`, {
    params: uuid,
    payload: CancelBody,
    success: CanceledTaskView,
    error: [...Errors.jsonErrors, Errors.NotFound, Errors.Conflict]
  }).annotateMerge(documented({
    name: "cancelAnyTask",
    summary: "Cancel a task of any user",
    description: "Cancels a task in any status that is not final; the core stops its run. The body is optional.",
    isBodyOptional: true,
    request: { reason: "Stuck." },
    responses: { 200: "The task was canceled by the operator.", 409: refusal(coreCodes, "task_has_ended") }
  })),
  search("errors", Views.ErrorsView, {
    name: "listErrors",
    summary: "Group failures",
    description:
      "The newest 10,000 failures of the range by their cause: errors that differ by ids, numbers, times and long quotes are one group; codes of status and error, and short names in quotes, tell causes apart.",
    responses: { 200: "The failures of the range by their cause." }
  }),
  search("stuck", Views.StuckView, {
    name: "listStuckTasks",
    summary: "List stuck tasks",
    description: "Pending and processing tasks whose core has reported nothing for a while, and what they wait for.",
    responses: { 200: "The tasks without progress, and the party that has to act." }
  }),
  search("durations", Views.DurationsView, {
    name: "listDurations",
    summary: "Read times by assistant",
    description:
      "The times for which the tasks that were created in the range waited for the core and ran, by assistant.",
    responses: { 200: "The times of each assistant." }
  }),
  search("clocks", Views.ClocksView, {
    name: "listClocks",
    summary: "List deadlines",
    description: "The next deadlines of live tasks and the pending stop requests.",
    responses: { 200: "The next deadlines and stop requests." }
  }),
  search("history", Views.HistoryView, {
    name: "getHistory",
    summary: "Read the history",
    description: "Counts of all nodes over time: at most 1,500 periods, kept for 31 days.",
    response: { step: 300, from: completedAt, series: { created: [4, 7], failed: [0, 1] } },
    responses: { 200: "The counts of each period of the range." }
  }),
  search("origins", Views.OriginsView, {
    name: "listOrigins",
    summary: "List webhook targets",
    description: "Origins with pending webhooks, or failed ones in the range.",
    responses: { 200: "The targets of webhooks with their failures." }
  }),
  search("deliveries", Views.OperatorDeliveriesView, {
    name: "searchDeliveries",
    summary: "Search webhooks",
    description: "Webhooks of all users with their attempts, newest first.",
    responses: { 200: "One page of the webhooks that match." }
  }),
  HttpApiEndpoint.post("redeliver", `${base}/deliveries/redeliver`, {
    payload: Views.RedeliverManyBody,
    success: Views.RedeliveredView,
    error: Errors.jsonErrors
  }).annotateMerge(documented({
    name: "redeliverWebhooks",
    summary: "Send webhooks again",
    description: "Makes one more attempt of each given delivery, or of the newest failed ones that match a filter.",
    request: { filter: { origin: "https://client.example.com", error: "timed_out" }, limit: 100, dry_run: true },
    responses: { 200: "The number of webhooks that match and are sent again." }
  })),
  read("queue", Queue.QueueView, {
    name: "getQueue",
    summary: "Read the queue",
    description:
      "The runs that the core has and those that wait for room, by assistant. A run counts from its dispatch until its task is interrupted or ends.",
    responses: { 200: "The runs that the core has, and those that wait." }
  }),
  HttpApiEndpoint.put("changeAssistant", `${base}/queue/assistants/:id`, {
    params: id,
    payload: Queue.ChangeAssistantBody,
    success: Queue.QueuedAssistantView,
    error: Errors.jsonErrors
  }).annotateMerge(documented({
    name: "changeQueuedAssistant",
    summary: "Limit or pause an assistant",
    description:
      "Holds on every node, and through restarts. A lower limit ends no run. While an assistant is paused its new runs wait, and resumed ones go on. "
      + "An assistant that is not known is created.",
    request: { runs: 4, paused: false },
    responses: { 200: "The row of the assistant after the change." }
  })),
  read("cluster", Views.OperatorClusterView, {
    name: "getCluster",
    summary: "List nodes",
    description: "The nodes with their shards, tasks and lateness.",
    responses: { 200: "The nodes that report, with their shards." }
  }),
  move("drain", "drain", {
    name: "drainNode",
    summary: "Drain a node",
    description:
      "Asks a node to give its shards to the others. It receives the request with its next report, within 2 s, whichever node was asked.",
    responses: { 202: "The node will give its shards to the others.", ...unknownNode }
  }),
  move("takeIn", "take-in", {
    name: "takeInNode",
    summary: "Take a node in",
    description: "Asks a drained node to own shards again.",
    responses: { 202: "The node will own shards again.", ...unknownNode }
  }),
  search("revocations", Views.RevocationsView, {
    name: "listRevocations",
    summary: "List revocations",
    description: "Revoked tokens, newest first.",
    responses: { 200: "One page of the revocations." }
  }),
  HttpApiEndpoint.post("revoke", `${base}/revocations`, {
    payload: RevokeBody,
    success: HttpApiSchema.NoContent,
    error: Errors.jsonErrors
  }).annotateMerge(documented({
    name: "revokeAsOperator",
    summary: "Revoke tokens as an operator",
    description: "The same as `POST /internal/tokens/revoke`.",
    request: { sub: "user-1", issued_before: completedAt },
    responses: {
      204: "The revocation of the operator is stored, and takes effect within 5 seconds on every node."
    }
  })),
  search("audit", Actions.AuditView, {
    name: "searchAudit",
    summary: "Search the audit",
    description:
      "Changes by operators and their reads of content, and cancels and revocations by calls of other services, newest first. Kept for `AUDIT_RETENTION`.",
    responses: { 200: "One page of the audit, newest first." }
  }),
  HttpApiEndpoint.post("startBulk", `${base}/bulk`, {
    payload: Actions.DocumentedBulkBody,
    success: [Actions.DryRunView, Actions.StartedBulkView.pipe(HttpApiSchema.status(202))],
    error: Errors.jsonErrors
  }).annotateMerge(documented({
    name: "startBulkAction",
    summary: "Begin a bulk action",
    description:
      "Cancels, runs again, deletes or redelivers all that match, at a rate. The action is stored: it survives restarts, and one node at a time "
      + "carries it out. `rerun` makes one new task for each, with a fresh token of its user; it takes one slot of a user at a time, and never the last free one.",
    request: {
      action: "rerun",
      filter: { status: "failed", fingerprint: "HTTP … from model", from: completedAt },
      reason: "The deploy of 08:30 was wrong.",
      dry_run: true
    },
    responses: { 200: "With `dry_run`: what matches.", 202: "The action is stored, and begins." }
  })),
  read("listBulk", Actions.BulkListView, {
    name: "listBulkActions",
    summary: "List bulk actions",
    description: "The last 100, newest first.",
    responses: { 200: "The last bulk actions." }
  }, "bulk"),
  HttpApiEndpoint.get("getBulk", `${base}/bulk/:id`, { params: id, success: Actions.BulkView, ...readOne })
    .annotateMerge(
      onBulk({
        name: "getBulkAction",
        summary: "Read a bulk action",
        description: "The action with its progress.",
        responses: { 200: "The action with its progress.", ...unknownBulk }
      })
    ),
  HttpApiEndpoint.post("stopBulk", `${base}/bulk/:id/stop`, {
    params: id,
    success: Actions.BulkView,
    error: [Errors.NotFound, Errors.Conflict, Errors.ServiceUnavailable]
  }).annotateMerge(onBulk({
    name: "stopBulkAction",
    summary: "Stop a bulk action",
    description: "Changes that were made stay. An erasure cannot be stopped.",
    responses: {
      200: "The action is stopped where it is.",
      409: refusal(errorCodes, "bulk_not_running", "The action has ended, or is an erasure."),
      ...unknownBulk
    }
  })),
  read("silences", Actions.SilencesView, {
    name: "listSilences",
    summary: "List silences",
    description: "Causes of failures and ended alerts that are put aside.",
    responses: { 200: "The causes and alerts that are put aside now." }
  }),
  HttpApiEndpoint.put("silence", `${base}/silences`, {
    payload: Actions.SilenceBody,
    success: Actions.SilenceView,
    error: Errors.jsonErrors
  }).annotateMerge(documented({
    name: "setSilence",
    summary: "Put a cause or an alert aside",
    description:
      "The console of every operator folds it until then. Nothing else changes: it still counts, and new alerts appear.",
    request: { kind: "cause", key: "Model … is overloaded", hours: 24 },
    responses: { 200: "It is put aside, or no longer." }
  })),
  HttpApiEndpoint.get("user", `${base}/users/:sub`, { params: sub, success: Actions.UserView, ...readOne })
    .annotateMerge(
      onUser({
        name: "getUser",
        summary: "Read a user",
        description: "One user as a whole, without what the tasks say.",
        responses: { 200: "The numbers of the user." }
      })
    ),
  HttpApiEndpoint.put("setLimits", `${base}/users/:sub/limits`, {
    params: sub,
    payload: Actions.LimitsBody,
    success: Actions.LimitsView,
    error: [...Errors.jsonErrors, Errors.NotFound]
  }).annotateMerge(onUser({
    name: "setUserLimits",
    summary: "Set a user's limits",
    description: "For a user that is a service, and may have more active tasks than others.",
    request: { max_active_tasks: 200 },
    responses: { 200: "The limit holds from the next create on." }
  })),
  HttpApiEndpoint.get("exportUser", `${base}/users/:sub/export`, {
    params: sub,
    success: Schema.String.pipe(HttpApiSchema.asText({ contentType: "application/x-ndjson" })),
    ...readOne
  }).annotateMerge(onUser({
    name: "exportUser",
    summary: "Export a user",
    description:
      "All that is kept of a user, one JSON object a line: `type` is `export` in the first line, then `task`, and the types of other records. "
      + "`end` is the last line; without it the export is not whole. Only with `OPERATOR_CONTENT=on` and an internal token.",
    response:
      `{"type":"export","sub":"user-1","at":"${completedAt}"}\n{"type":"task","uuid":"${exampleUuid}","status":"completed"}\n{"type":"end","lines":1}\n`,
    responses: { 200: "The records of the user, as they are read.", ...onlyContent }
  })),
  HttpApiEndpoint.post("eraseUser", `${base}/users/:sub/erase`, {
    params: sub,
    payload: Actions.EraseBody,
    success: Actions.StartedBulkView.pipe(HttpApiSchema.status(202)),
    error: [...Errors.jsonErrors, Errors.NotFound]
  }).annotateMerge(onUser({
    name: "eraseUser",
    summary: "Erase a user",
    description:
      "Erases all that is kept of a user, as a bulk action: live tasks are canceled, and tokens issued until now are revoked. New tasks that are "
      + "created before it is done are erased too.",
    request: { confirm: "user-1" },
    responses: { 202: "The erasure has begun; the id is that of a bulk action." }
  }))
).middleware(OperatorAuthorization).annotateMerge(
  OpenApi.annotations({
    description:
      "For operators, with an internal token, or with one of `OPERATOR_READ_TOKENS`, which can change nothing."
  })
) {}

export class OperatorApi extends HttpApi.make("async-task-service-operator").add(OperatorGroup) {}
