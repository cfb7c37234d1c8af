/** Prints README's tables from the code: `npm run docs`. */
import * as fs from "node:fs"
import { partOf, tables } from "./tables.ts"

const readme = new URL("../../README.md", import.meta.url)
let text = fs.readFileSync(readme, "utf8")
for (const [name, table] of Object.entries(tables)) {
  text = text.replace(partOf(name), `$1\n${table.replaceAll("$", "$$$$")}\n$3`)
}
fs.writeFileSync(readme, text)
