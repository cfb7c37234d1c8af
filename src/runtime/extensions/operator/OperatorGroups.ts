/** Groups of commands for operators: tasks and webhooks of all users, and the nodes. */
import { Duration, Effect, Option, type Redacted, Schedule } from "effect"
import { Argument, Command, Flag } from "effect/cli"
import { CanceledTaskView } from "../../../http/contract/TaskSchemas.ts"
import * as Views from "../../../http/operator/OperatorSchemas.ts"
import { boolean, optionalInt, optionalText, uuid } from "../../cli/Flags.ts"
import type { Output } from "../../cli/Output.ts"
import { described, failed, internalToken, print, printResult } from "../../cli/Root.ts"
import { get, page, post, range, taskFilter, withNext } from "./OperatorCall.ts"

const error = optionalText("error", "Only with this error")

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
    ...taskFilter,
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
          ["position", task.waiting_on?.position == null ? null : String(task.waiting_on.position)],
          ["until", task.waiting_on && age(task.waiting_on.until)],
          ["silent since", task.waiting_on?.silent_since && age(task.waiting_on.silent_since)],
          [
            "dispatched again",
            task.waiting_on?.hand_overs == null ? null : `${task.waiting_on.hand_overs} times`
          ],
          ["ended by", task.ended_by && (task.ended_by.name ?? task.ended_by.by)],
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

const reason = Flag.withAlias(optionalText("reason", "Reason, which becomes the task's error"), "r")

const cancelTask = Command.make(
  "cancel",
  { uuid, reason, internalToken },
  ({ internalToken, reason, uuid }) =>
    printResult(
      post(internalToken, CanceledTaskView, `/tasks/${encodeURIComponent(uuid)}/cancel`, {
        reason: Option.getOrNull(reason)
      }),
      ({ status }) => status
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

const readCluster = (token: Option.Option<Redacted.Redacted>) => get(token, Views.OperatorClusterView, "/cluster")

const listNodes = Command.make(
  "list",
  { internalToken },
  ({ internalToken }) =>
    printResult(
      readCluster(internalToken),
      ({ members, shards, unowned }, { age, table }) => {
        const nodes = table(
          ["INSTANCE", "NODE", "VERSION", "SHARDS", "TASKS", "LATENESS", "SEEN", "STATUS"],
          members.map((node) => [
            node.instance,
            node.address,
            node.version,
            node.shards === null ? "all" : String(node.shards.length),
            String(node.tasks),
            `${node.lateness_ms} ms`,
            age(node.seen_at),
            [node.is_self ? "self" : "", node.drained ? "drained" : ""].filter((word) => word !== "").join(", ")
          ]),
          "No nodes."
        )
        return unowned.length === 0 ? nodes : `${nodes}\n${unowned.length} of ${shards} shards have no owner.`
      }
    )
)

const instance = Argument.String("instance").pipe(
  Argument.withDescription("Instance, as `nodes list` prints it (default: the node that answers)"),
  Argument.optional
)

/** The node releases its shards within seconds; a hanging one is reported. */
const moveTimeout = Duration.seconds(30)
const pollInterval = Duration.millis(250)

const move = (name: "drain" | "take-in") =>
  Command.make(
    name,
    { instance, internalToken },
    Effect.fnUntraced(function*({ instance, internalToken }) {
      const cluster = readCluster(internalToken)
      const named = Option.getOrUndefined(instance)
        ?? (yield* cluster).members.find(({ is_self: isSelf }) => isSelf)?.instance ?? ""
      const answer = yield* post(internalToken, Views.WantedView, `/nodes/${encodeURIComponent(named)}/${name}`)
      const isDrained = answer.wanted === "drained"
      yield* cluster.pipe(
        Effect.repeat({
          until: ({ members }) =>
            members.every(({ drained, instance, shards }) =>
              instance !== named || (drained === isDrained && (!isDrained || !shards?.length))
            ),
          schedule: Schedule.spaced(pollInterval)
        }),
        Effect.timeoutOrElse({
          duration: moveTimeout,
          orElse: () => Effect.fail(failed(`The node was asked, but is not ${done(answer)} after 30 seconds`))
        })
      )
      yield* print(answer, () => `The node is ${done(answer)}.`)
    })
  )

const done = ({ wanted }: typeof Views.WantedView.Type) => wanted.replace("_", " ")

export const groups = [
  Command.make("tasks").pipe(
    Command.withSubcommands([
      listTasks.pipe(described("List tasks of all users, newest first", "tasks list --status failed")),
      showTask.pipe(described("Show a task of any user with its history", "tasks show $UUID")),
      cancelTask.pipe(
        described("Cancel a task of any user that has not ended, and stop its run", "tasks cancel $UUID --reason stuck")
      )
    ]),
    described("Search, show and cancel tasks of all users (for operators)", "tasks list --status interrupted")
  ),
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
      move("drain").pipe(
        described(
          "Move the shards of a node to the other nodes, and wait until it is done. The node is no longer ready but still serves requests",
          "nodes drain --url http://10.0.0.7:3000"
        )
      ),
      move("take-in").pipe(
        described("Let a drained node own shards again, and wait until it does", "nodes take-in $INSTANCE")
      )
    ]),
    described("List, drain and take in any node through any other (for operators)", "nodes list")
  )
] as const
