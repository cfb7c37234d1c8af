/**
 * A real Postgres that needs no installation. An advisory lock in the database gives it to one service at a time. A killed
 * service leaves no lock behind, and the next service takes over a Postgres that is still running.
 */
import { PgClient } from "@effect/sql-pg"
import { Clock, Duration, Effect, Redacted, Schedule, Schema, type Scope } from "effect"
import { Reactivity } from "effect/reactivity"
import { spawn, spawnSync } from "node:child_process"
import { randomBytes } from "node:crypto"
import * as fs from "node:fs"
import * as path from "node:path"
import { hasCode } from "../ErrorMessages.ts"
import { freePort } from "../node/LocalPort.ts"
import { find, type PostgresPaths } from "./PostgresPaths.ts"

export class EmbeddedPostgresError extends Schema.TaggedError<EmbeddedPostgresError>()("EmbeddedPostgresError", {
  message: Schema.String
}) {}

const fail = (message: string) => Effect.fail(new EmbeddedPostgresError({ message }))

const attempt = <A>(thunk: () => A) =>
  Effect.try({ try: thunk, catch: (cause) => new EmbeddedPostgresError({ message: String(cause) }) })

interface Running {
  readonly pid: number
  readonly port: number
}

const isAlive = (pid: number) => {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return hasCode(error, "EPERM")
  }
}

/** True if `pid` may be a Postgres: process ids are reused, and only Linux shows the process's name. */
const mayBePostgres = (pid: number) => {
  const name = `/proc/${pid}/comm`
  return isAlive(pid) && (!fs.existsSync(name) || fs.readFileSync(name, "utf8").startsWith("postgres"))
}

/** Milliseconds after which a lock file without a process id is what a crash left, and not one that Postgres is writing. */
const maxWriting = 5000

/**
 * The Postgres that runs on `database`, by its lock file. Postgres replaces the file of a process that is gone. Only files for
 * which it would refuse to start are removed: one with the id of another program, and one that stays empty. `now` is in milliseconds.
 */
export const findRunning = (database: string, now: number): Running | undefined => {
  const file = path.join(database, "postmaster.pid")
  const written = fs.statSync(file, { throwIfNoEntry: false })?.mtimeMs
  if (written === undefined) return undefined
  const lines = fs.readFileSync(file, "utf8").split("\n")
  const running = { pid: Number(lines[0]), port: Number(lines[3]) }
  const hasPid = running.pid > 0
  if (hasPid && mayBePostgres(running.pid)) return running
  const isStale = hasPid ? isAlive(running.pid) : now - written > maxWriting
  if (isStale) fs.rmSync(file, { force: true })
  return undefined
}

const logOf = (database: string) => `${database}.log`
const passwordOf = (database: string) => `${database}.password`

const lastLines = (file: string) =>
  fs.existsSync(file) ? fs.readFileSync(file, "utf8").trim().split("\n").slice(-5) : []

const asUser = ({ user }: PostgresPaths) => ({
  ...user,
  cwd: "/",
  env: { LC_ALL: "C", TZ: "UTC" }
})

/** Creates the database in a draft directory and renames it, so that an aborted start leaves no partial database. */
const initialize = (place: PostgresPaths) =>
  attempt(() => {
    if (fs.existsSync(path.join(place.database, "PG_VERSION"))) return
    const draft = `${place.database}.${process.pid}`
    const password = passwordOf(place.database)
    if (!fs.existsSync(password)) fs.writeFileSync(password, randomBytes(24).toString("base64url"), { mode: 0o600 })
    fs.rmSync(draft, { recursive: true, force: true })
    fs.mkdirSync(draft, { mode: 0o700 })
    if (place.user !== undefined) {
      fs.chownSync(draft, place.user.uid, place.user.gid)
      fs.chownSync(password, place.user.uid, place.user.gid)
    }
    const made = spawnSync(
      path.join(place.bin, "initdb"),
      ["-D", draft, "-U", "postgres", "-A", "scram-sha-256", `--pwfile=${password}`, "-E", "UTF8", "--locale=C"],
      { ...asUser(place), encoding: "utf8" }
    )
    if (made.status !== 0) {
      fs.rmSync(draft, { recursive: true, force: true })
      throw new Error(`initdb: ${made.error?.message ?? made.stderr.trim()}`)
    }
    try {
      fs.renameSync(draft, place.database)
    } catch (error) {
      fs.rmSync(draft, { recursive: true, force: true })
      if (!fs.existsSync(path.join(place.database, "PG_VERSION"))) throw error
    }
  })

/** Starts Postgres in its own process group, because the service still needs its database while it drains after a Ctrl-C. */
const launch = Effect.fnUntraced(function*(place: PostgresPaths, extra: ReadonlyArray<string>) {
  const port = yield* freePort
  yield* attempt(() => {
    const log = fs.openSync(logOf(place.database), "a", 0o600)
    const settings = [
      `port=${port}`,
      "listen_addresses=127.0.0.1",
      "unix_socket_directories=",
      "max_connections=200",
      ...extra
    ]
    const child = spawn(
      path.join(place.bin, "postgres"),
      ["-D", place.database, ...settings.flatMap((setting) => ["-c", setting])],
      { ...asUser(place), detached: true, stdio: ["ignore", log, log] }
    )
    child.on("error", () => {})
    child.unref()
    fs.closeSync(log)
  })
})

const urlOf = (place: PostgresPaths, { port }: Running) =>
  Redacted.make(
    `postgres://postgres:${fs.readFileSync(passwordOf(place.database), "utf8")}@127.0.0.1:${port}/postgres`
  )

/** Connects, which proves that the server responds. The connection stays open until the scope closes. */
const connect = (url: Redacted.Redacted) =>
  PgClient.make({ url, maxConnections: 1, minConnections: 1, idleTimeout: Duration.infinity }).pipe(
    Effect.tap((sql) => sql`SELECT 1`),
    Effect.provide(Reactivity.layer)
  )

/** Starts Postgres or finds the running one. Fails, to be retried, after a lost race and during crash recovery. */
const reach = Effect.fnUntraced(function*(place: PostgresPaths, extra: ReadonlyArray<string>) {
  const look = Effect.flatMap(Clock.currentTimeMillis, (now) => attempt(() => findRunning(place.database, now)))
  const before = yield* look
  if (before === undefined) yield* launch(place, extra)
  const running = yield* look.pipe(
    Effect.filterOrFail(
      (found): found is Running => found !== undefined && found.port > 0,
      () => new EmbeddedPostgresError({ message: "not up yet" })
    ),
    Effect.retry({ schedule: Schedule.spaced("25 millis"), times: 100 })
  )
  const url = urlOf(place, running)
  const sql = yield* connect(url).pipe(
    Effect.mapError(() => new EmbeddedPostgresError({ message: "not answering yet" })),
    Effect.retry({ schedule: Schedule.spaced("50 millis"), times: 100, while: () => isAlive(running.pid) })
  )
  return { running, sql, url }
})

const hold = (sql: PgClient.PgClient) =>
  sql<{ readonly held: boolean }>`SELECT pg_try_advisory_lock(hashtext('async-task-service'), 0) AS held`.pipe(
    Effect.map((rows) => rows[0]?.held === true),
    Effect.repeat({ schedule: Schedule.spaced("250 millis"), times: 8, until: (held) => held }),
    Effect.orElseSucceed(() => false)
  )

/** Starts a process that stops Postgres when this process dies without stopping it: its end of the pipe closes in any case. */
const watch = ({ pid }: Running, place: PostgresPaths) => {
  const watcher = spawn("/bin/sh", ["-c", `read -r _; kill -INT ${pid}`], {
    ...asUser(place),
    detached: true,
    stdio: ["pipe", "ignore", "ignore"]
  })
  watcher.unref()
  return watcher
}

const stop = ({ pid }: Running) =>
  attempt(() => process.kill(pid, "SIGINT")).pipe(
    Effect.andThen(
      Effect.sync(() => isAlive(pid)).pipe(
        Effect.repeat({ schedule: Schedule.spaced("20 millis"), times: 500, while: (alive) => alive })
      )
    ),
    Effect.ignore
  )

export interface EmbeddedPostgres {
  readonly url: Redacted.Redacted
  readonly directory: string
}

/**
 * Runs Postgres on `dataDir` until the scope closes. `extra` are additional Postgres settings, each `name=value`; `native` is
 * the directory of the binaries, by default those of the installed package.
 */
export const start = Effect.fnUntraced(function*(
  dataDir: string,
  extra: ReadonlyArray<string> = [],
  native?: string
): Effect.fn.Return<EmbeddedPostgres, EmbeddedPostgresError, Scope.Scope> {
  const place = yield* attempt(() => find(path.resolve(dataDir), native))
  yield* initialize(place)
  const { running, sql, url } = yield* reach(place, extra).pipe(
    Effect.retry({ schedule: Schedule.spaced("500 millis"), times: 30 }),
    Effect.catch(() =>
      fail(`Postgres did not start on ${place.database}:\n${lastLines(logOf(place.database)).join("\n")}`)
    )
  )
  if (!(yield* hold(sql))) {
    return yield* fail(
      `Another service is running on ${dataDir}. Stop it, or set DATA_DIR to a directory of its own.`
    )
  }
  yield* Effect.acquireRelease(
    Effect.sync(() => watch(running, place)),
    (watcher) => Effect.andThen(Effect.sync(() => watcher.kill("SIGKILL")), stop(running))
  )
  return { url, directory: place.database }
})
