/** Groups of commands for operators: tasks and webhooks of all users, and the nodes. */
import { Duration, Effect, Option, Record, Schedule } from "effect"
import { Argument, Command, Flag } from "effect/cli"
import { CanceledTaskView } from "../../../http/contract/TaskSchemas.ts"
import { ofSchedule, parameters, redeliveryFilter } from "../../../http/operator/OperatorQuery.ts"
import * as Views from "../../../http/operator/OperatorSchemas.ts"
import { boolean, optionalInt, optionalText, uuid } from "../../cli/Flags.ts"
import { call, flagsOf, listing, type Token } from "../../cli/InternalCall.ts"
import { described, failed, internalToken, print, printResult } from "../../cli/Root.ts"

/** The deadline that passes next. */
const dueOf = (
  { acceptance_deadline_at: acceptance, deadline_at: limit, status }: typeof Views.OperatorTaskView.Type
) => status === "pending" ? acceptance ?? limit : limit

const listTasks = listing("list", "/operator/tasks", Views.OperatorTasksView, { ...parameters.tasks, ...ofSchedule }, {
  TASK: ({ uuid }) => uuid,
  STATUS: ({ status }) => status,
  USER: ({ sub }) => sub,
  CREATED: ({ created_at: at }, { age }) => age(at),
  DUE: (task, { age }) => task.completed_at === null ? age(dueOf(task)) : "-",
  DETAIL: ({ error, pending_tools: tools }) => error ?? tools.join(", ")
}, "No tasks.")

const showTask = Command.make("show", { uuid, internalToken }, ({ internalToken, uuid }) =>
  printResult(
    call(internalToken, Views.OperatorTaskDetailView, "GET", `/operator/tasks/${encodeURIComponent(uuid)}`),
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
      call(internalToken, CanceledTaskView, "POST", `/operator/tasks/${encodeURIComponent(uuid)}/cancel`, {
        reason: Option.getOrNull(reason)
      }),
      ({ status }) => status
    )
)

const listWebhooks = listing("list", "/operator/deliveries", Views.OperatorDeliveriesView, parameters.deliveries, {
  DELIVERY: ({ id }) => id,
  STATE: ({ state }) => state,
  STATUS: ({ status }) => status,
  CREATED: ({ created_at: at }, { age }) => age(at),
  ATTEMPTS: ({ attempts }) => String(attempts.length),
  ERROR: ({ attempts }) => attempts.at(-1)?.error ?? "",
  ORIGIN: ({ origin }) => origin
}, "No webhooks.")

const listOrigins = listing("origins", "/operator/origins", Views.OriginsView, parameters.origins, {
  PENDING: ({ pending }) => String(pending),
  FAILED: ({ failed }) => String(failed),
  OLDEST: ({ oldest_failed_at: at }, { age }) => age(at),
  ERROR: ({ last_error: error }) => error ?? "",
  ORIGIN: ({ origin }) => origin
}, "No webhook is pending or failed.")

const redeliver = Command.make("redeliver", {
  internalToken,
  filter: flagsOf(redeliveryFilter),
  limit: optionalInt("limit", "At most so many (default and maximum: 1000)"),
  dryRun: boolean("dry-run", "Only count what matches")
}, ({ dryRun, filter, internalToken, limit }) => {
  const body = { filter: Record.getSomes(filter), dry_run: dryRun, limit: Option.getOrNull(limit) }
  return printResult(
    call(internalToken, Views.RedeliveredView, "POST", "/operator/deliveries/redeliver", body),
    ({ left, matched, needs_secret, owed }) =>
      `${matched} matched, ${owed} sent again, ${needs_secret} need their secret, ${left} left`
  )
})

const readCluster = (token: Token) => call(token, Views.OperatorClusterView, "GET", "/operator/cluster")

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
      const answer = yield* call(
        internalToken,
        Views.WantedView,
        "POST",
        `/operator/nodes/${encodeURIComponent(named)}/${name}`
      )
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
