/**
 * One real Postgres for a whole run of the integration tests; each suite makes a database of its own in it.
 * POSTGRES_BINARIES selects other binaries than the installed ones.
 */
import { Effect, Exit, Redacted, Scope } from "effect"
import type { TestProject } from "vitest/node"
import * as EmbeddedPostgres from "../../src/runtime/postgres/EmbeddedPostgres.ts"
import { removeDirectory, temporaryDirectory } from "./directories.ts"

declare module "vitest" {
  export interface ProvidedContext {
    readonly postgresUrl: string
  }
}

const setup = async ({ provide }: TestProject) => {
  const scope = Scope.makeUnsafe()
  const directory = temporaryDirectory()
  const settings = ["shared_preload_libraries=pg_stat_statements"]
  const { url } = await Effect.runPromise(
    Scope.provide(EmbeddedPostgres.start(directory, settings, process.env["POSTGRES_BINARIES"]), scope)
  )
  provide("postgresUrl", Redacted.value(url))
  return async () => {
    await Effect.runPromise(Scope.close(scope, Exit.void))
    removeDirectory(directory)
  }
}

export default setup
