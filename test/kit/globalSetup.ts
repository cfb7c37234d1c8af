/** One real Postgres for a whole run of the integration tests; each suite makes a database of its own in it. */
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
  const { url } = await Effect.runPromise(
    Scope.provide(EmbeddedPostgres.start(directory, ["shared_preload_libraries=pg_stat_statements"]), scope)
  )
  provide("postgresUrl", Redacted.value(url))
  return async () => {
    await Effect.runPromise(Scope.close(scope, Exit.void))
    removeDirectory(directory)
  }
}

export default setup
