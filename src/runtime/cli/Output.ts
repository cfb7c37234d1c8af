/** The presentation of results for humans: tables, ages and colors. Colors follow the terminal, NO_COLOR and `--no-color`. */
import { Clock, Effect } from "effect"
import { CliOutput, TerminalCapabilities } from "effect/cli"
import { styleText } from "node:util"

type Style = Parameters<typeof styleText>[0]

export interface Output {
  /** Aligned columns below a header, or `empty` without rows. A terminal's last column ends at its edge. */
  readonly table: (
    header: ReadonlyArray<string>,
    rows: ReadonlyArray<ReadonlyArray<string>>,
    empty: string
  ) => string
  /** One `name  value` pair in each line. Pairs without a value are left out. */
  readonly fields: (pairs: ReadonlyArray<readonly [name: string, value: string | null | undefined]>) => string
  /** "3 m ago" or "in 20 s" for an ISO 8601 timestamp, "-" for null. */
  readonly age: (timestamp: string | null) => string
  /** Text of a stranger: a terminal gets no control characters other than line breaks and tabs. */
  readonly text: (text: string) => string
}

/** A cell that is one of these words gets its color. */
const styles: ReadonlyMap<string, Style> = new Map<string, Style>([
  ["completed", "green"],
  ["delivered", "green"],
  ["ok", "green"],
  ["processing", "cyan"],
  ["pending", "blue"],
  ["interrupted", "yellow"],
  ["warn", "yellow"],
  ["failed", "red"],
  ["exhausted", "red"],
  ["FAIL", "red"],
  ["canceled", "gray"]
])

const units = [["d", 86_400], ["h", 3600], ["m", 60], ["s", 1]] as const

/** The largest unit only: 125 seconds are "2 m". */
const duration = (seconds: number) => {
  const [unit, size] = units.find(([, size]) => seconds >= size) ?? ["s", 1]
  return `${Math.floor(seconds / size)} ${unit}`
}

/** Cells are single lines, whatever they contain. */
const cellOf = (text: string) => text.replace(/\p{Cc}+/gu, " ")

const cut = (text: string, width: number) => {
  if (CliOutput.displayWidth(text) <= width) return text
  let kept = ""
  for (const character of text) {
    if (CliOutput.displayWidth(kept + character) >= width) break
    kept += character
  }
  return `${kept}…`
}

/** `now` is in milliseconds, `width` the columns of a terminal; undefined elsewhere. */
export const make = (
  { canColor, now, width }: { readonly canColor: boolean; readonly now: number; readonly width: number | undefined }
): Output => {
  const paint = (style: Style, text: string) => canColor ? styleText(style, text, { validateStream: false }) : text

  const align = (rows: ReadonlyArray<ReadonlyArray<string>>) => {
    const widths: Array<number> = []
    for (const row of rows) {
      for (const [column, cell] of row.entries()) {
        widths[column] = Math.max(widths[column] ?? 0, CliOutput.displayWidth(cell))
      }
    }
    const last = widths.length - 1
    const left = (width ?? Infinity) - widths.slice(0, last).reduce((sum, column) => sum + column + 2, 0)
    return rows.map((row) =>
      row.map((cell, column) => {
        const text = column === last ? cut(cell, Math.max(left, 10)) : cell
        const style = styles.get(text)
        const padding = column === last ? "" : " ".repeat((widths[column] ?? 0) - CliOutput.displayWidth(text))
        return (style === undefined ? text : paint(style, text)) + padding
      }).join("  ").trimEnd()
    )
  }

  return {
    table: (header, rows, empty) => {
      const [first = "", ...lines] = align([header, ...rows.map((row) => row.map(cellOf))])
      return rows.length === 0 ? empty : [paint("bold", first), ...lines].join("\n")
    },
    fields: (pairs) =>
      align(pairs.flatMap(([name, value]) => typeof value === "string" ? [[name, cellOf(value)]] : [])).join("\n"),
    age: (timestamp) => {
      if (timestamp === null) return "-"
      const seconds = (now - Date.parse(timestamp)) / 1000
      return seconds <= -1 ? `in ${duration(-seconds)}` : `${duration(Math.max(seconds, 0))} ago`
    },
    text: (text) => width === undefined ? text : text.replace(/[^\P{Cc}\n\t]/gu, "")
  }
}

export const current = Effect.gen(function*() {
  const { canAnimate, canColor } = yield* TerminalCapabilities.TerminalCapabilities
  return make({ canColor, now: yield* Clock.currentTimeMillis, width: canAnimate ? process.stdout.columns : undefined })
})
