/** Reads variables and collects the problems of all of them. After a problem the value is a neutral one, which is not used. */
import { Config, ConfigProvider, Effect, Record, Redacted } from "effect"
import { withoutTrailingSlash } from "./SettingValues.ts"

const reasonOf = (error: unknown) => error instanceof Error ? error.message : String(error)

const isGiven = (value: string | undefined): value is string => value !== undefined && value !== ""

export type SettingsReader = ReturnType<typeof make>

/** An empty variable is the same as an absent one. */
export const make = (environment: Readonly<Record<string, string | undefined>>) => {
  const env: Readonly<Record<string, string>> = Record.filter(environment, isGiven)
  const provider = ConfigProvider.fromEnv({ env })
  const problems: Array<string> = []

  const report = (name: string, problem: string) => {
    problems.push(`${name}: ${problem}`)
  }

  const read = <A>(name: string, config: (name: string) => Config.Config<A>, absent: A): Effect.Effect<A> =>
    env[name] === undefined
      ? Effect.succeed(absent)
      : Effect.catch(config(name).parse(provider), (error) => {
        report(name, error.cause.message.split("\n", 1)[0] ?? "")
        return Effect.succeed(absent)
      })

  /** The value of a thunk, which throws an error with the reason when the variables are invalid. */
  const derive = <A>(name: string, thunk: () => A, neutral: A): A => {
    try {
      return thunk()
    } catch (error) {
      report(name, reasonOf(error))
      return neutral
    }
  }

  return {
    env,
    problems,
    report,
    read,
    derive,
    count: (name: string, absent: number, minimum: number, maximum: number) =>
      Effect.tap(read(name, Config.Int, absent), (value) =>
        Effect.sync(() => {
          if (value < minimum || value > maximum) report(name, `must be between ${minimum} and ${maximum}`)
        })),
    url: (name: string): string | undefined => {
      if (env[name] === undefined) return undefined
      const parsed = URL.parse(env[name])
      if (parsed !== null && /^https?:$/.test(parsed.protocol)) return withoutTrailingSlash(parsed)
      return void report(name, "must be an http or https URL")
    },
    secret: (name: string) => env[name] === undefined ? undefined : Redacted.make(env[name])
  }
}
