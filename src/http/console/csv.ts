/** Tables as files for spreadsheets. */

type Value = string | number | null | undefined

/** A text that a spreadsheet would take for a formula gets a quote in front. */
const cellOf = (value: Value): string => {
  const text = typeof value === "string" && /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value ?? "")
  return /[",\n\r]/.test(text) ? `"${text.replaceAll("\"", "\"\"")}"` : text
}

export const csvOf = (rows: ReadonlyArray<ReadonlyArray<Value>>): string =>
  rows.map((row) => row.map(cellOf).join(",")).join("\r\n")

export const save = (name: string, text: string) => {
  const url = URL.createObjectURL(new Blob([text], { type: "text/csv" }))
  const link = Object.assign(document.createElement("a"), { href: url, download: name })
  link.click()
  setTimeout(() => URL.revokeObjectURL(url), 1000)
}
