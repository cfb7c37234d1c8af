/** Commands for operators: overview, errors, clocks, revocations, and the groups of commands. */
import { parameters } from "../../../http/operator/OperatorQuery.ts"
import * as Views from "../../../http/operator/OperatorSchemas.ts"
import { listing, reading } from "../../cli/InternalCall.ts"
import { described } from "../../cli/Root.ts"
import { actionCommands } from "./ActionCommands.ts"
import { groups } from "./OperatorGroups.ts"
import { queue } from "./QueueCommands.ts"

const overview = reading(
  "overview",
  "/operator/overview",
  Views.OverviewView,
  {},
  (
    { alerts, deliveries, last_hour: lastHour, live, next_deadline: next, nodes, operators, queue, unowned },
    { age, fields, text }
  ) =>
    [
      fields([
        ["live tasks", `${live.pending} pending, ${live.processing} processing, ${live.interrupted} interrupted`],
        ["queue", `${queue.running} running, ${queue.waiting} waiting`],
        ["next deadline", age(next)],
        [
          "last hour",
          `${lastHour.created} created, ${lastHour.completed} completed, ${lastHour.failed} failed, ${lastHour.canceled} canceled`
        ],
        ["webhooks", `${deliveries.pending} pending, ${deliveries.failed} failed in the last hour`],
        ["nodes", String(nodes)],
        ["operators", operators.map(({ name, role }) => role === "full" ? name : `${name} (reads)`).join(", ")],
        ["shards", unowned === 0 ? null : `${unowned} have no owner`]
      ]),
      ...alerts.map(({ message }) => text(`Alert: ${message}`))
    ].join("\n")
)

const errors = reading(
  "errors",
  "/operator/errors",
  Views.ErrorsView,
  parameters.errors,
  ({ groups: failures }, { age, table }) =>
    table(
      ["FAILURES", "USERS", "FIRST", "LAST", "SAMPLE", "CAUSE"],
      failures.map(({ count, fingerprint, first_at, last_at, samples, users }) => [
        String(count),
        String(users),
        age(first_at),
        age(last_at),
        samples[0] ?? "",
        fingerprint
      ]),
      "No failures."
    )
)

const stuck = reading(
  "stuck",
  "/operator/stuck",
  Views.StuckView,
  parameters.stuck,
  ({ before, core_unreachable: unreachable, data }, { age, table, text }) => {
    const runs = table(
      ["PROGRESS", "STATUS", "TASK", "WAITS FOR", "USER"],
      data.map(({ progress_at, status, sub, uuid, waiting_on }) => [
        age(progress_at),
        status,
        uuid,
        waiting_on === null ? "" : `${waiting_on.party}: ${waiting_on.for.replaceAll("_", " ")}`,
        sub
      ]),
      `Nothing is stuck: the core has reported of every run since ${before}.`
    )
    return unreachable === null ?
      runs :
      `${text(`The core cannot be reached since ${unreachable.since}: ${unreachable.reason}.`)}\n${runs}`
  }
)

const clocks = reading(
  "clocks",
  "/operator/clocks",
  Views.ClocksView,
  parameters.clocks,
  ({ stops, tasks }, { age, table }) =>
    table(["DUE", "CLOCK", "TASK", "USER OR REASON"], [
      ...tasks.map(({ clock, due_at, sub, uuid }) => [age(due_at), clock, uuid, sub]),
      ...stops.map(({ due_at, reason, task_uuid }) => [age(due_at), "stop", task_uuid, reason])
    ], "Nothing is due.")
)

const revocations = listing("revocations", "/operator/revocations", Views.RevocationsView, parameters.revocations, {
  REVOKED: ({ revoked_at: at }, { age }) => age(at),
  "TOKEN OR USER": ({ jti, sub, token_hash: hash }) => sub ?? jti ?? `sha256:${hash}`,
  "ISSUED BEFORE": ({ issued_before: at }, { age }) => age(at),
  EXPIRES: ({ expires_at: at }, { age }) => age(at)
}, "No revocations.")

export const commands = [
  overview.pipe(
    described("Show live tasks, the last hour, webhooks, nodes and alerts (for operators)", "overview")
  ),
  errors.pipe(
    described("Group the newest failures by their cause (for operators)", "errors --from 2026-11-21T00:00:00Z")
  ),
  stuck.pipe(described("List the tasks without progress (for operators)", "stuck --limit 20")),
  clocks.pipe(described("List the next deadlines and unconfirmed stops (for operators)", "clocks --limit 20")),
  revocations.pipe(described("List the revoked tokens, newest first (for operators)", "revocations")),
  queue,
  ...groups,
  ...actionCommands
] as const
