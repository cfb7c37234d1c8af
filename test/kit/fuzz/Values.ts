/** Tables of fields and parameters: values that are accepted, and values that break a rule. `FUZZ_SEED` chooses others, as each night does. */
import type { Dice } from "../../simulation/Dice.ts"

export const seed = Number(process.env["FUZZ_SEED"] ?? 1)
export const casesOr = (usual: number) => Number(process.env["FUZZ_CASES"] ?? usual)

export interface Values<A = unknown> {
  readonly valid: ReadonlyArray<A>
  readonly invalid: ReadonlyArray<A>
}
export type Fields<A = unknown> = Readonly<Record<string, Values<A>>>

export const noText = [1, true, {}, [], "a\0b", "\ud800"]
export const noInteger = [1.5, "1", true, {}, [], 1e300]
export const noMoment = "tomorrow|2030-01-01|2030-01-01T00:00:00|2030-13-01T00:00:00Z|1969-12-31T23:59:59Z|".split("|")

/** Some of the fields with valid values. */
export const some = (dice: Dice, fields: Fields) =>
  Object.fromEntries(
    Object.entries(fields).flatMap(([name, { valid }]) => dice.chance(0.4) ? [[name, dice.pick(valid)]] : [])
  )

/** Each field with each value that breaks its rule. */
export const invalid = (fields: Fields): ReadonlyArray<readonly [name: string, value: unknown]> =>
  Object.entries(fields).flatMap(([name, { invalid }]) => invalid.map((value) => [name, value] as const))
