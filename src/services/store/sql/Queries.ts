/** Runs statements and decodes their rows. An outage of the database is a `StoreUnavailable`, any other fault a defect. */
import { PgTypes } from "@effect/sql-pg"
import { Array as Arr, Effect, Predicate, Result, Schema } from "effect"
import { SqlClient, SqlError } from "effect/sql"
import { StoreUnavailable } from "../../../domain/StoreUnavailable.ts"

/** SQLSTATEs of a server that shuts down, starts up, is read-only, is short of disk, memory or connections, or lacks the database. */
const isServerState = (cause: unknown) =>
  Predicate.hasProperty(cause, "code") && Predicate.isString(cause.code) &&
  /^(57P0[1-3]|25006|3D000|53\d{3})$/.test(cause.code)

/**
 * The statement timeout is far above what a healthy server needs: a statement that reaches it shows that the server hangs. A
 * lock timeout shows that another session holds the row for long; the caller may succeed later.
 */
const outages: ReadonlySet<string> = new Set([
  "AuthenticationError",
  "ConnectionError",
  "LockTimeoutError",
  "StatementTimeoutError"
])

/** A refused login is an outage whatever its SQLSTATE, which may be that of a fault in a statement. */
const isOutage = ({ reason }: SqlError.SqlError) =>
  outages.has(reason._tag) || reason.operation === "connect" || isServerState(reason.cause)

/** Whether a statement failed because another session held a row that it needs. */
export const isLockTimeout = ({ cause }: StoreUnavailable): boolean =>
  SqlError.isSqlError(cause) && cause.reason._tag === "LockTimeoutError"

export const failWhenUnavailable = <A, R>(effect: Effect.Effect<A, SqlError.SqlError, R>) =>
  Effect.catch(
    effect,
    (error) => isOutage(error) ? Effect.fail(new StoreUnavailable({ cause: error })) : Effect.die(error)
  )

/** The values of parameters: by their names, or in the order of `$1`, `$2` and so on. */
export type Values = ReadonlyArray<unknown> | Readonly<Record<string, unknown>>

export interface Statement {
  /** With `$1`, `$2` and so on. */
  readonly text: string
  readonly names: ReadonlyArray<string>
}

/** A statement whose parameters have names: `@limit` is bound to `values.limit`. */
export const statement = (text: string): Statement => {
  const names: Array<string> = []
  const numbered = text.replace(/(?<!\w)@([a-z]\w*)/gi, (_, name: string) => {
    if (!names.includes(name)) names.push(name)
    return `$${names.indexOf(name) + 1}`
  })
  return { text: numbered, names }
}

const inOrder = ({ names, text }: Statement, values: Values): ReadonlyArray<unknown> => {
  if (names.length === 0) return values as ReadonlyArray<unknown>
  const byName = values as Readonly<Record<string, unknown>>
  return names.map((name) => {
    if (!(name in byName)) throw new Error(`@${name} has no value in ${text}`)
    return byName[name]
  })
}

/** A statement with the decoder of its rows. Columns are named as the fields of the row. */
export interface Query<Row> extends Statement {
  /** Throws when a value is of another type. The checks of a schema, as that of an id, are those of the column. */
  readonly decode: (rows: unknown) => ReadonlyArray<Row>
}

export const query = <Row extends Schema.ConstraintDecoder<unknown>>(row: Row, text: string): Query<Row["Type"]> => ({
  ...statement(text),
  decode: Schema.decodeUnknownSync(Schema.Array(row), { disableChecks: true })
})

/** A bound array, whose type the driver cannot infer. */
export const array = (values: ReadonlyArray<unknown>, oid: number) => Result.getOrThrow(PgTypes.array(values, oid))

const Count = Schema.Struct({ count: Schema.Int })

/** A statement that returns one row with the column `count`. */
export const countQuery = (text: string) => query(Count, text)

/** Deletes rows that another node is not deleting, at most `@limit` of them, and counts them. */
export const deletionQuery = (table: string, condition: string) =>
  countQuery(
    `WITH expired AS (
      DELETE FROM ${table} WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM ${table} WHERE ${condition} LIMIT @limit::int FOR UPDATE SKIP LOCKED
      )) RETURNING 1
    ) SELECT count(*)::int AS count FROM expired`
  )

/** Epoch microseconds of a `timestamptz` expression: a `Timestamp`. */
export const micros = (expression: string) => `(extract(epoch FROM ${expression}) * 1000000)::float8`

/** The text of a bound UTF-8. */
export const fromUtf8 = (bound: string) => `convert_from(${bound}, 'UTF8')`

/** UTF-8 of a text, which spares the driver the conversion of a large one. */
export const utf8 = (text: string) => `convert_to(${text}, 'UTF8')`

/** The `timestamptz` of a bound `Timestamp`, exact until the year 2242; null stays null. */
export const moment = (placeholder: string) => `to_timestamp(${placeholder}::float8 / 1000000)`

/**
 * A parameter whose value the planner does not see. A plan for the values of one batch looks cheaper than one for any batch, so
 * Postgres would plan each statement anew, which can cost more than the statement.
 */
export const hidden = (parameter: string) => `(SELECT ${parameter})`

export const make = Effect.map(SqlClient.SqlClient, (sql) => {
  const run = (statement: Statement, values: Values) =>
    failWhenUnavailable(Effect.suspend(() => sql.unsafe(statement.text, inOrder(statement, values))))
  const rows = <Row>(query: Query<Row>, values: Values) => Effect.map(run(query, values), query.decode)

  return {
    rows,
    /** On a connection that no other statement shares meanwhile, for one that may take long. */
    alone: <Row>(query: Query<Row>, values: Values) =>
      Effect.map(
        failWhenUnavailable(Effect.scoped(Effect.flatMap(
          sql.reserve,
          (connection) => connection.execute(query.text, inOrder(query, values), undefined)
        ))),
        query.decode
      ),
    first: <Row>(query: Query<Row>, values: Values) => Effect.map(rows(query, values), Arr.head),
    count: (query: Query<typeof Count.Type>, values: Values) =>
      Effect.map(rows(query, values), ([row]) => row?.count ?? 0),
    /** Discards the rows. */
    execute: (statement: string | Statement, values: Values) =>
      Effect.asVoid(run(Predicate.isString(statement) ? { text: statement, names: [] } : statement, values))
  }
})
