/** Bulk actions, single users and the audit: endpoints of the interface of operators. */
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiSchema } from "effect/http-api"
import * as Errors from "../contract/Errors.ts"
import * as Views from "./ActionSchemas.ts"
import { documented } from "./OperatorDocs.ts"

export const readErrors = [Errors.ValidationFailed, Errors.ServiceUnavailable] as const
export const base = "/internal/operator"
const id = { id: Schema.String }
const sub = { sub: Schema.String }

export const audit = HttpApiEndpoint.get("audit", `${base}/audit`, { success: Views.AuditView, error: readErrors })
  .annotateMerge(
    documented(
      "audit",
      "Search the audit",
      "Changes by operators and their reads of content, and cancels and revocations by calls of other services, newest first. Kept for `AUDIT_RETENTION`."
    )
  )

export const startBulk = HttpApiEndpoint.post("startBulk", `${base}/bulk`, {
  payload: Views.DocumentedBulkBody,
  success: [Views.DryRunView, Views.StartedBulkView.pipe(HttpApiSchema.status(202))],
  error: Errors.jsonErrors
}).annotateMerge(
  documented(
    "startBulk",
    "Begin a bulk action",
    "Cancels, runs again, deletes or redelivers all that match, at a rate. The action is stored: it survives restarts, and one node at a time "
      + "carries it out. `rerun` makes one new task for each, with a fresh token of its user; it takes one slot of a user at a time, and never the last free one."
  )
)

export const listBulk = HttpApiEndpoint.get("listBulk", `${base}/bulk`, {
  success: Views.BulkListView,
  error: Errors.ServiceUnavailable
}).annotateMerge(documented("listBulk", "List bulk actions", "The last 100, newest first."))

export const getBulk = HttpApiEndpoint.get("getBulk", `${base}/bulk/:id`, {
  params: id,
  success: Views.BulkView,
  error: [Errors.NotFound, Errors.ServiceUnavailable]
}).annotateMerge(documented("getBulk", "Read a bulk action", "How far it is."))

export const stopBulk = HttpApiEndpoint.post("stopBulk", `${base}/bulk/:id/stop`, {
  params: id,
  success: Views.BulkView,
  error: [Errors.NotFound, Errors.Conflict, Errors.ServiceUnavailable]
}).annotateMerge(
  documented("stopBulk", "Stop a bulk action", "What is done stays done. An erasure cannot be stopped.")
)

export const silences = HttpApiEndpoint.get("silences", `${base}/silences`, {
  success: Views.SilencesView,
  error: Errors.ServiceUnavailable
}).annotateMerge(documented("silences", "List silences", "Causes of failures and ended alerts that are put aside."))

export const silence = HttpApiEndpoint.put("silence", `${base}/silences`, {
  payload: Views.SilenceBody,
  success: Views.SilenceView,
  error: Errors.jsonErrors
}).annotateMerge(
  documented(
    "silence",
    "Put a cause or an alert aside",
    "The console of every operator folds it until then. Nothing else changes: it still counts, and new alerts appear."
  )
)

export const user = HttpApiEndpoint.get("user", `${base}/users/:sub`, {
  params: sub,
  success: Views.UserView,
  error: [Errors.NotFound, Errors.ServiceUnavailable]
}).annotateMerge(documented("user", "Read a user", "One user as a whole, without what the tasks say."))

export const setLimits = HttpApiEndpoint.put("setLimits", `${base}/users/:sub/limits`, {
  params: sub,
  payload: Views.LimitsBody,
  success: Views.LimitsView,
  error: [...Errors.jsonErrors, Errors.NotFound]
}).annotateMerge(
  documented(
    "setLimits",
    "Set a user's limits",
    "For a user that is a service, and may have more active tasks than others."
  )
)

export const exportUser = HttpApiEndpoint.get("exportUser", `${base}/users/:sub/export`, {
  params: sub,
  success: Schema.String.pipe(HttpApiSchema.asText({ contentType: "application/x-ndjson" })),
  error: [Errors.NotFound, Errors.ServiceUnavailable]
}).annotateMerge(
  documented(
    "exportUser",
    "Export a user",
    "All that is kept of a user, one JSON object a line: `type` is `export` in the first line, then `task`, and the types of other records. "
      + "`end` is the last line; without it the export is not whole. Only with `OPERATOR_CONTENT=on` and an internal token."
  )
)

export const eraseUser = HttpApiEndpoint.post("eraseUser", `${base}/users/:sub/erase`, {
  params: sub,
  payload: Views.EraseBody,
  success: Views.StartedBulkView.pipe(HttpApiSchema.status(202)),
  error: [...Errors.jsonErrors, Errors.NotFound]
}).annotateMerge(
  documented(
    "eraseUser",
    "Erase a user",
    "Erases all that is kept of a user, as a bulk action: live tasks are canceled, and tokens issued until now are revoked. New tasks that are "
      + "created before it is done are erased too."
  )
)
