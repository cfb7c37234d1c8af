/** One request of a fuzz run as plain data, so that a failing one prints itself, and what CONTRACT 2 says its answer is. */
import { Arbitrary, Schema } from "effect"

/** The task that a request is about; its uuid and run id stand for `{uuid}` and `{run_id}` in path and body. */
export type Target = "none" | "ended" | "processing" | "interrupted" | "fresh processing" | "fresh interrupted"

export interface Attempt {
  readonly target: Target
  /** Whose token goes with it, unless `headers` has one: a valid create takes a slot, so it comes from a new user. */
  readonly caller: "owner" | "newcomer" | "core"
  readonly method: string
  readonly path: string
  readonly headers?: Readonly<Record<string, string | ReadonlyArray<string>>>
  readonly body?: string | Uint8Array
  /** Any of these statuses; a 422 blames `field` and nothing else, and a list has `total` tasks. */
  readonly expected: { readonly statuses: ReadonlyArray<number>; readonly field?: string; readonly total?: number }
}

export interface Rule {
  /** What is asked, for the table of answers. */
  readonly group: string
  readonly name: string
  /** How often it is tried, where another rule is tried once. */
  readonly weight?: number
  readonly attempts: Arbitrary.Arbitrary<Attempt>
}

export const answered = (...statuses: ReadonlyArray<number>): Attempt["expected"] => ({ statuses })

export const blaming = (field: string): Attempt["expected"] => ({ statuses: [422], field })

export const integerUpTo = (maximum: number) =>
  Arbitrary.schema(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum })))

export const oneOf = <A>(values: ReadonlyArray<A>): Arbitrary.Arbitrary<A> =>
  Arbitrary.map(integerUpTo(values.length - 1), (index) => values[index]!)
