/** Holds an environment that a deployment sets against the settings that there are. */
import { Effect, Result } from "effect"
import { assert } from "vitest"
import * as AppConfig from "../../../src/runtime/AppConfig.ts"

export type Environment = Readonly<Record<string, string>>

const names: ReadonlySet<string> = new Set(AppConfig.settings.flatMap((setting) => setting.names))

export const assertKnown = (environment: Environment) => {
  for (const name of Object.keys(environment)) assert.isTrue(names.has(name), `${name} is no setting`)
}

/** The settings that an environment makes in production, or what is wrong with it. */
export const load = (environment: Environment, part?: AppConfig.Part) =>
  Effect.runSync(Effect.result(AppConfig.load({ ...environment, NODE_ENV: "production" }, part)))

export const problemsOf = (environment: Environment) =>
  Result.match(load(environment), { onFailure: ({ message }) => message, onSuccess: () => "" })

/** Values for what the operator has to fill in. */
export const secrets: Environment = {
  DATABASE_URL: "postgres://tasks:secret@postgres:5432/tasks",
  POSTGRES_PASSWORD: "secret",
  JWT_JWKS_URL: "https://issuer.example/jwks.json",
  JWT_SECRET: "a secret of 32 bytes or more, for HS256",
  CORE_TOKEN: "a token of the core",
  INTERNAL_TOKENS: "an internal token of 32 characters or more",
  ENCRYPTION_KEY: "1ufm9JqSlCnW7a7VYjGQDPBlEOWLJ5wA8gZ0vqvSjeE="
}
