/** Commands of operators over all users: withdraw, tasks, errors, clocks, webhooks, nodes. */
import { Option } from "effect"
import { Argument, Command, Flag } from "effect/cli"
import * as Views from "../../http/contract/OperatorSchemas.ts"
import { CanceledTaskView } from "../../http/contract/TaskSchemas.ts"
import { boolean, optionalInt, optionalText, uuid } from "./Flags.ts"
import * as InternalToken from "./InternalToken.ts"
import { get, post } from "./OperatorCall.ts"
import type { Output } from "./Output.ts"
import { described, printResult } from "./Root.ts"

const internalToken = InternalToken.flag
const error = optionalText("error", "Only with this error")
const limit = optionalInt("limit", "Rows (default: 50; at most 200)")
const range = {
  from: optionalText("from", "Begin of the range, a moment in ISO 8601 (default: 24 hours ago)"),
  to: optionalText("to", "End of the range (default: now)")
}
const page = { limit, cursor: optionalText("cursor", "`next` of the page before") }

interface End {
  readonly next: string | null
}

const withNext = (table: string, { next }: End) => next === null ? table : `${table}\nNext page: --cursor ${next}`

type Task = typeof Views.OperatorTaskView.Type

const taskRow = ({ age }: Output) => (task: Task) => [
  task.uuid,
  task.status,
  task.sub,
  age(task.created_at),
  task.completed_at === null
    ? age(task.status === "pending" ? task.acceptance_deadline_at ?? task.deadline_at : task.deadline_at)
    : "-",
  task.error ?? task.pending_tools.join(", ")
]

const listTasks = Command.make(
  "list",
  {
    internalToken,
    sub: optionalText("sub", "Only of this user"),
    status: optionalText("status", "Only of this status"),
    error,
    ...range,
    ...page
  },
  ({ internalToken, ...parameters }) =>
    printResult(
      get(internalToken, Views.OperatorTasksView, "/tasks", parameters),
      (shown, output) =>
        withNext(
          output.table(
            ["TASK", "STATUS", "USER", "CREATED", "DUE", "DETAIL"],
            shown.data.map(taskRow(output)),
            "No tasks."
          ),
          shown
        )
    )
)

const showTask = Command.make("show", { uuid, internalToken }, ({ internalToken, uuid }) =>
  printResult(
    get(internalToken, Views.OperatorTaskDetailView, `/tasks/${encodeURIComponent(uuid)}`),
    (task, { age, fields, table }) =>
      [
        fields([
          ["task", task.uuid],
          ["user", task.sub],
          ["status", task.status],
          ["error", task.error],
          ["waits for", task.waiting_on && `${task.waiting_on.party}, ${task.waiting_on.for}`],
          ["until", task.waiting_on && age(task.waiting_on.until)],
          ["shard", `${task.shard}, ${task.owner ?? "no owner"}`],
          ["run", task.run_id]
        ]),
        table(
          ["EVENT", "STATUS", "MOMENT"],
          task.events.map(({ occurred_at: at, status, type }) => [type, status, age(at)]),
          "No events."
        )
      ].join("\n\n")
  ))

const reason = optionalText("reason", "Reason, which becomes the task's error")
const cancelBody = (reason: Option.Option<string>) => Option.isSome(reason) ? { reason: reason.value } : {}

const cancelTask = Command.make(
  "cancel",
  { uuid, reason, internalToken },
  ({ internalToken, reason, uuid }) =>
    printResult(
      post(internalToken, CanceledTaskView, `/tasks/${encodeURIComponent(uuid)}/cancel`, cancelBody(reason)),
      ({ status }) => status
    )
)

/** The same by RPC. */
const withdraw = Command.make(
  "withdraw",
  { uuid, reason: Flag.withAlias(reason, "r"), internalToken },
  ({ internalToken, reason, uuid }) =>
    printResult(
      InternalToken.call(internalToken, (client) => client["Operations.cancel"]({ uuid, body: cancelBody(reason) })),
      ({ status }) => status
    )
)

const errors = Command.make(
  "errors",
  { internalToken, ...range },
  ({ internalToken, ...parameters }) =>
    printResult(
      get(internalToken, Views.ErrorsView, "/errors", parameters),
      ({ groups }, { age, table }) =>
        table(
          ["FAILURES", "FIRST", "LAST", "SAMPLE", "ERROR"],
          groups.map(({ count, error, first_at, last_at, samples }) => [
            String(count),
            age(first_at),
            age(last_at),
            samples[0] ?? "",
            error
          ]),
          "No failures."
        )
    )
)

const clocks = Command.make(
  "clocks",
  { internalToken, limit },
  ({ internalToken, limit }) =>
    printResult(
      get(internalToken, Views.ClocksView, "/clocks", { limit }),
      ({ stops, tasks }, { age, table }) =>
        table(["DUE", "CLOCK", "TASK", "USER OR REASON"], [
          ...tasks.map(({ clock, due_at, sub, uuid }) => [age(due_at), clock, uuid, sub]),
          ...stops.map(({ due_at, reason, task_uuid }) => [age(due_at), "stop", task_uuid, reason])
        ], "Nothing is due.")
    )
)

const origin = optionalText("origin", "Only of this origin, as in https://client.example")

const listWebhooks = Command.make(
  "list",
  {
    internalToken,
    origin,
    state: optionalText("state", "Only of this state: pending, delivered or failed"),
    error,
    ...range,
    ...page
  },
  ({ internalToken, ...parameters }) =>
    printResult(
      get(internalToken, Views.OperatorDeliveriesView, "/deliveries", parameters),
      (shown, { age, table }) =>
        withNext(
          table(
            ["DELIVERY", "STATE", "STATUS", "CREATED", "ATTEMPTS", "ERROR", "ORIGIN"],
            shown.data.map(({ attempts, created_at, id, origin, state, status }) => [
              id,
              state,
              status,
              age(created_at),
              String(attempts.length),
              attempts.at(-1)?.error ?? "",
              origin
            ]),
            "No webhooks."
          ),
          shown
        )
    )
)

const listOrigins = Command.make(
  "origins",
  { internalToken, ...range },
  ({ internalToken, ...parameters }) =>
    printResult(
      get(internalToken, Views.OriginsView, "/origins", parameters),
      ({ data }, { age, table }) =>
        table(
          ["PENDING", "FAILED", "OLDEST", "ERROR", "ORIGIN"],
          data.map(({ failed, last_error, oldest_failed_at, origin, pending }) => [
            String(pending),
            String(failed),
            age(oldest_failed_at),
            last_error ?? "",
            origin
          ]),
          "No webhook is pending or failed."
        )
    )
)

const redeliver = Command.make("redeliver", {
  internalToken,
  origin,
  error,
  ...range,
  limit: optionalInt("limit", "At most so many (default and maximum: 1000)"),
  dryRun: boolean("dry-run", "Only count what matches")
}, ({ dryRun, internalToken, limit, ...filter }) => {
  const given = Object.entries(filter).flatMap(([name, value]) => Option.isSome(value) ? [[name, value.value]] : [])
  const body = { filter: Object.fromEntries(given), dry_run: dryRun, limit: Option.getOrNull(limit) }
  return printResult(
    post(internalToken, Views.RedeliveredView, "/deliveries/redeliver", body),
    ({ left, matched, needs_secret, owed }) =>
      `${matched} matched, ${owed} sent again, ${needs_secret} need their secret, ${left} left`
  )
})

const listNodes = Command.make(
  "list",
  { internalToken },
  ({ internalToken }) =>
    printResult(
      get(internalToken, Views.OperatorClusterView, "/cluster"),
      ({ members }, { age, table }) =>
        table(
          ["INSTANCE", "NODE", "VERSION", "SHARDS", "TASKS", "LATENESS", "SEEN", "STATUS"],
          members.map((node) => [
            node.instance,
            node.address,
            node.version,
            node.shards === null ? "all" : String(node.shards.length),
            String(node.tasks),
            `${node.lateness_ms} ms`,
            age(node.seen_at),
            node.drained ? "drained" : ""
          ]),
          "No nodes."
        )
    )
)

const instance = Argument.String("instance").pipe(Argument.withDescription("Instance, as `nodes list` prints it"))

const move = (name: "drain" | "take-in") =>
  Command.make(name, { instance, internalToken }, ({ instance, internalToken }) =>
    printResult(
      post(internalToken, Views.WantedView, `/nodes/${encodeURIComponent(instance)}/${name}`),
      ({ wanted }) => `The node will be ${wanted.replace("_", " ")} within seconds.`
    ))

export const commands = [
  withdraw.pipe(
    described(
      "Cancel any user's task that has not ended, and stop its run (for operators)",
      "withdraw $UUID --reason 'no longer needed'"
    )
  ),
  Command.make("tasks").pipe(
    Command.withSubcommands([
      listTasks.pipe(described("List tasks of all users, newest first", "tasks list --status failed")),
      showTask.pipe(described("Show a task of any user with its history", "tasks show $UUID")),
      cancelTask.pipe(described("Cancel a task of any user", "tasks cancel $UUID --reason stuck"))
    ]),
    described("Search, show and cancel tasks of all users (for operators)", "tasks list --status interrupted")
  ),
  errors.pipe(
    described("Group the newest failures by their error (for operators)", "errors --from 2026-11-21T00:00:00Z")
  ),
  clocks.pipe(described("List the next deadlines and unconfirmed stops (for operators)", "clocks --limit 20")),
  Command.make("webhooks").pipe(
    Command.withSubcommands([
      listWebhooks.pipe(described("List webhooks of all users, newest first", "webhooks list --state failed")),
      listOrigins.pipe(described("List the targets with their failures", "webhooks origins")),
      redeliver.pipe(
        described("Send failed webhooks again", "webhooks redeliver --origin https://client.example --dry-run")
      )
    ]),
    described("Search webhooks and send them again (for operators)", "webhooks origins")
  ),
  Command.make("nodes").pipe(
    Command.withSubcommands([
      listNodes.pipe(described("List the nodes", "nodes list")),
      move("drain").pipe(described("Move the shards of any node to the others", "nodes drain $INSTANCE")),
      move("take-in").pipe(described("Let a drained node own shards again", "nodes take-in $INSTANCE"))
    ]),
    described("List, drain and take in any node through any other (for operators)", "nodes list")
  )
] as const
