/** Generated parts of the Markdown pages, by page and by the name of their markers. */
import { Result } from "effect"
import * as fs from "node:fs"
import { isTerminal, targetOf, TaskEvent, type TaskEventTag, TaskStatus, transition } from "../../src/domain/Task.ts"
import { settings } from "../../src/runtime/config/settings.ts"
import { definitions, prometheusName } from "../../src/services/telemetry/Metrics.ts"
import { rulesOf } from "../runtime/deployment/alerts.ts"
import * as Growth from "../simulation/growth.ts"
import { table } from "./markdown.ts"

const tags = Object.keys(TaskEvent.cases) as ReadonlyArray<TaskEventTag>

const leads = (from: TaskStatus, tag: TaskEventTag) => Result.isSuccess(transition(from, tag))

const transitions = table(
  ["event", ...TaskStatus.literals],
  tags.map((tag) => [tag, ...TaskStatus.literals.map((from) => leads(from, tag) ? targetOf(tag) : "")])
)

/** One arrow for each pair of statuses, labeled with every event that leads from the one to the other. */
const arrows = TaskStatus.literals.flatMap((from) =>
  [...Map.groupBy(tags.filter((tag) => leads(from, tag)), targetOf)]
    .map(([to, events]) => `  ${from} --> ${to}: ${events.join("<br>")}`)
)

const states = [
  "```mermaid",
  "stateDiagram-v2",
  "  [*] --> pending: created",
  ...arrows,
  ...TaskStatus.literals.filter(isTerminal).map((status) => `  ${status} --> [*]`),
  "```"
].join("\n")

const code = (names: ReadonlyArray<string>) => names.map((name) => `\`${name}\``).join(", ")

const metrics = table(
  ["metric", "in Prometheus", "kind", "labels", "meaning"],
  definitions.map(({ kind, labels, meaning, name }) => [
    code([name]),
    code([prometheusName(name)]),
    kind,
    code(labels),
    meaning
  ])
)

const rules = rulesOf(
  fs.readFileSync(new URL("../../src/runtime/deployment/prometheus/alerts.yaml", import.meta.url), "utf8")
)
const alerts = table(
  ["alert", "when", "meaning"],
  rules.map(({ alert, annotations, expr }) => [alert, `\`${expr}\``, annotations.summary])
)

export const pages: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  "README.md": { states },
  "src/domain/README.md": { transitions },
  "src/runtime/README.md": {
    settings: table(["variable", "default", "meaning"], settings.map((s) => [code(s.names), s.default, s.meaning]))
  },
  "src/runtime/deployment/README.md": { metrics, alerts },
  "src/runtime/deployment/Growth.md": Growth.tables
}
