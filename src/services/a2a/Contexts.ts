/** Tasks that were made over A2A, by their contexts: a context groups the tasks of one conversation. */
import { Context, Effect, Layer, Option, Schema } from "effect"
import type { StoreUnavailable } from "../../domain/StoreUnavailable.ts"
import { TaskId, type TaskStatus } from "../../domain/Task.ts"
import { Timestamp } from "../../domain/Timestamp.ts"
import type { UserData } from "../Extensions.ts"
import type { Tables } from "../store/schema/Migrations.ts"
import { make as makeQueries, micros, moment, query } from "../store/sql/Queries.ts"

/** Tasks of a user, or of a context, among which are searched: the newest. */
const searched = 1000

export const tables: Tables = {
  name: "a2a",
  migrations: [[
    `CREATE TABLE a2a_tasks (
      task_uuid uuid PRIMARY KEY REFERENCES tasks ON DELETE CASCADE,
      sub text NOT NULL,
      context_id text NOT NULL,
      message_id text NOT NULL,
      created_at timestamptz NOT NULL
    )`,
    `CREATE INDEX a2a_tasks_context ON a2a_tasks (sub, context_id, created_at DESC)`,
    `CREATE INDEX a2a_tasks_user ON a2a_tasks (sub, created_at DESC)`
  ]]
}

/** The rows go with their tasks. */
export const userData: UserData = {
  tables: [{
    table: "a2a_tasks",
    isOfUser: "sub = $1::text",
    exported: {
      type: "a2a_task",
      key: { task_uuid: "uuid" },
      fields: { task_uuid: "task_uuid", context_id: "context_id", message_id: "message_id" }
    }
  }]
}

export interface NewEntry {
  readonly uuid: TaskId
  /** Null begins a context, whose id is that of the task. */
  readonly contextId: string | null
  readonly messageId: string
}

/** The A2A side of a task. The ids are null for a task that was made in another way. */
const entry = {
  contextId: Schema.NullOr(Schema.String),
  /** The id of the message that made the task. */
  messageId: Schema.NullOr(Schema.String),
  /** When the task had the revision that was asked for. */
  changedAt: Schema.NullOr(Timestamp)
}
const Entry = Schema.Struct(entry)
export interface Entry extends Schema.Schema.Type<typeof Entry> {}

/** A task of a list, with the revision that it had. */
export interface Listed extends Entry, Position {
  readonly revision: number
  readonly changedAt: Timestamp
}

export interface Filter {
  readonly sub: string
  readonly contextId: string | null
  readonly status: TaskStatus | null
  /** Only tasks that changed in a later millisecond. */
  readonly changedAfter: Timestamp | null
  /** The last task of the page before. */
  readonly after: Position | null
  readonly limit: number
}

export const Position = Schema.Struct({ changedAt: Timestamp, uuid: TaskId })
export type Position = typeof Position.Type

/** Does nothing when the task is deleted meanwhile. */
const addEntry = `INSERT INTO a2a_tasks (task_uuid, sub, context_id, message_id, created_at)
  SELECT uuid, sub, coalesce($2::text, uuid::text), $3::text, created_at
  FROM tasks WHERE uuid = $1::uuid FOR KEY SHARE
  ON CONFLICT DO NOTHING`

const findEntry = query(
  Entry,
  `SELECT context_id AS "contextId", message_id AS "messageId", ${micros("occurred_at")} AS "changedAt"
  FROM (SELECT $1::uuid AS uuid) task
  LEFT JOIN a2a_tasks ON task_uuid = uuid
  LEFT JOIN task_events e ON e.task_uuid = uuid AND e.revision = $2::int`
)

const newestOf = (context: string) =>
  `newest AS (
    SELECT t.uuid, t.status, t.revision, t.created_at, a.context_id, a.message_id FROM a2a_tasks a JOIN tasks t ON t.uuid = a.task_uuid
    WHERE a.sub = $1::text AND ${context} ORDER BY a.created_at DESC LIMIT ${searched}
  )`

const findLast = query(
  Schema.Struct({ uuid: TaskId }),
  `WITH ${newestOf("a.context_id = $2::text")}
  SELECT uuid FROM newest WHERE status = 'completed' ORDER BY created_at DESC, uuid DESC LIMIT 1`
)

const listText = (context: string) =>
  `WITH ${newestOf(context)}, found AS (
    SELECT * FROM (
      SELECT newest.*, coalesce(e.occurred_at, newest.created_at) AS changed_at
      FROM newest LEFT JOIN task_events e ON e.task_uuid = uuid AND e.revision = newest.revision
    ) changed
    WHERE ($3::text IS NULL OR status = $3::text)
      AND ($4::float8 IS NULL OR date_trunc('milliseconds', changed_at) > ${moment("$4")})
  )
  SELECT total.count AS total, page.*
  FROM (SELECT count(*)::int AS count FROM found) total LEFT JOIN (
    SELECT uuid, revision, context_id AS "contextId", message_id AS "messageId", ${micros("changed_at")} AS "changedAt"
    FROM found
    WHERE $5::float8 IS NULL OR (changed_at, uuid) < (${moment("$5")}, $6::uuid)
    ORDER BY changed_at DESC, uuid DESC LIMIT $7::int
  ) page ON true
  ORDER BY page."changedAt" DESC, page.uuid DESC`

/** The only row has no task when no task is found. */
const Row = Schema.Struct({
  ...entry,
  total: Schema.Int,
  uuid: Schema.NullOr(TaskId),
  revision: Schema.NullOr(Schema.Int)
})
const listUser = query(Row, listText("$2::text IS NULL"))
const listContext = query(Row, listText("a.context_id = $2::text"))

export class Contexts extends Context.Service<Contexts, {
  /** Stores where a task belongs, once. */
  readonly add: (entry: NewEntry) => Effect.Effect<void, StoreUnavailable>
  readonly find: (uuid: TaskId, revision: number) => Effect.Effect<Entry, StoreUnavailable>
  /** The newest completed task of a context. */
  readonly lastCompleted: (sub: string, contextId: string) => Effect.Effect<TaskId | undefined, StoreUnavailable>
  /** A page of tasks, the last changed first, and how many there are. */
  readonly list: (filter: Filter) => Effect.Effect<
    { readonly total: number; readonly page: ReadonlyArray<Listed> },
    StoreUnavailable
  >
}>()("async-task-service/services/a2a/Contexts") {
  static readonly layerSql = Layer.effect(
    Contexts,
    Effect.map(makeQueries, ({ execute, first, rows }) =>
      Contexts.of({
        add: ({ contextId, messageId, uuid }) => execute(addEntry, [uuid, contextId, messageId]),
        find: (uuid, revision) =>
          Effect.map(
            first(findEntry, [uuid, revision]),
            Option.getOrElse(() => ({ contextId: null, messageId: null, changedAt: null }))
          ),
        lastCompleted: (sub, contextId) =>
          Effect.map(first(findLast, [sub, contextId]), (found) => Option.getOrUndefined(found)?.uuid),
        list: ({ after, changedAfter, contextId, limit, status, sub }) =>
          Effect.map(
            rows(contextId === null ? listUser : listContext, [
              sub,
              contextId,
              status,
              changedAfter,
              after?.changedAt ?? null,
              after?.uuid ?? null,
              limit
            ]),
            (found) => ({
              total: found[0]?.total ?? 0,
              page: found.flatMap(({ changedAt, revision, uuid, ...ids }) =>
                changedAt === null || revision === null || uuid === null ? [] : [{ ...ids, changedAt, revision, uuid }]
              )
            })
          )
      }))
  )
}
