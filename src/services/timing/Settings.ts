/** What an operator may set about the rules of SPEC, and where this service is reached. `AppConfig` reads them. */
import { Context, type Duration } from "effect"

export class Settings extends Context.Service<Settings, {
  readonly maxActiveTasks: number
  readonly acceptanceTimeout: Duration.Duration
  /** How long ended tasks are kept. */
  readonly retention: Duration.Duration
  /** How often what is due is looked for, beside being waited for. */
  readonly sweepInterval: Duration.Duration
  /** One wall clock over an attempt to deliver a webhook. */
  readonly webhookTimeout: Duration.Duration
}>()("async-task-service/services/timing/Settings") {}
