/** Writes the generated parts of the Markdown pages, and the types of the Python client: `npm run docs`. */
import * as fs from "node:fs"
import { partOf } from "./markdown.ts"
import { types, typesFile } from "./pythonTypes.ts"
import { pages } from "./tables.ts"

const root = new URL("../../", import.meta.url)

for (const [address, parts] of Object.entries(pages)) {
  const page = new URL(address, root)
  let text = fs.readFileSync(page, "utf8")
  for (const [name, part] of Object.entries(parts)) {
    text = text.replace(partOf(name), (_, start, __, end) => `${start}\n${part}\n${end}`)
  }
  fs.writeFileSync(page, text)
}

fs.writeFileSync(new URL(typesFile, root), types)
