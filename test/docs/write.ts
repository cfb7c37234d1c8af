/** Prints the tables of README and Growth.md from the code: `npm run docs`. */
import * as fs from "node:fs"
import * as Growth from "../simulation/growth.ts"
import { partOf, tables } from "./tables.ts"

const root = new URL("../../", import.meta.url)

for (const [address, parts] of [["README.md", tables], ["src/runtime/deployment/Growth.md", Growth.tables]] as const) {
  const page = new URL(address, root)
  let text = fs.readFileSync(page, "utf8")
  for (const [name, table] of Object.entries(parts)) {
    text = text.replace(partOf(name), `$1\n${table.replaceAll("$", "$$$$")}\n$3`)
  }
  fs.writeFileSync(page, text)
}
