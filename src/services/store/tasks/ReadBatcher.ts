/** Reads of single tasks that share a statement. Every statement reads the rows again, so that no answer is older than its request. */
import { Effect, Option, Schema } from "effect"
import { FromBytes, OpaqueJson } from "../../../domain/json/OpaqueJson.ts"
import type { StoreUnavailable } from "../../../domain/StoreUnavailable.ts"
import { TaskHead, type TaskId, TaskSummary } from "../../../domain/Task.ts"
import * as Batcher from "../sql/Batcher.ts"
import { hidden, make as makeQueries, query, utf8 } from "../sql/Queries.ts"
import { headColumns, taskColumns } from "./TaskColumns.ts"

/** Bytes. A task with a larger turn is read alone, so that a batch stays small. */
const largeTurn = 65_536

/**
 * Turns of the event loop in which reads gather. Changes that arrive meanwhile are sent first, so that a client that polls
 * often gets the new state one request earlier. On an idle node four turns take microseconds.
 */
const turns = 4

/** `LIMIT 1` makes the planner look up each id in the index, whatever it knows about the tables. */
const select = (columns: string, tables: string) =>
  `SELECT found.* FROM unnest(${hidden("$1::uuid[]")}) AS wanted (id)
  CROSS JOIN LATERAL (SELECT ${columns} FROM ${tables} WHERE uuid = wanted.id LIMIT 1) AS found`

export const headsById = query(TaskHead, select(headColumns, "tasks"))

const tasksById = (turn: Schema.Codec<OpaqueJson, string | Uint8Array>, selected: string) =>
  query(
    Schema.Struct({
      ...TaskSummary.fields,
      ...TaskHead.fields,
      turn: Schema.NullOr(turn),
      turnBytes: Schema.Int
    }),
    select(
      `${taskColumns}, ${selected} AS turn,
      coalesce(octet_length(turn), 0) AS "turnBytes"`,
      "tasks LEFT JOIN task_turns ON task_uuid = uuid"
    )
  )

export const withSmallTurns = tasksById(OpaqueJson, `CASE WHEN octet_length(turn) <= ${largeTurn} THEN turn END`)
const withTurns = tasksById(FromBytes, utf8("turn"))

interface Read {
  readonly uuid: TaskId
}

const makeRead = <Row extends Read>(
  select: (uuids: ReadonlyArray<TaskId>) => Effect.Effect<ReadonlyArray<Row>, StoreUnavailable>
) =>
  Effect.map(
    Batcher.make({
      turns,
      run: (reads: ReadonlyArray<Read>) =>
        Effect.map(select([...new Set(reads.map(({ uuid }) => uuid))]), (rows) => {
          const found = new Map<string, Row>(rows.map((row) => [row.uuid, row]))
          // The database writes ids in lower case.
          return reads.map(({ uuid }) => Option.fromNullishOr(found.get(uuid.toLowerCase())))
        })
    }),
    (read) => (uuid: TaskId) => read({ uuid })
  )

export const make = Effect.gen(function*() {
  const { first, rows } = yield* makeQueries
  const head = yield* makeRead((uuids) => rows(headsById, [uuids]))
  const outline = yield* makeRead((uuids) => rows(withSmallTurns, [uuids]))

  const get = Effect.fnUntraced(function*(uuid: TaskId) {
    const small = yield* outline(uuid)
    const found = Option.isSome(small) && small.value.turnBytes > largeTurn
      ? yield* first(withTurns, [[uuid]])
      : small
    return Option.map(found, (row) => {
      const { turnBytes: _, ...task } = row
      return task
    })
  })
  return { get, head, outline }
})
