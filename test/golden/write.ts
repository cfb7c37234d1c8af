/** Writes the golden files: part of `npm run docs`. */
import * as fs from "node:fs"
import { documents } from "./documents.ts"
import { help } from "./help.ts"
import { transcripts } from "./rpc.ts"
import { effectTypes, promiseTypes } from "./types.ts"

const all = { ...await documents(), ...await help(), ...await transcripts(), ...promiseTypes(), ...effectTypes() }

for (const [name, text] of Object.entries(all)) fs.writeFileSync(new URL(`files/${name}`, import.meta.url), text)
