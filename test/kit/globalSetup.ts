/**
 * One real Postgres for a whole run of the integration tests; each suite makes a database of its own in it, most as a copy of one that is
 * migrated here. The service is bundled once, as for the package, because from the sources each of its hundreds of starts takes twice
 * the time.
 * TEST_SERVICE names a bundle that exists; a run of suites that start no service needs none, so any text will do. POSTGRES_BINARIES
 * selects other binaries than the installed ones, and POSTGRES_POOLER=transaction connects through PgBouncer.
 */
import { PgClient } from "@effect/sql-pg"
import { Effect, Exit, Layer, Redacted, Scope } from "effect"
import { Reactivity } from "effect/reactivity"
import { execFileSync } from "node:child_process"
import { once } from "node:events"
import * as fs from "node:fs"
import { createServer } from "node:net"
import * as path from "node:path"
import type { TestProject } from "vitest/node"
import { extensionTables } from "../../src/runtime/loadedExtensions.ts"
import * as EmbeddedPostgres from "../../src/runtime/postgres/EmbeddedPostgres.ts"
import * as Migrations from "../../src/services/store/schema/Migrations.ts"
import { template } from "./Database.ts"
import { removeDirectory, temporaryDirectory } from "./directories.ts"
import { startPgBouncer } from "./PgBouncer.ts"

declare module "vitest" {
  export interface ProvidedContext {
    readonly postgresUrl: string
    /** The URL of a transaction pooler, without a database. */
    readonly poolerUrl: string | undefined
  }
}

/** The directory of the command line and the service as the package has them. */
const buildService = () => {
  execFileSync("npm", ["run", "--silent", "build:bundle"], {
    env: { ...process.env, OUT: ".vitest" },
    stdio: "inherit"
  })
  return path.resolve(".vitest/bin")
}

/** Ports that say which of the numbers of runs on this machine are taken, each with ports of its own in `kit/Service.ts`. */
const runs = [19_990, 19_991, 19_992, 19_993]

/** Takes the first free number; beyond the last one, runs share. */
const takeRun = async (): Promise<{ readonly number: number; readonly release: () => void }> => {
  for (const [number, port] of runs.entries()) {
    const server = createServer().listen(port, "127.0.0.1")
    const isFree = await once(server, "listening").then(() => true, () => false)
    server.unref()
    if (isFree) return { number, release: () => server.close() }
  }
  return { number: 0, release: () => {} }
}

/** Ends a service that its worker has left, with its children. */
const endGroup = (pid: number) => {
  try {
    process.kill(-pid, "SIGKILL")
  } catch {
    // It has ended with its worker.
  }
}

/** Only a database without connections can be copied. */
const makeTemplate = Effect.fnUntraced(
  function*(server: Redacted.Redacted) {
    const admin = yield* PgClient.make({ url: server, maxConnections: 1 })
    yield* admin.unsafe(`CREATE DATABASE ${template}`)
    const url = Object.assign(new URL(Redacted.value(server)), { pathname: `/${template}` }).href
    yield* Effect.scoped(
      Layer.build(Layer.provide(Migrations.layer(extensionTables), PgClient.layer({ url: Redacted.make(url) })))
    )
  },
  Effect.scoped,
  Effect.provide(Reactivity.layer)
)

const start = async () => {
  // Inherited by the workers, which start after this.
  process.env["TEST_SERVICE"] ??= buildService()
  const own = await takeRun()
  process.env["TEST_RUN"] = String(own.number)
  const scope = Scope.makeUnsafe()
  const directory = temporaryDirectory()
  const shared = path.join(directory, "shared")
  fs.writeFileSync(shared, "")
  process.env["TEST_SHARED"] = shared
  const isPooled = process.env["POSTGRES_POOLER"] === "transaction"
  // Timeouts as an operator sets them behind a pooler, which refuses the service's own.
  const timeouts = isPooled ? ["statement_timeout=10s", "lock_timeout=5s"] : []
  // No suite crashes this server: what is not synchronized to the disk costs it half as many writes.
  const isForgetful = ["fsync=off", "full_page_writes=off", "max_wal_size=4GB"]
  // Each database has statements of its own; beyond the maximum, counts of others are forgotten.
  const statistics = ["shared_preload_libraries=pg_stat_statements", "pg_stat_statements.max=50000"]
  // Each node may use thirteen, and suites of several nodes run at once.
  const settings = ["max_connections=500", ...statistics, ...timeouts, ...isForgetful]
  const { url } = await Effect.runPromise(
    Scope.provide(EmbeddedPostgres.start(directory, settings, process.env["POSTGRES_BINARIES"]), scope)
  )
  await Effect.runPromise(makeTemplate(url))
  const pooler = isPooled ? await startPgBouncer(Redacted.value(url), "transaction") : undefined
  return {
    postgresUrl: Redacted.value(url),
    poolerUrl: pooler?.url,
    close: async () => {
      for (const pid of fs.readFileSync(shared, "utf8").split("\n").filter(Boolean)) endGroup(Number(pid))
      await pooler?.close()
      await Effect.runPromise(Scope.close(scope, Exit.void))
      removeDirectory(directory)
      own.release()
    }
  }
}

/** Of a run: each of its projects loads this module and calls it. */
const run: { users: number; started?: ReturnType<typeof start> } =
  (globalThis as Record<symbol, typeof run | undefined>)[Symbol.for("async-task-service/test/run")] ??= { users: 0 }

export default async ({ provide }: TestProject) => {
  run.users++
  const { close, poolerUrl, postgresUrl } = await (run.started ??= start())
  provide("postgresUrl", postgresUrl)
  provide("poolerUrl", poolerUrl)
  return async () => {
    if (--run.users === 0) await close()
  }
}
