/** Runs statements and decodes their rows. An outage of the database is a `StoreUnavailable`, any other fault a defect. */
import { PgTypes } from "@effect/sql-pg"
import { Array as Arr, Effect, Predicate, Result, Schema } from "effect"
import { SqlClient, SqlError } from "effect/sql"
import { StoreUnavailable } from "../../../domain/StoreUnavailable.ts"
import { monotonicMillis } from "../../../domain/Timestamp.ts"

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

/** A statement with the decoder of its rows. Columns are named as the fields of the row. */
export interface Query<Row> {
  readonly text: string
  /** Throws when a row is not as expected. */
  readonly decode: (rows: unknown) => ReadonlyArray<Row>
}

export const query = <Row extends Schema.ConstraintDecoder<unknown>>(row: Row, text: string): Query<Row["Type"]> => ({
  text,
  decode: Schema.decodeUnknownSync(Schema.Array(row))
})

/** A bound array, whose type the driver cannot infer. */
export const array = (values: ReadonlyArray<unknown>, oid: number) => Result.getOrThrow(PgTypes.array(values, oid))

const Count = Schema.Struct({ count: Schema.Int })

/** A statement that returns one row with the column `count`. */
export const countQuery = (text: string) => query(Count, text)

/** Deletes rows that another node is not deleting, at most `$2` of them, and counts them. */
export const deletionQuery = (table: string, condition: string) =>
  countQuery(
    `WITH expired AS (
      DELETE FROM ${table} WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM ${table} WHERE ${condition} LIMIT $2::int FOR UPDATE SKIP LOCKED
      )) RETURNING 1
    ) SELECT count(*)::int AS count FROM expired`
  )

/** Epoch microseconds of a `timestamptz` expression: a `Timestamp`. */
export const micros = (expression: string) => `(extract(epoch FROM ${expression}) * 1000000)::float8`

/** The text of a bound UTF-8. */
export const fromUtf8 = (bound: string) => `convert_from(${bound}, 'UTF8')`

/** Bytes of a long text that are sent together at first: the driver copies what it sends three times in one turn of the event loop. */
const pieceBytes = 1024 * 1024
/** Milliseconds for a piece after which the next one is twice as long: a piece costs a distant database a round trip. */
const slowPiece = 100
/** A longer piece was worth it if as many times more bytes a second were sent. It is not where the bandwidth is what limits. */
const gain = 1.5

/** UTF-8 of long texts by the name of their parameter, which is null. They are sent in pieces, as settings of the statement's transaction. */
export type LongTexts = Readonly<Record<string, Uint8Array>>

export const isLong = (value: unknown): value is Uint8Array => value instanceof Uint8Array && value.length > pieceBytes

const settingOf = (name: string) => `task_text.${name}`

/** The SQL of a long text; null if none was sent. */
export const joined = (name: string) =>
  `(SELECT string_agg(current_setting('${settingOf(name)}_' || piece), '' ORDER BY piece)
    FROM generate_series(1, nullif(current_setting('${settingOf(name)}', true), '')::int) AS piece)`

/**
 * A row source of a statement with long texts: from then on Postgres waits 4 s for the COMMIT. Other statements wait for its locks for
 * 5 s, so that they succeed when its node stalls. Set before, it would also limit the time that the statement takes to arrive.
 */
export const commitsSoon = "set_config('idle_in_transaction_session_timeout', '4000', true)"

const isInsideCharacter = (byte: number | undefined) => byte !== undefined && (byte & 0xc0) === 0x80

/** The first bytes of a text: `most` at most, and whole characters. */
const pieceOf = (bytes: Uint8Array, most: number) => {
  let end = Math.min(most, bytes.length)
  while (end > 1 && isInsideCharacter(bytes[end])) end--
  return bytes.subarray(0, end)
}

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
  const run = (text: string, values: ReadonlyArray<unknown>) => failWhenUnavailable(sql.unsafe(text, values))
  const rows = <Row>({ decode, text }: Query<Row>, values: ReadonlyArray<unknown>) =>
    Effect.map(run(text, values), decode)

  const send = Effect.fnUntraced(function*(name: string, bytes: Uint8Array) {
    const setting = settingOf(name)
    let pieces = 0
    let size = pieceBytes
    let bytesPerMilli = 0
    for (let sent = 0; sent < bytes.length;) {
      const piece = pieceOf(bytes.subarray(sent), size)
      const begun = yield* monotonicMillis
      yield* sql.unsafe(`SELECT set_config($1, ${fromUtf8("$2")}, true) IS NULL`, [`${setting}_${++pieces}`, piece])
      const took = (yield* monotonicMillis) - begun
      if (took > slowPiece && piece.length / took > gain * bytesPerMilli) size *= 2
      bytesPerMilli = piece.length / took
      sent += piece.length
    }
    yield* sql.unsafe(`SELECT set_config($1, $2, true)`, [setting, String(pieces)])
  })
  const rowsAfter = <Row>({ decode, text }: Query<Row>, values: ReadonlyArray<unknown>, texts: LongTexts) =>
    Effect.forEach(Object.entries(texts), ([name, bytes]) => send(name, bytes), { discard: true }).pipe(
      Effect.andThen(sql.unsafe(text, values)),
      sql.withTransaction,
      // The ROLLBACK of a lost connection fails as a defect.
      Effect.catchDefect((defect) => SqlError.isSqlError(defect) ? Effect.fail(defect) : Effect.die(defect)),
      failWhenUnavailable,
      Effect.map(decode)
    )

  return {
    /** Runs a statement that may have long texts. */
    rows: <Row>(query: Query<Row>, values: ReadonlyArray<unknown>, texts: LongTexts = {}) =>
      Object.keys(texts).length === 0 ? rows(query, values) : rowsAfter(query, values, texts),
    /** On a connection that no other statement shares meanwhile, for one that may take long. */
    alone: <Row>({ decode, text }: Query<Row>, values: ReadonlyArray<unknown>) =>
      Effect.map(
        failWhenUnavailable(
          Effect.scoped(Effect.flatMap(sql.reserve, (connection) => connection.execute(text, values, undefined)))
        ),
        decode
      ),
    first: <Row>(query: Query<Row>, values: ReadonlyArray<unknown>) => Effect.map(rows(query, values), Arr.head),
    count: (query: Query<typeof Count.Type>, values: ReadonlyArray<unknown>) =>
      Effect.map(rows(query, values), ([row]) => row?.count ?? 0),
    /** Discards the rows. */
    execute: (text: string, values: ReadonlyArray<unknown>) => Effect.asVoid(run(text, values))
  }
})
