/** A process that reads a file: `node readingProcess.ts READER FILE OFFSET`. */
import { Effect } from "effect"
import * as FileReader from "../../src/runtime/builtin/backend/FileReader.ts"

const [program, path = "", offset] = process.argv.slice(2)
const file = { path, name: path, size: 1, format: "txt" }
Effect.runFork(FileReader.make(program).read(file, Number(offset), 10, "someone"))
