/** Limits and durations of the core that an operator may configure. */
import { Config, Context, Duration, Layer } from "effect"
import * as Limits from "../../domain/Limits.ts"
import * as Setting from "./Setting.ts"

/** The highest WEBHOOK_TIMEOUT. A target that hangs occupies a slot in flight for that long. */
const maxWebhookTimeout = Duration.minutes(5)
/** The highest RETENTION and ACCEPTANCE_TIMEOUT, which keeps all moments within the range of `Timestamp`. */
const maxPeriod = Duration.days(36_500)

const period = (description: Parameters<typeof Setting.duration>[3]) =>
  Setting.duration(
    Duration.millis(1),
    maxPeriod,
    `must be positive, and ${Duration.format(maxPeriod)} at most`,
    description
  )

const runs = (description: Parameters<typeof Setting.optional>[1]) =>
  Setting.optional(
    Setting.checked(
      Config.Int,
      (value) => value >= 1 && value <= Limits.coreRuns,
      `must be between 1 and ${Limits.coreRuns}; without it there is no limit`
    ),
    { ...description, bounds: ["1", String(Limits.coreRuns)] }
  )

export const settings = {
  webhookTimeout: Setting.duration(
    Duration.millis(1),
    maxWebhookTimeout,
    `must be positive, and ${Duration.format(maxWebhookTimeout)} at most`,
    {
      name: "WEBHOOK_TIMEOUT",
      default: "15 seconds",
      meaning: "timeout of one webhook attempt: DNS, connect, TLS and response together"
    }
  ),
  acceptanceTimeout: period({
    name: "ACCEPTANCE_TIMEOUT",
    default: "30 seconds",
    meaning: "how long the core may take to accept a task"
  }),
  stuckAfter: Setting.duration(Duration.seconds(1), Duration.days(1), "must be between 1 second and 1 day", {
    name: "STUCK_AFTER",
    default: "15 minutes",
    meaning:
      "after how long without an event of its core a run is stuck: in alerts, in the overview and list of operators, and in `core.runs.stuck`. It ends nothing"
  }),
  maxActiveTasks: Setting.integer(1, 1_000_000, {
    name: "MAX_ACTIVE_TASKS",
    default: "5",
    meaning: "maximum active tasks of one user"
  }),
  coreRuns: runs({
    name: "CORE_RUNS",
    unset: "none",
    meaning:
      "maximum runs that the core has at a time, over all nodes. Others wait in the queue; an interrupted task has no run"
  }),
  coreRunsPerAssistant: runs({
    name: "CORE_RUNS_PER_ASSISTANT",
    unset: "none",
    meaning: "the same for the runs of one assistant. Operators set other limits for single ones"
  }),
  retention: period({ name: "RETENTION", default: "30 days", meaning: "how long ended tasks are kept" })
}

interface Values extends Setting.Values<typeof settings> {
  /** The interval of the sweeps that find overdue tasks whose timer was lost. */
  readonly sweepInterval: Duration.Duration
}

export class Settings extends Context.Service<Settings, Values>()("async-task-service/services/settings/Settings") {
  static readonly defaults: Values = { ...Setting.defaults(settings), sweepInterval: Duration.seconds(1) }

  static readonly layer = (values: Partial<Values> = {}) => Layer.succeed(Settings, { ...Settings.defaults, ...values })
}
