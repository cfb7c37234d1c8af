/** DATA_DIR: what it holds is for its owner alone. */
import { randomBytes } from "node:crypto"
import * as fs from "node:fs"
import * as path from "node:path"

/** Permissions of directories and files of ours. */
export const privateDirectory = 0o700
export const privateFile = 0o600

/** A root process runs the embedded Postgres as another user, who has to pass through the directory but reads no other file. */
const passable = 0o711

/** Creates the directory; one that exists keeps its permissions, which are the operator's. */
export const make = (dataDir: string) =>
  fs.mkdirSync(dataDir, { recursive: true, mode: process.getuid?.() === 0 ? passable : privateDirectory })

/** Creates a directory of ours in DATA_DIR, or takes permissions that an earlier version gave to others. */
export const makePrivate = (directory: string) => {
  fs.mkdirSync(directory, { recursive: true, mode: privateDirectory })
  fs.chmodSync(directory, privateDirectory)
}

/** A random value, generated once. It appears whole: of two processes that start together both read the same. */
export const loadOrGenerate = (dataDir: string, name: string): string => {
  const file = path.join(dataDir, name)
  make(dataDir)
  if (!fs.existsSync(file)) {
    const draft = `${file}.${randomBytes(8).toString("hex")}`
    fs.writeFileSync(draft, randomBytes(32).toString("base64"), { mode: privateFile })
    try {
      fs.linkSync(draft, file)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error
    } finally {
      fs.rmSync(draft, { force: true })
    }
  }
  return fs.readFileSync(file, "utf8").trim()
}
