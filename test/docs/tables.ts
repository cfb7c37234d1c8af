/** Tables of pages as the code has them: README's, and what is needed to print and to compare any. */
import { Result } from "effect"
import { targetOf, TaskEvent, type TaskEventTag, TaskStatus, transition } from "../../src/domain/Task.ts"
import { settings } from "../../src/runtime/AppConfig.ts"
import { definitions, prometheusName } from "../../src/services/Metrics.ts"

export const table = (head: ReadonlyArray<string>, rows: ReadonlyArray<ReadonlyArray<string>>) =>
  [head, head.map(() => "---"), ...rows].map((cells) => `| ${cells.join(" | ")} |`).join("\n")

const tags = Object.keys(TaskEvent.cases) as ReadonlyArray<TaskEventTag>

const transitions = table(
  ["event", ...TaskStatus.literals],
  tags.map((tag) => [
    tag,
    ...TaskStatus.literals.map((from) => Result.isSuccess(transition(from, tag)) ? targetOf(tag) : "")
  ])
)

const code = (names: ReadonlyArray<string>) => names.map((name) => `\`${name}\``).join(", ")

export const tables: Readonly<Record<string, string>> = {
  transitions,
  metrics: table(
    ["metric", "in Prometheus", "kind", "labels", "tells"],
    definitions.map(({ kind, labels, meaning, name }) => [
      code([name]),
      code([prometheusName(name)]),
      kind,
      code(labels),
      meaning
    ])
  ),
  settings: table(["variable", "default", "meaning"], settings.map((s) => [code(s.names), s.default, s.meaning]))
}

/** A marked part of a page: between `<!-- name -->` and `<!-- /name -->`. */
export const partOf = (name: string) => new RegExp(`(<!-- ${name} -->\\n)([\\s\\S]*?)(\\n?<!-- /${name} -->)`)

/** Cells without the padding that the formatter gives them. */
export const cellsOf = (table: string) =>
  table.trim().split("\n").map((line) => line.split("|").map((cell) => cell.trim().replace(/^-+$/, "---")))
