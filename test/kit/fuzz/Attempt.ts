/** One request of a fuzz run with its expected response, as plain data, so that a failing one can be printed. */
import { Arbitrary, Schema } from "effect"

/** The task of a request; its uuid and run id replace `{uuid}` and `{run_id}` in path and body. */
export type Target = "none" | "ended" | "processing" | "interrupted" | "fresh processing" | "fresh interrupted"

export interface Attempt {
  readonly target: Target
  /** The user whose token is sent, unless `headers` has one. A valid create counts against a maximum, so it has a new user. */
  readonly caller: "owner" | "newcomer" | "core"
  readonly method: string
  readonly path: string
  readonly headers?: Readonly<Record<string, string | ReadonlyArray<string>>>
  readonly body?: string | Uint8Array
  /** One of these statuses; a 422 names only `field`, and a list has `total` tasks. */
  readonly expected: { readonly statuses: ReadonlyArray<number>; readonly field?: string; readonly total?: number }
}

export interface Rule {
  /** The row in the table of responses. */
  readonly group: string
  readonly name: string
  /** How often this rule is tried while a rule without weight is tried once. */
  readonly weight?: number
  readonly attempts: Arbitrary.Arbitrary<Attempt>
}

export const answered = (...statuses: ReadonlyArray<number>): Attempt["expected"] => ({ statuses })

export const blaming = (field: string): Attempt["expected"] => ({ statuses: [422], field })

export const integerUpTo = (maximum: number) =>
  Arbitrary.schema(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum })))

export const oneOf = <A>(values: ReadonlyArray<A>): Arbitrary.Arbitrary<A> =>
  Arbitrary.map(integerUpTo(values.length - 1), (index) => values[index]!)
