/** Flags and arguments of the commands, each with its description. */
import { Effect, Predicate, type Schema } from "effect"
import { Argument, CliError, Flag } from "effect/cli"

export const uuid = Argument.String("uuid").pipe(Argument.withDescription("Task id"))

export const text = (name: string, description: string) => Flag.String(name).pipe(Flag.withDescription(description))

export const optionalText = (name: string, description: string) => Flag.optional(text(name, description))

export const optionalInt = (name: string, description: string) =>
  Flag.Int(name).pipe(Flag.withDescription(description), Flag.optional)

export const int = (name: string, description: string, absent: number) =>
  Flag.Int(name).pipe(Flag.withDescription(`${description} (default: ${absent})`), Flag.withDefault(absent))

/** False unless it is given. */
export const boolean = (name: string, description: string) =>
  Flag.Boolean(name).pipe(Flag.withDescription(description), Flag.withDefault(false))

/** Parses each value. The first for which `parse` returns undefined is a usage error. */
export const parseEach = <A>(
  about: Pick<CliError.InvalidValue, "expected" | "kind" | "option">,
  parse: (text: string) => A | undefined
) =>
(texts: ReadonlyArray<string>): Effect.Effect<ReadonlyArray<A>, CliError.InvalidValue> =>
  Effect.forEach(texts, (value) => {
    const parsed = parse(value)
    return parsed === undefined
      ? Effect.fail(new CliError.InvalidValue({ ...about, value }))
      : Effect.succeed(parsed)
  })

/** A number from 1; null for `none` or `default`, which lift the limit of one and leave that of all. */
export const limit = (name: string, description: string) =>
  Argument.String(name).pipe(
    Argument.withDescription(`${description}; \`none\` or \`default\`: what the settings say`),
    Argument.mapEffect((value) =>
      value === "none" || value === "default"
        ? Effect.succeed(null)
        : /^[1-9]\d{0,6}$/.test(value)
        ? Effect.succeed(Number(value))
        : Effect.fail(
          new CliError.InvalidValue({
            option: name,
            value,
            expected: "a number from 1, none or default",
            kind: "argument"
          })
        )
    )
  )

/** A usage error about several flags: `Command.validate((given) => usage(isWrong(given) && "…"))`. */
export const usage = (problem: string | false) =>
  problem === false ? Effect.void : Effect.fail(new CliError.ValidationError({ message: problem }))

/** Undefined for a text that is not JSON. */
export const jsonOf = (text: string): Schema.Json | undefined => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

export const body = text("body", "Additional request fields, as a JSON object").pipe(
  Flag.withDefault("{}"),
  Flag.mapEffect((value) => {
    const fields: unknown = jsonOf(value)
    return Predicate.isObject(fields)
      ? Effect.succeed(fields)
      : Effect.fail(new CliError.InvalidValue({ option: "body", value, expected: "a JSON object", kind: "flag" }))
  })
)

export const metadata = (description: string) =>
  Flag.KeyValuePair("metadata").pipe(
    Flag.withDescription(`${description}: key=value; repeatable`),
    Flag.withDefault({})
  )
