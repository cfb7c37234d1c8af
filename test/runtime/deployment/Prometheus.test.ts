import { execFileSync } from "node:child_process"
import * as fs from "node:fs"
import * as path from "node:path"
import { assert, describe, it } from "vitest"
import { parse } from "yaml"
import { definitions, prometheusName } from "../../../src/services/telemetry/Metrics.ts"
import { expressionsOf, firesAt, metricsOf, rulesOf } from "./alerts.ts"

const deployment = path.resolve(import.meta.dirname, "../../../src/runtime/deployment")
const read = (file: string) => fs.readFileSync(path.join(deployment, file), "utf8")

// Extensions define metrics of their own.
await import("../../../src/runtime/loadedExtensions.ts")
const known = new Set(definitions.map(({ name }) => prometheusName(name)))

const isInstalled = (command: string) => {
  try {
    execFileSync(command, ["--version"], { stdio: "ignore" })
    return true
  } catch {
    return false
  }
}

const unknownIn = (expressions: ReadonlyArray<string>) =>
  expressions.flatMap(metricsOf).filter((name) => !known.has(name))

describe("alert rules", () => {
  it("use metrics of the service only", () => {
    const expressions = expressionsOf(read("prometheus/alerts.yaml"))
    assert.isAbove(expressions.length, 10)
    assert.deepStrictEqual(unknownIn(expressions), [])
  })

  /**
   * By hand: what each rule measures, the worst value that is no reason to wake anybody, and the mildest that is. A rate is of events
   * a second, an increase of events, a duration of seconds.
   */
  const meaning: Readonly<Record<string, readonly [measured: string, quiet: number, loud: number]>> = {
    TaskServiceDown: [`up{job="async-task-service"}`, 1, 0],
    TaskDatabaseUnavailable: ["min(db_client_available)", 1, 0],
    TaskDeadlinesOverdue: ["max(task_deadline_overdue_seconds)", 14, 16],
    TaskRequestsFail: [`sum(rate(http_server_responses_total{http_response_status_class="5xx"}[5m]))`, 0.09, 0.11],
    TaskCoreUnavailable: [
      `sum(rate(core_call_duration_seconds_count{operation="start",outcome!~"accepted|busy"}[5m]))`,
      0.09,
      0.11
    ],
    TaskCoreUnreachable: ["max(core_unreachable)", 0, 1],
    TaskQueueWaitsLong: ["max(task_queue_oldest_seconds)", 299, 301],
    TaskCoreBusy: ["max(core_busy_duration_seconds)", 599, 601],
    TaskRunsStuck: ["sum(core_runs_stuck)", 0, 1],
    TaskRunsHandedOver: ["sum(increase(core_runs_handed_over_total[10m]))", 0, 1],
    TasksNotAccepted: [`sum(increase(task_transitions_total{event="AcceptanceExpired"}[10m]))`, 0, 1],
    TaskLimitsLate: [
      "histogram_quantile(0.99, sum by (le) (rate(task_deadline_lateness_seconds_bucket[10m])))",
      0.9,
      1.1
    ],
    WebhooksLate: [
      "histogram_quantile(0.99, sum by (le) (rate(webhook_attempt_lateness_seconds_bucket[10m])))",
      4.9,
      5.1
    ],
    WebhooksOverdue: ["max(webhook_overdue_seconds)", 59, 61],
    WebhookAttemptsAbandoned: ["increase(webhook_attempts_abandoned_total[1h])", 0, 1],
    SchedulesMissed: [`sum(increase(schedule_firings_total{outcome="missed"}[10m]))`, 0, 1],
    SchedulesWithoutToken: [`sum(increase(schedule_firings_total{outcome="failed"}[10m]))`, 0, 1],
    SchedulesLate: ["histogram_quantile(0.99, sum by (le) (rate(schedule_lateness_seconds_bucket[10m])))", 0.9, 1.1],
    UsageNotBooked: ["max(usage_booking_age_seconds)", 119, 121],
    WebhookEndpointDisabled: ["sum by (reason) (increase(webhook_endpoint_disabled_total[1h]))", 0, 1],
    WebhookEndpointEventsDropped: [
      "sum by (reason) (increase(webhook_endpoint_deliveries_dropped_total[1h]))",
      0,
      1
    ],
    WebhookEndpointsLate: ["max(webhook_endpoint_overdue_seconds)", 299, 301],
    TaskUserStoresMuch: ["max(task_storage_largest_user_bytes)", 10 * 2 ** 30, 10 * 2 ** 30 + 1],
    TaskClockWrong: ["max by (instance) (abs(clock_offset_seconds))", 0.9, 1.1],
    TokenRevocationsStale: ["revocation_sync_age_seconds", 9, 11],
    TaskNodeOverloaded: ["nodejs_eventloop_delay_p99_seconds", 0.24, 0.26]
  }

  it("fire above their bounds, and not below", () => {
    const rules = rulesOf(read("prometheus/alerts.yaml"))
    assert.sameMembers(rules.map(({ alert }) => alert), Object.keys(meaning))
    for (const rule of rules) {
      const [measured, quiet, loud] = meaning[rule.alert]!
      assert.isTrue(rule.expr.startsWith(`${measured} `), `${rule.alert} measures ${measured}: ${rule.expr}`)
      assert.deepStrictEqual([firesAt(rule, quiet), firesAt(rule, loud)], [false, true], `${rule.alert}: ${rule.expr}`)
    }
  })

  it.skipIf(!isInstalled("promtool"))("and the scrape configuration pass promtool", () => {
    const check = (...subject: ReadonlyArray<string>) =>
      execFileSync("promtool", ["check", ...subject], { cwd: `${deployment}/prometheus`, encoding: "utf8" })
    assert.include(check("rules", "alerts.yaml"), "SUCCESS")
    assert.include(check("config", "--syntax-only", "prometheus.yaml"), "SUCCESS")
  })

  it("are loaded by the scrape configuration, which scrapes the service's path", () => {
    const { rule_files, scrape_configs } = parse(read("prometheus/prometheus.yaml"))
    assert.deepStrictEqual(rule_files, ["alerts.yaml"])
    assert.strictEqual(scrape_configs[0].metrics_path, "/internal/metrics")
  })
})

describe("the dashboard", () => {
  const { panels } = JSON.parse(read("grafana/dashboard.json")) as {
    readonly panels: ReadonlyArray<{ readonly targets?: ReadonlyArray<{ readonly expr: string }> }>
  }
  const shown = panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr))

  it("uses metrics of the service only", () => {
    assert.isAbove(shown.length, 15)
    assert.deepStrictEqual(unknownIn(shown), [])
  })

  it("shows every metric that an alert uses", () => {
    const inPanels = new Set(shown.flatMap(metricsOf))
    const alerted = expressionsOf(read("prometheus/alerts.yaml")).flatMap(metricsOf)
    const missing = alerted.filter((metric) => !inPanels.has(metric))
    assert.deepStrictEqual([...new Set(missing)], ["revocation_sync_age_seconds"])
  })
})
