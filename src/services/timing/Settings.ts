/** Limits and durations that an operator may configure. `AppConfig` reads them. */
import { Context, type Duration } from "effect"

export class Settings extends Context.Service<Settings, {
  readonly maxActiveTasks: number
  readonly acceptanceTimeout: Duration.Duration
  /** Ended tasks are deleted after this time. */
  readonly retention: Duration.Duration
  /** The interval of the sweeps that find overdue tasks whose timer was lost. */
  readonly sweepInterval: Duration.Duration
  /** Timeout of a whole attempt to deliver a webhook. */
  readonly webhookTimeout: Duration.Duration
}>()("async-task-service/services/timing/Settings") {}
