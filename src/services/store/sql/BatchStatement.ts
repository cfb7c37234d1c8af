/** A statement that calls a function of the database with a batch of rows: an array for each of its arguments. */
import { PgTypes } from "@effect/sql-pg"
import { Result, type Schema } from "effect"
import { encode, type OpaqueJson } from "../../../domain/json/OpaqueJson.ts"
import type { Timestamp } from "../../../domain/Timestamp.ts"
import { fromUtf8, hidden, moment as momentOf, query } from "./Queries.ts"

type Of<Row, A> = (row: Row) => A | null | undefined

export interface Parameter<Row> {
  readonly oid: number
  readonly of: Of<Row, string | number | boolean | Uint8Array>
  /** The SQL that converts a bound value to an element of the argument. */
  readonly as?: (bound: string) => string
}

const { OID } = PgTypes

export const bool = <Row>(of: Of<Row, boolean>): Parameter<Row> => ({ oid: OID.bool, of })
export const int4 = <Row>(of: Of<Row, number>): Parameter<Row> => ({ oid: OID.int4, of })
export const text = <Row>(of: Of<Row, string>): Parameter<Row> => ({ oid: OID.text, of })
export const uuid = <Row>(of: Of<Row, string>): Parameter<Row> => ({ oid: OID.uuid, of })

/** JSON that may be large: bound as text in a batch of small rows, and as UTF-8 in the statement of a large row. */
export const json = <Row>(of: Of<Row, OpaqueJson>): Parameter<Row> => ({ oid: OID.bytea, of })

export const moment = <Row>(of: Of<Row, Timestamp>): Parameter<Row> => ({ oid: OID.float8, of, as: momentOf })

/** A moment in seconds, as in a token. */
export const seconds = <Row>(of: Of<Row, number>): Parameter<Row> => ({
  oid: OID.float8,
  of,
  as: (bound) => `to_timestamp(${bound})`
})

/** The value of a row as it is bound. The driver copies a text, but not bytes. */
const bound = (value: ReturnType<Parameter<never>["of"]>, oid: number) =>
  oid === OID.bytea && typeof value === "string" ? encode(value) : value ?? null

/** The parameters of a function, by their names there without `p_`. A release may add some: they have defaults. */
export type Parameters<Row> = Readonly<Record<string, Parameter<Row>>>

const build = <Row>(call: string, columns: string, parameters: Parameters<Row>, isBytes: boolean) => {
  const all = Object.entries(parameters).map(([name, { as, of, oid }]) => ({
    name: `p_${name}`,
    of,
    oid: oid === OID.bytea && !isBytes ? OID.text : oid,
    as: oid === OID.bytea && isBytes ? fromUtf8 : as
  }))
  // Large parameters are bound last: the driver copies its buffer when it grows for a later one.
  const ordered = all.toSorted((one, other) => Number(one.oid === OID.bytea) - Number(other.oid === OID.bytea))
  const argument = ({ as, name }: typeof all[number], index: number) => {
    const values = `$${index + 1}`
    return `${name} => ${
      as === undefined ? values : `ARRAY(SELECT ${as("value")} FROM unnest(${hidden(values)}) AS value)`
    }`
  }
  return {
    sql: `SELECT ${columns} FROM ${call}(${ordered.map(argument).join(", ")}) AS called`,
    bind: (rows: ReadonlyArray<Row>) =>
      ordered.map(({ of, oid }) => Result.getOrThrow(PgTypes.array(rows.map((row) => bound(of(row), oid)), oid)))
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
    const { bind, sql } = build(call, columns, parameters, isLarge)
    return { ...query(outcome, sql), bind }
  }
  const ofTexts = statement(false)
  // Postgres needs half as much again for a text that it decodes; the driver needs less for one that is encoded already.
  const ofBytes = statement(true)
  return (isLarge: boolean) => isLarge ? ofBytes : ofTexts
}
