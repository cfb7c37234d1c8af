/** Checks the environment of a deployment against the known settings. */
import { Effect, Result } from "effect"
import { assert } from "vitest"
import * as AppConfig from "../../../src/runtime/config/AppConfig.ts"
import { all } from "../../../src/runtime/config/settings.ts"

export type Environment = Readonly<Record<string, string>>

const names: ReadonlySet<string> = new Set(all.map(({ name }) => name))

export const assertKnown = (environment: Environment) => {
  for (const name of Object.keys(environment)) assert.isTrue(names.has(name), `${name} is not a setting`)
}

/** Loads an environment as production settings. */
export const load = (environment: Environment, part?: AppConfig.ServedPart) =>
  Effect.runSync(Effect.result(AppConfig.load({ ...environment, NODE_ENV: "production" }, part)))

export const problemsOf = (environment: Environment) =>
  Result.match(load(environment), { onFailure: ({ message }) => message, onSuccess: () => "" })

/** Values for the settings that the operator fills in. */
export const secrets: Environment = {
  DATABASE_URL: "postgres://tasks:secret@postgres:5432/tasks",
  POSTGRES_PASSWORD: "secret",
  JWT_JWKS_URL: "https://issuer.example/jwks.json",
  JWT_SECRET: "a secret of 32 bytes or more, for HS256",
  CORE_TOKEN: "a token of the core",
  INTERNAL_TOKENS: "an internal token of 32 characters or more",
  CORE_EVENT_TOKENS: "a token for the events of runs with 32 characters or more",
  ENCRYPTION_KEY: "1ufm9JqSlCnW7a7VYjGQDPBlEOWLJ5wA8gZ0vqvSjeE="
}
