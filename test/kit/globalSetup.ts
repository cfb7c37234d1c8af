/** One real Postgres for a whole run of the integration tests; each suite makes a database of its own in it. */
import { Effect, Exit, Redacted, Scope } from "effect"
import * as fs from "node:fs"
import * as os from "node:os"
import * as path from "node:path"
import type { TestProject } from "vitest/node"
import * as EmbeddedPostgres from "../../src/runtime/builtin/EmbeddedPostgres.ts"

declare module "vitest" {
  export interface ProvidedContext {
    readonly postgresUrl: string
  }
}

const setup = async ({ provide }: TestProject) => {
  const scope = Scope.makeUnsafe()
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), "async-task-service-test-"))
  const { url } = await Effect.runPromise(
    Scope.provide(EmbeddedPostgres.start(directory, ["shared_preload_libraries=pg_stat_statements"]), scope)
  )
  provide("postgresUrl", Redacted.value(url))
  return async () => {
    await Effect.runPromise(Scope.close(scope, Exit.void))
    fs.rmSync(directory, { recursive: true, force: true })
  }
}

export default setup
