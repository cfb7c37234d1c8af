/**
 * Writes what is generated: parts of the Markdown pages, the types of both clients, and the golden files: `npm run docs`. With `--check`,
 * a part of `npm run check`, it writes nothing and says which files are old.
 */
import * as fs from "node:fs"
import { documents } from "../golden/documents.ts"
import { help } from "../golden/help.ts"
import { transcripts } from "../golden/rpc.ts"
import { effectTypes, promiseTypes } from "../golden/types.ts"
import { partOf } from "./markdown.ts"
import * as operator from "./operatorTypes.ts"
import * as python from "./pythonTypes.ts"
import { pages } from "./tables.ts"
import * as typescript from "./typescriptTypes.ts"

const isCheck = process.argv[2] === "--check"
const root = new URL("../../", import.meta.url)

const put = (address: string, text: string) => {
  const file = new URL(address, root)
  const before = fs.existsSync(file) ? fs.readFileSync(file, "utf8") : ""
  if (text === before) return
  if (!isCheck) return fs.writeFileSync(file, text)
  const [old, lines] = [before.split("\n"), text.split("\n")]
  const line = Math.max(0, lines.findIndex((line, index) => line !== old[index]))
  process.exitCode = 1
  console.log(`${address}:${line + 1} is old. If the change is on purpose: npm run docs, and read its diff.`)
  console.log(`- ${old[line] ?? ""}\n+ ${lines[line]}`)
}

for (const [address, parts] of Object.entries(pages)) {
  const page = new URL(address, root)
  // An extension was deleted.
  if (!fs.existsSync(page)) continue
  let text = fs.readFileSync(page, "utf8")
  for (const [name, part] of Object.entries(parts)) {
    if (!partOf(name).test(text)) throw new Error(`${address} has no part ${name}`)
    text = text.replace(partOf(name), (_, start, __, end) => `${start}\n${part}\n${end}`)
  }
  put(address, text)
}

for (const { types, typesFile } of [python, typescript, operator]) if (types !== undefined) put(typesFile, types)

// The compiler reads the types that have just been written.
const golden = { ...await documents(), ...await help(), ...await transcripts(), ...promiseTypes(), ...effectTypes() }
for (const [name, text] of Object.entries(golden)) put(`test/golden/files/${name}`, text)
