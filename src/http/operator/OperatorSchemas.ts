/** Schemas of the operator interface. They have no field for secrets, tokens or whole callback URLs. */
import { Predicate, Schema } from "effect"
import { absentOr } from "../../domain/Fields.ts"
import { JsonObject } from "../../domain/json/OpaqueJson.ts"
import { ToolCall } from "../../domain/ToolCall.ts"
import { count, described, moment, momentOrNull, text, textOrNull } from "../contract/Described.ts"
import * as Tasks from "../contract/TaskSchemas.ts"

const { Count, Moment, Status, Uuid } = Tasks

/** Deliveries of one request to redeliver: by id, and by filter. */
export const redeliveries = { ids: 500, matching: 1000 } as const

/** The end of each page. */
const page = {
  next: textOrNull("The `cursor` of the next page; null when nothing follows."),
  complete: described(
    Schema.Boolean,
    "False when the search examined its maximum number of rows before the page was full: `next` continues behind them."
  )
}

const task = {
  uuid: described(Uuid, "Task identifier."),
  sub: text("The user."),
  assistant_id: described(Schema.NullOr(Schema.Int), "The assistant; null for tasks of an early version."),
  assistant_name: textOrNull("Its name, if the backend has listed it to a user lately."),
  status: described(Status, "Status of the task."),
  error: textOrNull("The error, cut after 500 characters."),
  created_at: moment("Moment of creation."),
  completed_at: momentOrNull("Moment of the end."),
  deadline_at: moment("When the time limit passes."),
  acceptance_deadline_at: momentOrNull("When the acceptance deadline passes; null before the dispatch."),
  callback_origin: textOrNull("Origin of the callback URL, whose path may carry secrets."),
  pending_tools: described(Schema.Array(Schema.String), "Names of the first pending client tools.")
}

export const OperatorTaskView = Schema.Struct(task).annotate({
  identifier: "OperatorTask",
  description: "A task of any user, without its content."
})

export const OperatorTasksView = Schema.Struct({
  data: described(Schema.Array(OperatorTaskView), "Newest first."),
  ...page
}).annotate({ identifier: "OperatorTasks", description: "One page of tasks." })

const { text: _, ...event } = Tasks.TaskEventView.fields

export const OperatorDeliveryView = Schema.Struct({
  ...Tasks.DeliveryView.fields,
  task_uuid: described(Uuid, "The task."),
  origin: text("Origin of the callback URL.")
}).annotate({ identifier: "OperatorDelivery", description: "A webhook of any user, with its attempts." })

export const OperatorTaskDetailView = Schema.Struct({
  ...task,
  run_id: text("The current or last run."),
  revision: count("Number of changes so far."),
  shard: count("Number of the task's shard."),
  owner: described(
    Schema.NullOr(Schema.String),
    "Address of the node that owns the shard; null while it moves."
  ),
  waiting_on: described(Schema.NullOr(Tasks.WaitingOnView), "The party that has to act; null when the task has ended."),
  bytes: described(
    Schema.Struct({
      request: described(Schema.NullOr(Count), "Null when it is not stored."),
      turn: described(Schema.NullOr(Count), "Null without a turn.")
    }),
    "Sizes of the stored texts."
  ),
  ended_by: described(
    Schema.NullOr(Schema.Struct({
      by: text("`user`, `operator`, `rpc`, `core`, `time_limit`, `acceptance_timeout` or `revocation`."),
      name: textOrNull("The name of the operator, or of the token of a call."),
      bulk_id: textOrNull("The bulk action that did it."),
      at: moment("When.")
    })),
    "The party or clock that ended the task; null while it has not ended."
  ),
  events: described(
    Schema.Array(Schema.Struct({
      ...event,
      type: text("The kind of event."),
      actor: textOrNull("The actor that caused it, as in `operator:ana`; null for the core.")
    })),
    "The newest 200 changes, oldest first."
  ),
  deliveries: described(Schema.Array(OperatorDeliveryView), "The webhooks, oldest first.")
}).annotate({
  identifier: "OperatorTaskDetail",
  description: "A task of any user with its history, without its content."
})

export const OverviewView = Schema.Struct({
  at: moment("When this was read."),
  live: described(
    Schema.Struct({
      pending: count("Tasks that are pending."),
      processing: count("Tasks that are processing."),
      interrupted: count("Tasks that are interrupted.")
    }),
    "Live tasks by status."
  ),
  next_deadline: momentOrNull("The earliest deadline of a live task."),
  overdue_ms: count("Milliseconds since that deadline passed; 0 while it has not."),
  last_hour: described(
    Schema.Struct({
      created: count("Tasks created."),
      completed: count("Tasks completed."),
      failed: count("Tasks failed."),
      canceled: count("Tasks canceled.")
    }),
    "Changes of the last hour, about: a fault may count 10 s twice."
  ),
  deliveries: described(
    Schema.Struct({
      pending: count("Webhooks with an attempt to come."),
      failed: count("Webhooks of the last hour that failed.")
    }),
    "Webhooks."
  ),
  queue: described(
    Schema.Struct({
      running: count("Runs that the core has."),
      waiting: count("Runs that wait for room."),
      oldest_waiting_since: momentOrNull("Since when the oldest of them waits."),
      core_busy_since: momentOrNull("Since when the core says to the node that answers that it has no room; else null.")
    }),
    "The queue."
  ),
  nodes: count("Nodes that report."),
  node_starts: described(Schema.Array(Moment), "When each of them started, as after a deployment."),
  unowned: count("Shards without an owner."),
  largest_users: described(
    Schema.Array(Schema.Struct({
      sub: text("The user."),
      bytes: count("Bytes of requests and turns."),
      tasks: count("Tasks."),
      counted_at: moment("When they were counted.")
    })),
    "The ten users who keep the most, counted in the background."
  ),
  operators: described(
    Schema.Array(Schema.Struct({
      name: text("The name of the token's owner."),
      role: described(Schema.Literals(["full", "read"]), "`full` may change something, `read` may not.")
    })),
    "Owners of tokens, of `INTERNAL_TOKEN_NAMES` and `OPERATOR_READ_TOKEN_NAMES`."
  ),
  alerts: described(
    Schema.Array(Schema.Struct({ id: text("The kind of alert."), message: text("The alert in words.") })),
    "Conditions that need attention now."
  )
}).annotate({ identifier: "Overview", description: "The state of the service." })

export const ErrorsView = Schema.Struct({
  window: described(
    Schema.Struct({
      failures: count("Failures that were grouped: the newest 10,000 of the range at most."),
      complete: described(Schema.Boolean, "False when the range has more failures or groups.")
    }),
    "The failures that were examined."
  ),
  groups: described(
    Schema.Array(Schema.Struct({
      fingerprint: text("The text that its errors have in common: `…` stands for ids, numbers, times and long quotes."),
      error: text("The newest error, cut after 500 characters."),
      users: count("Users whose tasks failed."),
      assistants: count("Assistants that they asked."),
      count: count("Its failures in the window."),
      first_at: moment("The oldest of them."),
      last_at: moment("The newest of them."),
      counts: described(Schema.Array(Count), "Failures in each of 24 equal parts of the range, the oldest first."),
      samples: described(Schema.Array(Uuid), "The newest three tasks.")
    })),
    "The largest first."
  )
}).annotate({ identifier: "ErrorGroups", description: "Failures grouped by their cause." })

const percentiles = Schema.Struct({
  p50: count("Half of them took no longer."),
  p95: count("19 of 20 took no longer.")
})

export const DurationsView = Schema.Struct({
  data: described(
    Schema.Array(Schema.Struct({
      assistant_id: described(Schema.NullOr(Count), "The assistant; null for tasks of an early version."),
      name: textOrNull("Its name, where the assistant backend lists it."),
      tasks: count("Its tasks that completed or failed."),
      waiting_ms: described(percentiles, "Milliseconds from the creation to the first report of the core."),
      running_ms: described(percentiles, "Milliseconds from there to the end, interruptions included.")
    })),
    "Most tasks first, 100 at most."
  ),
  complete: described(Schema.Boolean, "False when only the newest 5,000 tasks of the range were measured.")
}).annotate({ identifier: "Durations", description: "Times for which tasks wait and run, by assistant." })

export const UnreachableView = Schema.NullOr(Schema.Struct({
  since: moment("The first call or connection without an answer."),
  reason: text("Why the last one failed.")
}))

export const StuckView = Schema.Struct({
  data: described(
    Schema.Array(Schema.Struct({
      uuid: described(Uuid, "The task."),
      sub: text("The user."),
      status: described(Status, "Status of the task."),
      created_at: moment("Moment of creation."),
      progress_at: moment("The last sign of life of its run, or the creation."),
      idle_ms: count("Milliseconds since then."),
      waiting_on: described(
        Schema.NullOr(Tasks.WaitingOnView),
        "The party that has to act; null when the task has ended meanwhile."
      )
    })),
    "Without progress for longest first."
  ),
  total: count("Stuck tasks, also those beyond `limit`."),
  before: moment("Listed are runs of which nothing was heard since then."),
  core_unreachable: described(
    UnreachableView,
    "While the node that answers cannot reach the core: runs without a sign of life since then are listed immediately. Otherwise null."
  ),
  complete: described(Schema.Boolean, "False when only the oldest 20,000 live tasks were examined.")
}).annotate({ identifier: "StuckTasks", description: "Tasks whose core has reported nothing for a while." })

export const ClocksView = Schema.Struct({
  tasks: described(
    Schema.Array(Schema.Struct({
      uuid: described(Uuid, "The task."),
      sub: text("The user."),
      status: described(Status, "Status of the task."),
      clock: described(Schema.Literals(["acceptance", "time_limit"]), "Which deadline."),
      due_at: moment("When it passes."),
      late_ms: count("Milliseconds since it passed.")
    })),
    "The next deadlines of live tasks, earliest first."
  ),
  stops: described(
    Schema.Array(Schema.Struct({
      run_id: text("The run to stop."),
      task_uuid: described(Uuid, "Its task."),
      reason: text("Why the run has to stop."),
      attempts: count("Attempts so far."),
      due_at: moment("When the next attempt is due."),
      late_ms: count("Milliseconds since then.")
    })),
    "Stop requests that the core has not confirmed, earliest first."
  )
}).annotate({ identifier: "Clocks", description: "Deadlines and stops that are due next." })

export const HistoryView = Schema.Struct({
  step: count("Seconds of a period."),
  from: moment("Begin of the first period."),
  series: described(
    Schema.Record(Schema.String, Schema.Array(Schema.Finite)),
    "By name, one number for each period: a sum, or for `late_ms_max` the maximum."
  )
}).annotate({ identifier: "History", description: "Counts over time." })

export const OriginsView = Schema.Struct({
  data: described(
    Schema.Array(Schema.Struct({
      origin: text("Origin of callback URLs."),
      pending: count("Its webhooks with an attempt to come."),
      failed: count("Its webhooks of the range that failed."),
      last_error: textOrNull("Class of the newest failure."),
      oldest_failed_at: momentOrNull("The oldest failed webhook of the range.")
    })),
    "Most failures first, 200 at most."
  ),
  complete: described(Schema.Boolean, "False when there are more origins or deliveries than are counted.")
}).annotate({ identifier: "Origins", description: "The targets of webhooks." })

export const OperatorDeliveriesView = Schema.Struct({
  data: described(Schema.Array(OperatorDeliveryView), "Newest first."),
  ...page
}).annotate({ identifier: "OperatorDeliveries", description: "One page of webhooks." })

const Time = Schema.String

export const RedeliverManyBody = Schema.Struct({
  ids: absentOr(
    Schema.Array(Schema.String).check(
      Schema.isMaxLength(redeliveries.ids, { expected: `at most ${redeliveries.ids} items` })
    ),
    `Identifiers of up to ${redeliveries.ids} deliveries.`
  ),
  filter: absentOr(
    Schema.Struct({
      origin: absentOr(Schema.String, "Only of this origin."),
      error: absentOr(Schema.String, "Only those whose last attempt failed like this."),
      from: absentOr(Time, "Only of changes from this moment; 24 hours ago by default."),
      to: absentOr(Time, "Only of changes before this moment; now by default.")
    }),
    "Failed deliveries that match."
  ),
  limit: absentOr(
    Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: redeliveries.matching })),
    `With \`filter\`: how many, ${redeliveries.matching} by default and at most.`
  ),
  dry_run: absentOr(Schema.Boolean, "With `filter`: only counts what matches.")
}).annotate({
  identifier: "RedeliverMany",
  description: "Webhooks to deliver again: exactly one of `ids` and `filter`."
})
  .check(
    Schema.makeFilter(({ filter, ids }) =>
      Predicate.isNullish(filter) === Predicate.isNullish(ids)
        ? { path: ["ids"], issue: "Exactly one of ids and filter is expected" }
        : undefined
    )
  )

export const RedeliveredView = Schema.Struct({
  matched: count("Deliveries that match; counted up to 10,000."),
  owed: count("Deliveries that are sent again now."),
  needs_secret: count(
    "Deliveries that succeeded before, which deleted their secret: the client has to redeliver them."
  ),
  left: count("Deliveries that match and were not sent again.")
}).annotate({ identifier: "Redelivered", description: "The outcome." })

const Member = Schema.Struct({
  instance: text("Identifies the process."),
  address: text("Its address for other nodes."),
  version: text("Version of the service."),
  is_self: described(Schema.Boolean, "True for the node that answered this request."),
  started_at: moment("When it started."),
  seen_at: moment("When it reported last."),
  drained: described(Schema.Boolean, "It owns no shards and takes none."),
  shards: described(Schema.NullOr(Schema.Array(Count)), "Numbers of its shards; null without a cluster."),
  tasks: count("Live tasks of the node that run, or whose deadline is near."),
  next_due: momentOrNull("The earliest deadline of its live tasks, searched every 10 s."),
  lateness_ms: count("Maximum lateness of a deadline in the last two minutes.")
})

export const OperatorClusterView = Schema.Struct({
  members: described(Schema.Array(Member), "The nodes that report."),
  shards: count("Number of all shards."),
  unowned: described(Schema.Array(Count), "Shards without an owner.")
}).annotate({ identifier: "Cluster", description: "The nodes and their shards." })

export const RevocationsView = Schema.Struct({
  data: described(
    Schema.Array(Schema.Struct({
      jti: textOrNull("The revoked token; null for a token without `jti` and for a user."),
      token_hash: textOrNull("SHA-256 of a revoked token without `jti`."),
      sub: textOrNull("The user whose tokens are revoked."),
      issued_before: momentOrNull("With `sub`: tokens issued before this moment are revoked."),
      expires_at: momentOrNull("When the tokens expire anyway; null means never."),
      revoked_at: moment("When it was recorded.")
    })),
    "Newest first."
  ),
  ...page
}).annotate({ identifier: "Revocations", description: "One page of revocations." })

export const ContentView = Schema.Struct({
  turn: described(Schema.NullOr(JsonObject.annotate({ identifier: "Turn" })), "The turn, null without any."),
  pending_tool_calls: described(Schema.Array(ToolCall), "The pending calls with their arguments.")
}).annotate({ identifier: "TaskContent", description: "The content of the task." })

export const WantedView = Schema.Struct({
  instance: text("The node."),
  wanted: described(Schema.Literals(["drained", "taken_in"]), "The state that was asked for.")
}).annotate({ identifier: "WantedNode", description: "The node was asked." })

/** The field that `include=ended_by` adds to a task: users do not learn the names of operators. */
export const TaskEndedByView = Schema.NullOr(
  Schema.Struct({
    by: Schema.String.annotate({
      description:
        "The `user`, an `operator`, a call of another service (`rpc`), the `core`, or what passed: `time_limit`, `acceptance_timeout`, `revocation`."
    }),
    at: Moment
  }).annotate({ identifier: "TaskEndedBy", description: "The party or clock that ended a task." })
).annotate({ description: "the party or clock that ended the task; null while it has not ended." })
