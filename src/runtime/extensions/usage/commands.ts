/** The command `usage`: what tasks consumed, as a table with a bar. */
import { Option, Record } from "effect"
import { Command } from "effect/cli"
import type { Usage, UsageBucket } from "../../../http/client/promise/Types.ts"
import type { UsageOptions } from "../../../http/usage/UsageResource.ts"
import { optionalInt, optionalText } from "../../cli/Flags.ts"
import type * as Output from "../../cli/Output.ts"
import { call, described, printResult } from "../../cli/Root.ts"

const barWidth = 20
const eighths = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"]

/** A bar whose length is the share of `largest`. */
const bar = (value: number, largest: number): string => {
  const steps = largest === 0 ? 0 : Math.round(8 * barWidth * value / largest)
  return "█".repeat(Math.floor(steps / 8)) + (eighths[steps % 8] ?? "")
}

/** Hours show their time, months no day. */
const periodOf = ({ from }: UsageBucket, step: Usage["meta"]["step"]) =>
  step === "hour" ? `${from.slice(0, 10)} ${from.slice(11, 16)}` : from.slice(0, step === "month" ? 7 : 10)

const groupOf = ({ assistant, model, sub }: UsageBucket["group"], name: string) =>
  name === "assistant" ? String(assistant) : name === "sub" ? sub ?? "" : model ?? "(none)"

/** Cells of numbers, each column aligned on its right. */
const alignRight = (rows: ReadonlyArray<ReadonlyArray<string>>) => {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)))
  return rows.map((row) => row.map((cell, column) => cell.padStart(widths[column] ?? 0)))
}

const render = ({ data, meta: { currency, step }, totals }: Usage, { table }: Output.Output) => {
  const groups = Object.keys(data[0]?.group ?? {})
  const largest = Math.max(0, ...data.map(({ total_tokens }) => total_tokens))
  const numbersOf = (sums: Usage["totals"]) => [
    String(sums.tasks),
    String(sums.input_tokens),
    String(sums.output_tokens),
    ...(currency === null ? [] : [sums.cost ?? "-"])
  ]
  const [names = [], sums = [], ...numbers] = alignRight([
    ["TASKS", "INPUT", "OUTPUT", ...(currency === null ? [] : [currency])],
    ...[totals, ...data].map(numbersOf)
  ])
  const lines = table(
    ["FROM", ...groups.map((name) => name.toUpperCase()), ...names, "TOKENS"],
    [
      ...data.map((bucket, index) => [
        periodOf(bucket, step),
        ...groups.map((name) => groupOf(bucket.group, name)),
        ...(numbers[index] ?? []),
        `${bar(bucket.total_tokens, largest)} ${bucket.total_tokens}`.trim()
      ]),
      ...(data.length === 0 ? [] : [["total", ...groups.map(() => ""), ...sums, String(totals.total_tokens)]])
    ],
    "No usage."
  )
  const isPartial = totals.cost !== null && totals.unpriced_tokens > 0
  return isPartial ? `${lines}\n\nThe cost is without ${totals.unpriced_tokens} tokens that have no price.` : lines
}

/** The service refuses what is none of its names. */
const optionsOf = (given: Record.ReadonlyRecord<string, Option.Option<string | number>>, by: Option.Option<string>) =>
  ({
    ...Record.getSomes(given),
    ...Option.match(by, { onNone: () => ({}), onSome: (names) => ({ group_by: names.split(",") }) })
  }) as UsageOptions

export const commands = [
  Command.make(
    "usage",
    {
      by: optionalText("by", "One or both of assistant and model, separated by commas"),
      step: optionalText("step", "Length of a period: hour, day, month or total (default: day)"),
      from: optionalText("from", "Begin, in ISO 8601 (default: that of this month)"),
      to: optionalText("to", "End, in ISO 8601 (default: now)"),
      assistant_id: optionalInt("assistant", "Only tasks of this assistant")
    },
    ({ by, ...given }) =>
      printResult(call(({ usage }, signal) => usage.get({ ...optionsOf(given, by), signal })), render)
  ).pipe(described("Show what tasks consumed, by period", "usage --by assistant --step day"))
] as const
