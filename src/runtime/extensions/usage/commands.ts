/** The command `usage`: what tasks consumed, as a table with a bar. */
import { Option, Record } from "effect"
import { Command } from "effect/cli"
import type { Usage, UsageBucket, UsageOptions } from "../../../http/client/promise/UsageResource.ts"
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

const render = ({ data, meta, totals }: Usage, { table }: Output.Output) => {
  const groups = Object.keys(data[0]?.group ?? {})
  const largest = Math.max(0, ...data.map(({ total_tokens }) => total_tokens))
  const numbers = (sums: Usage["totals"]) => [
    String(sums.tasks),
    String(sums.input_tokens),
    String(sums.output_tokens),
    ...(meta.currency === null ? [] : [sums.cost ?? "-"])
  ]
  return table(
    [
      "FROM",
      ...groups.map((name) => name.toUpperCase()),
      "TASKS",
      "INPUT",
      "OUTPUT",
      ...(meta.currency === null ? [] : [meta.currency]),
      "TOKENS"
    ],
    [
      ...data.map((bucket) => [
        periodOf(bucket, meta.step),
        ...groups.map((name) => groupOf(bucket.group, name)),
        ...numbers(bucket),
        `${bar(bucket.total_tokens, largest)} ${bucket.total_tokens}`.trim()
      ]),
      ...(data.length === 0
        ? []
        : [["total", ...groups.map(() => ""), ...numbers(totals), String(totals.total_tokens)]])
    ],
    "No usage."
  )
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
