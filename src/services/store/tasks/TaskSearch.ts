/** Excerpts of a user's tasks, and the search in them, in ids and in metadata. It examines a bounded number of the user's newest tasks. */
import { Effect, Schema } from "effect"
import * as Excerpt from "../../../domain/Excerpt.ts"
import { TaskId } from "../../../domain/Task.ts"
import * as FairPermits from "../../limits/FairPermits.ts"
import { make as makeQueries, moment, query } from "../sql/Queries.ts"
import type { TaskSearched } from "./TaskStore.ts"

/** The newest tasks whose ids and metadata are searched, and those whose excerpts are. */
const searchedTasks = 10_000
const searchedExcerpts = 1000
/** The newest that match, of each of both. */
const found = 1000

/** Searches at a time, fairly between users, each on a connection alone: with the largest metadata one takes a second. */
const permits = { total: 2, perHolder: 1 }

/** A pattern of ids that a text of four characters is a part of, also in a short form such as `01920000…abcd`; null when it is of none. */
export const idPattern = (text: string): string | null =>
  /^[0-9a-f-]{4,}((…|\.{3})[0-9a-f]*)?$/i.test(text) ? `%${text.toLowerCase().replace(/…|\.{3}/, "%")}%` : null

/** A task that repeats another one has the input of that. */
const requestOf = (uuid: string) =>
  `(SELECT CASE WHEN left(own.request, 12) = '{"repeats":"' AND strpos(left(own.request, ${Excerpt.readLength}), '"input":') = 0
      THEN (SELECT left(request, ${Excerpt.readLength}) FROM task_requests WHERE task_uuid = substr(own.request, 13, 36)::uuid)
      ELSE left(own.request, ${Excerpt.readLength}) END
    FROM task_requests own WHERE own.task_uuid = ${uuid})`

const Row = Schema.Struct({ uuid: TaskId, request: Schema.NullOr(Schema.String) })

const order = "ORDER BY created_at DESC, uuid DESC"

/**
 * The newest tasks of a user in the range of `$2` to `$3`, and of them those of the assistant `$4` and the statuses `$5`. The bound
 * holds before the choice.
 */
const newest = `(SELECT created_at, uuid FROM (
    SELECT created_at, uuid, assistant_id, status FROM tasks WHERE sub = $1
      AND created_at >= coalesce(${moment("$2")}, '-infinity') AND created_at < coalesce(${moment("$3")}, 'infinity')
    ${order} LIMIT ${searchedTasks}
  ) AS ranged WHERE ($4::float8 IS NULL OR assistant_id = $4::float8)
    AND ($5::text[] IS NULL OR status = ANY ($5::text[]))) AS own`

const assistantOf = query(
  Schema.Struct({ uuid: TaskId, assistantId: Schema.NullOr(Schema.Finite) }),
  `SELECT uuid, assistant_id::float8 AS "assistantId" FROM tasks WHERE sub = $1 AND uuid = ANY($2::uuid[])`
)

const requests = query(
  Row,
  `SELECT uuid, ${requestOf("uuid")} AS request FROM tasks WHERE sub = $1 AND uuid = ANY($2::uuid[])`
)

const newestRequests = query(
  Row,
  `SELECT uuid, ${
    requestOf("uuid")
  } AS request FROM (SELECT uuid FROM ${newest} ${order} LIMIT ${searchedExcerpts}) AS newest`
)

const named = query(
  Schema.Struct({ uuid: TaskId }),
  `WITH own AS MATERIALIZED (SELECT created_at, uuid FROM ${newest})
  SELECT uuid FROM own WHERE uuid::text LIKE $6::text OR EXISTS (
    SELECT FROM task_metadata, jsonb_each_text(metadata) AS pair (key, value)
    WHERE task_uuid = uuid AND strpos(lower(concat(key, ': ', value)), lower($7::text)) > 0
  ) ${order} LIMIT ${found}`
)

const excerptsOf = (rows: ReadonlyArray<typeof Row.Type>): ReadonlyMap<TaskId, string> =>
  new Map(rows.flatMap(({ request, uuid }) => {
    const excerpt = request === null ? null : Excerpt.of(request)
    return excerpt === null ? [] : [[uuid, excerpt]]
  }))

/** The tasks whose excerpt has a text in it, whatever the case. */
export const matchesIn = (excerpts: ReadonlyMap<TaskId, string>, text: string): ReadonlyArray<TaskId> => {
  const wanted = text.toLowerCase()
  return [...excerpts].flatMap(([uuid, excerpt]) => excerpt.toLowerCase().includes(wanted) ? [uuid] : [])
}

export const make = Effect.map(makeQueries, ({ alone, rows }) => {
  const searching = FairPermits.make(permits)
  return {
    assistants: (sub: string, uuids: ReadonlyArray<TaskId>) =>
      Effect.map(
        rows(assistantOf, [sub, uuids]),
        (found) => new Map(found.map(({ assistantId, uuid }) => [uuid, assistantId]))
      ),
    excerpts: (sub: string, uuids: ReadonlyArray<TaskId>) => Effect.map(rows(requests, [sub, uuids]), excerptsOf),
    search: Effect.fnUntraced(function*(sub: string, { assistantId, from, statuses, text, to }: TaskSearched) {
      yield* searching.take(sub, 1)
      const own = [sub, from, to, assistantId, statuses.length === 0 ? null : statuses]
      const byName = yield* alone(named, [...own, idPattern(text), text])
      const byText = matchesIn(excerptsOf(yield* alone(newestRequests, own)), text)
      return [...new Set([...byName.map(({ uuid }) => uuid), ...byText])]
    }, Effect.scoped)
  }
})
