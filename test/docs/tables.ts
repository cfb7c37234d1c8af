/** Generated parts of the Markdown pages, by page and by the name of their markers. */
import { Result } from "effect"
import * as fs from "node:fs"
import { isTerminal, targetOf, TaskEvent, type TaskEventTag, TaskStatus, transition } from "../../src/domain/Task.ts"
import { all } from "../../src/runtime/config/settings.ts"
import { definitions, prometheusName } from "../../src/services/telemetry/Metrics.ts"
import { rulesOf } from "../runtime/deployment/alerts.ts"
import * as Growth from "../simulation/growth.ts"
import { list } from "./markdown.ts"

const tags = Object.keys(TaskEvent.cases) as ReadonlyArray<TaskEventTag>

const leads = (from: TaskStatus, tag: TaskEventTag) => Result.isSuccess(transition(from, tag))

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

/** Extensions are loaded in any order. */
const sorted = (metrics: typeof definitions) => {
  const ofExtension = /^(schedule|usage)\./
  const [own, added] = [false, true].map((isAdded) => metrics.filter(({ name }) => ofExtension.test(name) === isAdded))
  return [...own!, ...added!.toSorted((one, other) => one.name < other.name ? -1 : 1)]
}

const metrics = list(
  sorted(definitions).map(({ labels, meaning, name }) => {
    const by = labels.length === 0 ? "" : ` by ${code(labels)}`
    return `${code([prometheusName(name)])}${by}: ${meaning}`
  })
)

const rules = rulesOf(
  fs.readFileSync(new URL("../../src/runtime/deployment/prometheus/alerts.yaml", import.meta.url), "utf8")
)
const alerts = list(rules.map(({ alert, annotations }) => `\`${alert}\`: ${annotations.summary}`))

export const pages: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  "README.md": { states },
  "src/runtime/README.md": {
    settings: list(all.map((s) => `${code([s.name])} (${s.default}): ${s.meaning}`))
  },
  "src/runtime/deployment/README.md": { metrics, alerts },
  "src/runtime/deployment/Growth.md": Growth.tables
}
