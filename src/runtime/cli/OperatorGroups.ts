/** Commands of operators over all users: tasks, errors, clocks, webhooks, nodes. */
import { Effect, Option } from "effect"
import { Argument, Command } from "effect/cli"
import * as Views from "../../http/contract/OperatorSchemas.ts"
import { CanceledTaskView } from "../../http/contract/TaskSchemas.ts"
import { boolean, optionalInt, optionalText, uuid } from "./Flags.ts"
import * as InternalToken from "./InternalToken.ts"
import { get, post } from "./OperatorCall.ts"
import type { Output } from "./Output.ts"
import { print } from "./Root.ts"

const internalToken = InternalToken.flag
const error = optionalText("error", "Only with this error")
const limit = optionalInt("limit", "Rows (default: 50; at most 200)")
const range = {
  from: optionalText("from", "Begin of the range, a moment in ISO 8601 (default: 24 hours ago)"),
  to: optionalText("to", "End of the range (default: now)")
}
const page = { limit, cursor: optionalText("cursor", "`next` of the page before") }

/** A command or a group with its description and an example. */
const described = (description: string, example: string) =>
<Name extends string, Input, Context, E, R>(
  command: Command.Command<Name, Input, Context, E, R>
): Command.Command<Name, Input, Context, E, R> =>
  command.pipe(
    Command.withDescription(description),
    Command.withExamples([{ command: `async-task-service ${example}` }])
  )

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
    Effect.flatMap(
      get(internalToken, Views.OperatorTasksView, "/tasks", parameters),
      (found) =>
        print(found, (shown, output) =>
          withNext(
            output.table(
              ["TASK", "STATUS", "USER", "CREATED", "DUE", "DETAIL"],
              shown.data.map(taskRow(output)),
              "No tasks."
            ),
            shown
          ))
    )
)

const showTask = Command.make("show", { uuid, internalToken }, ({ internalToken, uuid }) =>
  Effect.flatMap(
    get(internalToken, Views.OperatorTaskDetailView, `/tasks/${encodeURIComponent(uuid)}`),
    (found) =>
      print(found, (task, { age, fields, table }) =>
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
        ].join("\n\n"))
  ))

const cancelTask = Command.make("cancel", {
  uuid,
  reason: optionalText("reason", "Reason, which becomes the task's error"),
  internalToken
}, ({ internalToken, reason, uuid }) =>
  Effect.flatMap(
    post(
      internalToken,
      CanceledTaskView,
      `/tasks/${encodeURIComponent(uuid)}/cancel`,
      Option.isSome(reason) ? { reason: reason.value } : {}
    ),
    (canceled) => print(canceled, ({ status }) => status)
  ))

const errors = Command.make(
  "errors",
  { internalToken, ...range },
  ({ internalToken, ...parameters }) =>
    Effect.flatMap(
      get(internalToken, Views.ErrorsView, "/errors", parameters),
      (found) =>
        print(found, ({ groups }, { age, table }) =>
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
          ))
    )
)

const clocks = Command.make(
  "clocks",
  { internalToken, limit },
  ({ internalToken, limit }) =>
    Effect.flatMap(
      get(internalToken, Views.ClocksView, "/clocks", { limit }),
      (found) =>
        print(found, ({ stops, tasks }, { age, table }) =>
          table(["DUE", "CLOCK", "TASK", "USER OR REASON"], [
            ...tasks.map(({ clock, due_at, sub, uuid }) => [age(due_at), clock, uuid, sub]),
            ...stops.map(({ due_at, reason, task_uuid }) => [age(due_at), "stop", task_uuid, reason])
          ], "Nothing is due."))
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
    Effect.flatMap(
      get(internalToken, Views.OperatorDeliveriesView, "/deliveries", parameters),
      (found) =>
        print(found, (shown, { age, table }) =>
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
          ))
    )
)

const listOrigins = Command.make(
  "origins",
  { internalToken, ...range },
  ({ internalToken, ...parameters }) =>
    Effect.flatMap(
      get(internalToken, Views.OriginsView, "/origins", parameters),
      (found) =>
        print(found, ({ data }, { age, table }) =>
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
          ))
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
  return Effect.flatMap(
    post(internalToken, Views.RedeliveredView, "/deliveries/redeliver", body),
    (outcome) =>
      print(
        outcome,
        ({ left, matched, needs_secret, owed }) =>
          `${matched} matched, ${owed} sent again, ${needs_secret} need their secret, ${left} left`
      )
  )
})

const listNodes = Command.make(
  "list",
  { internalToken },
  ({ internalToken }) =>
    Effect.flatMap(
      get(internalToken, Views.OperatorClusterView, "/cluster"),
      (found) =>
        print(found, ({ members }, { age, table }) =>
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
          ))
    )
)

const instance = Argument.String("instance").pipe(Argument.withDescription("Instance, as `nodes list` prints it"))

const move = (name: "drain" | "take-in") =>
  Command.make(name, { instance, internalToken }, ({ instance, internalToken }) =>
    Effect.flatMap(
      post(internalToken, Views.WantedView, `/nodes/${encodeURIComponent(instance)}/${name}`),
      (asked) => print(asked, ({ wanted }) => `The node will be ${wanted.replace("_", " ")} within seconds.`)
    ))

export const commands = [
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
