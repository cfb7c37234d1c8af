/** The results of a night as one page of Markdown. */
import { cpus, totalmem } from "node:os"
import { stripVTControlCharacters } from "node:util"

export interface Result {
  readonly name: string
  readonly outcome: "passed" | "failed" | "skipped"
  readonly seconds: number
  /** One line: what a stage has counted, or why it did not pass. */
  readonly detail: string
  /** Of a failed stage: the command that repeats it, its log and the log's text. */
  readonly again?: string
  readonly log?: string
  readonly tail?: string
}

/** Lines of a failed stage's log that the page shows. */
const shown = 40

const durationOf = (seconds: number) => seconds < 90 ? `${seconds.toFixed(0)} s` : `${(seconds / 60).toFixed(1)} min`

const cell = (text: string) => stripVTControlCharacters(text).replaceAll(/\s+/g, " ").replaceAll("|", "\\|").trim()

const failureOf = ({ again, log, name, tail = "" }: Result) => [
  `## ${name}`,
  "",
  `Again: \`${again}\`. The whole log: \`${log}\`.`,
  "",
  "```",
  ...stripVTControlCharacters(tail).trimEnd().split("\n").slice(-shown),
  "```",
  ""
]

export const pageOf = (seed: number, results: ReadonlyArray<Result>): string => {
  const failed = results.filter(({ outcome }) => outcome === "failed")
  const passed = results.filter(({ outcome }) => outcome === "passed").length
  return [
    `# Seed ${seed}`,
    "",
    `${passed} stages passed, ${failed.length} failed, ${results.length - passed - failed.length} skipped, in ${
      durationOf(results.reduce((sum, { seconds }) => sum + seconds, 0))
    }. Node ${process.versions.node}, ${cpus().length} × ${cpus()[0]?.model.trim()}, ${
      Math.round(totalmem() / 2 ** 30)
    } GiB. The night again: \`npm run nightly -- --seed ${seed}\`.`,
    "",
    "| stage | outcome | time | |",
    "| --- | --- | --- | --- |",
    ...results.map(({ detail, name, outcome, seconds }) =>
      `| ${name} | ${outcome} | ${outcome === "skipped" ? "" : durationOf(seconds)} | ${cell(detail)} |`
    ),
    "",
    ...failed.flatMap(failureOf)
  ].join("\n")
}
