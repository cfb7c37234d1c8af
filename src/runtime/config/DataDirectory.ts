/** DATA_DIR: only its owner may read its content. */
import { randomBytes } from "node:crypto"
import * as fs from "node:fs"
import * as path from "node:path"
import { hasCode } from "../ErrorMessages.ts"

/** Permissions of the directories and files that the service creates. */
export const privateDirectory = 0o700
export const privateFile = 0o600

/** A root process runs the embedded Postgres as another user, which must traverse the directory but not read it. */
const passable = 0o711

/** Creates a directory and its parents. Node's recursive `mkdirSync` never ends below `/proc`. */
const create = (directory: string, mode: number): void => {
  if (fs.existsSync(directory)) return
  create(path.dirname(directory), mode)
  try {
    fs.mkdirSync(directory, { mode })
  } catch (error) {
    if (!hasCode(error, "EEXIST")) throw error
  }
}

/** Creates the directory. An existing one keeps its permissions, because the operator chose them. */
export const make = (dataDir: string) => {
  create(dataDir, process.getuid?.() === 0 ? passable : privateDirectory)
  fs.accessSync(dataDir, fs.constants.W_OK)
}

/** Creates a private directory in DATA_DIR, or makes an existing one private. */
export const makePrivate = (directory: string) => {
  create(directory, privateDirectory)
  fs.chmodSync(directory, privateDirectory)
}

/** Loads a random value, or generates it. The file is linked into place atomically, so two processes read the same value. */
export const loadOrGenerate = (dataDir: string, name: string): string => {
  const file = path.join(dataDir, name)
  make(dataDir)
  if (!fs.existsSync(file)) {
    const draft = `${file}.${randomBytes(8).toString("hex")}`
    fs.writeFileSync(draft, randomBytes(32).toString("base64"), { mode: privateFile })
    try {
      fs.linkSync(draft, file)
    } catch (error) {
      if (!hasCode(error, "EEXIST")) throw error
    } finally {
      fs.rmSync(draft, { force: true })
    }
  }
  const value = fs.readFileSync(file, "utf8").trim()
  // An empty token would accept requests without one.
  if (value === "") throw new Error(`${file} is empty: restore it, or delete it for a new one`)
  return value
}
