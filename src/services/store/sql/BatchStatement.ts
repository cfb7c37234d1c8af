/** A statement that calls a function of the database with a batch of rows: an array for each of its arguments. */
import { PgTypes } from "@effect/sql-pg"
import { Effect, Result, type Schema } from "effect"
import type { Timestamp } from "../../../domain/Timestamp.ts"
import { fromUtf8, hidden, moment as momentOf, query } from "./Queries.ts"

/** A text that may be large: UTF-8 if its row is large. */
export type LargeText = string | Uint8Array | null

export interface Parameter<Row> {
  readonly oid: number
  readonly of: (row: Row) => string | number | boolean | Uint8Array | null | undefined
  /** The SQL that converts a bound value to an element of the argument. */
  readonly as?: (bound: string) => string
}

const { bytea, float8, text } = PgTypes.OID

/** Length of the texts of a row. A row that is large has a statement of its own, so that batches stay small. */
export const lengthOf = (texts: ReadonlyArray<LargeText | undefined>): number => {
  let length = 0
  for (const text of texts) length += text?.length ?? 0
  return length
}

const encoder = new TextEncoder()

/** Characters of a text that is encoded in a turn of its own: 16 MiB take about ten milliseconds. */
const longText = 1024 * 1024

/** Yields twice: a fiber that runs while the event loop receives data continues after one yield within the same turn of the loop. */
const nextTurn = Effect.andThen(Effect.yieldNow, Effect.yieldNow)

const toUtf8 = (text: string): Effect.Effect<Uint8Array> => {
  const encoding = Effect.sync(() => encoder.encode(text))
  return text.length < longText ? encoding : Effect.andThen(nextTurn, encoding)
}

/** Encodes the text of a large row, which spares the driver a copy; the text of a small row stays as it is. */
export const encode = (text: LargeText | undefined, isLargeRow: boolean): Effect.Effect<LargeText> =>
  isLargeRow && typeof text === "string" ? toUtf8(text) : Effect.succeed(text ?? null)

/** A `LargeText`: bound as text in a batch of small rows, and as bytes in the statement of a large row. */
export const largeText = <Row>(of: (row: Row) => LargeText): Parameter<Row> => ({ oid: bytea, of })

export const moment = <Row>(of: (row: Row) => Timestamp | null): Parameter<Row> => ({ oid: float8, of, as: momentOf })

/** A moment in seconds, as in a token. */
export const seconds = <Row>(of: (row: Row) => number | null | undefined): Parameter<Row> => ({
  oid: float8,
  of,
  as: (bound) => `to_timestamp(${bound})`
})

/** The parameters of a function, by their names there without `p_`. A release may add some: they have defaults. */
export type Parameters<Row> = Readonly<Record<string, Parameter<Row>>>

const build = <Row>(call: string, columns: string, parameters: Parameters<Row>, isBytes: boolean) => {
  const all = Object.entries(parameters).map(([name, { as, of, oid }]) => ({
    name: `p_${name}`,
    of,
    oid: oid === bytea && !isBytes ? text : oid,
    as: oid === bytea && isBytes ? fromUtf8 : as
  }))
  // Large parameters are bound last: the driver copies its buffer when it grows for a later one.
  const bound = all.toSorted((one, other) => Number(one.oid === bytea) - Number(other.oid === bytea))
  const argument = ({ as, name }: typeof all[number], index: number) => {
    const values = `$${index + 1}`
    return `${name} => ${
      as === undefined ? values : `ARRAY(SELECT ${as("value")} FROM unnest(${hidden(values)}) AS value)`
    }`
  }
  return {
    text: `SELECT ${columns} FROM ${call}(${bound.map(argument).join(", ")}) AS called`,
    bind: (rows: ReadonlyArray<Row>) =>
      bound.map(({ of, oid }) => Result.getOrThrow(PgTypes.array(rows.map((row) => of(row) ?? null), oid)))
  }
}

/** The statement that calls `call`, whose arguments are `parameters`, and decodes `columns` of what it returns. */
export const make = <Row, Outcome extends Schema.ConstraintDecoder<unknown>>(
  outcome: Outcome,
  call: string,
  columns: string,
  parameters: Parameters<Row>
) => {
  const statement = (isLarge: boolean) => {
    const { text, ...built } = build(call, columns, parameters, isLarge)
    return { ...query(outcome, text), ...built }
  }
  const ofTexts = statement(false)
  // Postgres needs half as much again for a text that it decodes; the driver needs less for one that is encoded already.
  const ofBytes = statement(true)
  return (isLarge: boolean) => isLarge ? ofBytes : ofTexts
}
