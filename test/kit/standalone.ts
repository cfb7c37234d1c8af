/** A Postgres of its own for scripts that run outside of vitest. */
import { Effect, Exit, Redacted, Scope } from "effect"
import postgres from "postgres"
import * as EmbeddedPostgres from "../../src/runtime/builtin/EmbeddedPostgres.ts"
import { removeDirectory, temporaryDirectory } from "./directories.ts"

export const startPostgres = async () => {
  const directory = temporaryDirectory()
  const scope = Scope.makeUnsafe()
  const { url: base } = await Effect.runPromise(Scope.provide(EmbeddedPostgres.start(directory), scope))
  return {
    makeDatabase: async (name: string) => {
      const admin = postgres(Redacted.value(base), { max: 1 })
      await admin.unsafe(`CREATE DATABASE ${name}`)
      await admin.end()
      const url = new URL(Redacted.value(base))
      url.pathname = name
      return url.href
    },
    stop: async () => {
      await Effect.runPromise(Scope.close(scope, Exit.void))
      removeDirectory(directory)
    }
  }
}
