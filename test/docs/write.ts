/** Writes the generated parts of the Markdown pages, and the types of both clients: `npm run docs`. */
import * as fs from "node:fs"
import { partOf } from "./markdown.ts"
import * as operator from "./operatorTypes.ts"
import * as python from "./pythonTypes.ts"
import { pages } from "./tables.ts"
import * as typescript from "./typescriptTypes.ts"

const root = new URL("../../", import.meta.url)

for (const [address, parts] of Object.entries(pages)) {
  const page = new URL(address, root)
  // An extension was deleted.
  if (!fs.existsSync(page)) continue
  let text = fs.readFileSync(page, "utf8")
  for (const [name, part] of Object.entries(parts)) {
    text = text.replace(partOf(name), (_, start, __, end) => `${start}\n${part}\n${end}`)
  }
  fs.writeFileSync(page, text)
}

for (const { types, typesFile } of [python, typescript, operator]) {
  if (types !== undefined) fs.writeFileSync(new URL(typesFile, root), types)
}
