/** The interface of operators: what the console's half for operators shows and does, for scripts too. */
import { Schema } from "effect"
import { HttpApi, HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import type { ErrorCodes } from "../contract/ErrorCodes.ts"
import * as Errors from "../contract/Errors.ts"
import { CancelBody, CanceledTaskView } from "../contract/TaskSchemas.ts"
import { RevokeBody } from "../contract/TokenSchemas.ts"
import { OperatorAuthorization } from "../OperatorRoutes.ts"
import * as Actions from "./ActionsApi.ts"
import { documented } from "./OperatorDocs.ts"
import * as Views from "./OperatorSchemas.ts"
import * as Queue from "./QueueSchemas.ts"

const uuid = { uuid: Schema.String }
const instance = { instance: Schema.String }
const { base, readErrors } = Actions

const move = (name: "drain" | "takeIn", path: "drain" | "take-in", summary: string, description: string) =>
  HttpApiEndpoint.post(name, `${base}/nodes/:instance/${path}`, {
    params: instance,
    success: Views.WantedView.pipe(HttpApiSchema.status(202)),
    error: [Errors.NotFound, Errors.ServiceUnavailable]
  }).annotateMerge(documented(name, summary, description))

/** The codes of errors that the limits of operators add to those of creates, with status and meaning. */
export const errorCodes: ErrorCodes = {
  too_many_stored_bytes: [
    422,
    "The user's tasks hold more bytes than the operator allows (`STORED_BYTES`): delete ended ones."
  ],
  no_fresh_tokens: [422, "Tasks can run again in bulk only with `TOKEN_URL`, which gives fresh tokens of their users."],
  bulk_not_running: [409, "The bulk action has ended already, or is an erasure, which cannot be stopped."]
}

export class OperatorGroup extends HttpApiGroup.make("operator").add(
  HttpApiEndpoint.get("overview", `${base}/overview`, {
    success: Views.OverviewView,
    error: Errors.ServiceUnavailable
  }).annotateMerge(
    documented(
      "overview",
      "Read the overview",
      "The state of the service and the alerts that hold now. At most 2 s old."
    )
  ),
  HttpApiEndpoint.get("tasks", `${base}/tasks`, { success: Views.OperatorTasksView, error: readErrors }).annotateMerge(
    documented(
      "tasks",
      "Search tasks",
      "Tasks of all users, newest first. Failed tasks of all users are ordered and selected by their end, others by their creation."
    )
  ),
  HttpApiEndpoint.get("task", `${base}/tasks/:uuid`, {
    params: uuid,
    success: Views.OperatorTaskDetailView,
    error: [Errors.NotFound, Errors.ServiceUnavailable]
  }).annotateMerge(
    documented("task", "Read a task of any user", "The row, its history and webhooks, without its content.")
  ),
  HttpApiEndpoint.get("content", `${base}/tasks/:uuid/content`, {
    params: uuid,
    success: Views.ContentView,
    error: [Errors.NotFound, Errors.ServiceUnavailable]
  }).annotateMerge(
    documented(
      "content",
      "Read what a task says",
      "Only with `OPERATOR_CONTENT=on` and an internal token. Each read is logged."
    )
  ),
  HttpApiEndpoint.post("cancel", `${base}/tasks/:uuid/cancel`, {
    params: uuid,
    payload: CancelBody,
    success: CanceledTaskView,
    error: [...Errors.jsonErrors, Errors.NotFound, Errors.Conflict]
  }).annotateMerge(
    documented(
      "cancel",
      "Cancel a task of any user",
      "Cancels a task in any status that is not final; the core stops its run. The body is optional."
    )
  ),
  HttpApiEndpoint.get("errors", `${base}/errors`, { success: Views.ErrorsView, error: readErrors }).annotateMerge(
    documented(
      "errors",
      "Group failures",
      "The newest 10,000 failures of the range by their cause: errors that differ by ids, numbers, times and long quotes are one group; codes of status and error, and short names in quotes, tell causes apart."
    )
  ),
  HttpApiEndpoint.get("stuck", `${base}/stuck`, { success: Views.StuckView, error: readErrors }).annotateMerge(
    documented(
      "stuck",
      "List stuck tasks",
      "Pending and processing tasks whose core has reported nothing for a while, and what they wait for."
    )
  ),
  HttpApiEndpoint.get("durations", `${base}/durations`, { success: Views.DurationsView, error: readErrors })
    .annotateMerge(
      documented(
        "durations",
        "Read times by assistant",
        "How long the tasks that were created in the range waited for the core and ran, by assistant."
      )
    ),
  HttpApiEndpoint.get("clocks", `${base}/clocks`, { success: Views.ClocksView, error: readErrors }).annotateMerge(
    documented("clocks", "List deadlines", "The next deadlines of live tasks and the pending stop requests.")
  ),
  HttpApiEndpoint.get("history", `${base}/history`, { success: Views.HistoryView, error: readErrors }).annotateMerge(
    documented("history", "Read the history", "Counts of all nodes over time: at most 1,500 periods, kept for 31 days.")
  ),
  HttpApiEndpoint.get("origins", `${base}/origins`, { success: Views.OriginsView, error: readErrors }).annotateMerge(
    documented("origins", "List webhook targets", "Origins with pending webhooks, or failed ones in the range.")
  ),
  HttpApiEndpoint.get("deliveries", `${base}/deliveries`, {
    success: Views.OperatorDeliveriesView,
    error: readErrors
  }).annotateMerge(
    documented("deliveries", "Search webhooks", "Webhooks of all users with their attempts, newest first.")
  ),
  HttpApiEndpoint.post("redeliver", `${base}/deliveries/redeliver`, {
    payload: Views.RedeliverManyBody,
    success: Views.RedeliveredView,
    error: Errors.jsonErrors
  }).annotateMerge(
    documented(
      "redeliver",
      "Send webhooks again",
      "Makes one more attempt of each given delivery, or of the newest failed ones that match a filter."
    )
  ),
  HttpApiEndpoint.get("queue", `${base}/queue`, {
    success: Queue.QueueView,
    error: Errors.ServiceUnavailable
  }).annotateMerge(
    documented(
      "queue",
      "Read the queue",
      "How many runs the core has and how many wait for room, by assistant. A run counts from its dispatch until its task is interrupted or ends."
    )
  ),
  HttpApiEndpoint.put("changeAssistant", `${base}/queue/assistants/:id`, {
    params: { id: Schema.String },
    payload: Queue.ChangeAssistantBody,
    success: Queue.QueuedAssistantView,
    error: Errors.jsonErrors
  }).annotateMerge(
    documented(
      "changeAssistant",
      "Limit or pause an assistant",
      "Holds on every node, and through restarts. A lower limit ends no run. While an assistant is paused its new runs wait, and resumed ones go on. "
        + "An assistant that is not known is created."
    )
  ),
  HttpApiEndpoint.get("cluster", `${base}/cluster`, {
    success: Views.OperatorClusterView,
    error: Errors.ServiceUnavailable
  }).annotateMerge(documented("cluster", "List nodes", "The nodes with their shards, tasks and lateness.")),
  move(
    "drain",
    "drain",
    "Drain a node",
    "Asks a node to give its shards to the others. It receives the request with its next report, within 2 s, whichever node was asked."
  ),
  move("takeIn", "take-in", "Take a node in", "Asks a drained node to own shards again."),
  HttpApiEndpoint.get("revocations", `${base}/revocations`, {
    success: Views.RevocationsView,
    error: readErrors
  }).annotateMerge(documented("revocations", "List revocations", "Revoked tokens, newest first.")),
  HttpApiEndpoint.post("revoke", `${base}/revocations`, {
    payload: RevokeBody,
    success: HttpApiSchema.NoContent,
    error: Errors.jsonErrors
  }).annotateMerge(documented("revoke", "Revoke tokens as an operator", "The same as `POST /internal/tokens/revoke`.")),
  Actions.audit,
  Actions.startBulk,
  Actions.listBulk,
  Actions.getBulk,
  Actions.stopBulk,
  Actions.silences,
  Actions.silence,
  Actions.user,
  Actions.setLimits,
  Actions.exportUser,
  Actions.eraseUser
).middleware(OperatorAuthorization).annotateMerge(
  OpenApi.annotations({
    description:
      "For operators, with an internal token, or with one of `OPERATOR_READ_TOKENS`, which can change nothing."
  })
) {}

export class OperatorApi extends HttpApi.make("async-task-service-operator").add(OperatorGroup) {}
