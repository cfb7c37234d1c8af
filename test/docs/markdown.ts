/** Prints and finds the generated parts of Markdown pages. */
export const table = (head: ReadonlyArray<string>, rows: ReadonlyArray<ReadonlyArray<string>>) =>
  [head, head.map(() => "---"), ...rows].map((cells) => `| ${cells.join(" | ")} |`).join("\n")

/** A marked part of a page: between `<!-- name -->` and `<!-- /name -->`. */
export const partOf = (name: string) => new RegExp(`(<!-- ${name} -->\\n)([\\s\\S]*?)(\\n?<!-- /${name} -->)`)

/** Cells without the padding that the formatter gives them. */
export const cellsOf = (table: string) =>
  table.trim().split("\n").map((line) => line.split("|").map((cell) => cell.trim().replace(/^-+$/, "---")))
