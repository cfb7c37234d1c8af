/** Plain words for the usage errors of `effect/cli`. */
import { CliError } from "effect/cli"

/** The start of what `effect/cli` expects, and what users read instead. */
const expectations = [
  ["Expected a string representing a finite number", "an integer"],
  ["Expected an integer", "an integer"],
  ["Invalid key=value format", "key=value"],
  ["Path does not exist", "an existing file"],
  ["Path is not a file", "a file, not a folder"],
  ["Schema validation failed: Expected a valid Duration", "a duration such as '1 hour'"]
] as const

export const messageOf = (error: CliError.CliError): string => {
  if (error._tag !== "InvalidValue") return error.message
  const expected = expectations.find(([start]) => error.expected.startsWith(start))?.[1]
  return expected === undefined ? error.message : new CliError.InvalidValue({ ...error, expected }).message
}
