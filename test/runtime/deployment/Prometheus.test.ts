import { execFileSync } from "node:child_process"
import * as fs from "node:fs"
import * as path from "node:path"
import { assert, describe, it } from "vitest"
import { parse } from "yaml"
import { definitions, prometheusName } from "../../../src/services/telemetry/Metrics.ts"
import { expressionsOf, metricsOf } from "./alerts.ts"

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
