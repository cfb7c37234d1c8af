/** A separate Postgres server for scripts and for tests that make the database fail. */
import { Effect, Exit, Redacted, Scope } from "effect"
import * as fs from "node:fs"
import * as path from "node:path"
import postgres from "postgres"
import * as EmbeddedPostgres from "../../src/runtime/postgres/EmbeddedPostgres.ts"
import { removeDirectory, temporaryDirectory } from "./directories.ts"
import { eventually, freePort } from "./Service.ts"

/** The server and its children. */
const processesOf = (postmaster: number) => [
  postmaster,
  ...fs.readFileSync(`/proc/${postmaster}/task/${postmaster}/children`, "utf8").split(" ").filter(Boolean).map(Number)
]

/** `settings` are additional Postgres settings, each `name=value`. */
export const startPostgres = async (settings: ReadonlyArray<string> = []) => {
  const directory = temporaryDirectory()
  const port = await freePort()
  let scope = Scope.makeUnsafe()
  const start = () =>
    Effect.runPromise(
      Scope.provide(
        EmbeddedPostgres.start(directory, [`port=${port}`, ...settings], process.env["POSTGRES_BINARIES"]),
        scope
      )
    )
  const end = () => Effect.runPromise(Scope.close(scope, Exit.void))
  const started = await start()
  const url = Redacted.value(started.url)
  const postmaster = () =>
    Number(fs.readFileSync(path.join(started.directory, "postmaster.pid"), "utf8").split("\n")[0])
  return {
    /** The server's directory, also usable for other temporary files. */
    directory,
    port,
    /** Of the server's main process. */
    pid: postmaster,
    url,
    makeDatabase: async (name: string) => {
      const admin = postgres(url, { max: 1 })
      await admin.unsafe(`CREATE DATABASE ${name}`)
      await admin.end()
      const made = new URL(url)
      made.pathname = name
      return made.href
    },
    /** Sends a signal to the server and to all of its sessions. */
    signal: (signal: NodeJS.Signals) => {
      for (const process of processesOf(postmaster())) globalThis.process.kill(process, signal)
    },
    /** Restarts the server without a shutdown, as after a power failure. */
    restartImmediately: async () => {
      const pid = postmaster()
      process.kill(pid, "SIGQUIT")
      await eventually(async () => fs.existsSync(`/proc/${pid}`), (alive) => !alive)
      await end()
      scope = Scope.makeUnsafe()
      await start()
    },
    stop: async () => {
      await end()
      removeDirectory(directory)
    }
  }
}
