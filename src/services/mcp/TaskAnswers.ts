/** Answers to the calls of an interrupted task that come one by one, until all are there and are submitted together. */
import { Context, Effect, Layer, Schema } from "effect"
import * as Limits from "../../domain/Limits.ts"
import type { StoreUnavailable } from "../../domain/StoreUnavailable.ts"
import type { TaskId } from "../../domain/Task.ts"
import type { UserData } from "../Extensions.ts"
import type { Tables } from "../store/schema/Migrations.ts"
import { make as makeQueries, query } from "../store/sql/Queries.ts"

export const tables: Tables = {
  name: "mcp",
  migrations: [[
    `CREATE TABLE task_answers (
      task_uuid uuid NOT NULL REFERENCES tasks ON DELETE CASCADE,
      key text NOT NULL,
      answer text NOT NULL,
      PRIMARY KEY (task_uuid, key)
    )`
  ]]
}

export const userData: UserData = {
  tables: [],
  others: { task_answers: "waits for the last answer of an interrupt, and goes on to the core or with the task" }
}

/** The first answer to a key counts. All answers of a task together are as large as the body of one request may be. */
const addAnswer = `INSERT INTO task_answers (task_uuid, key, answer)
  SELECT uuid, $2::text, $3::text FROM tasks WHERE uuid = $1::uuid
    AND (SELECT coalesce(sum(octet_length(answer)), 0) FROM task_answers WHERE task_uuid = $1::uuid)
      + octet_length($3::text) <= ${Limits.jsonBodyBytes}
  FOR KEY SHARE ON CONFLICT DO NOTHING`

const findAnswers = query(
  Schema.Struct({ key: Schema.String, answer: Schema.String }),
  `SELECT key, answer FROM task_answers WHERE task_uuid = $1::uuid`
)

const deleteAnswers = `DELETE FROM task_answers WHERE task_uuid = $1::uuid AND key = ANY($2::text[])`

export class TaskAnswers extends Context.Service<TaskAnswers, {
  /** Stores an answer unless there is one, or the answers of the task would be too large. */
  readonly add: (taskId: TaskId, key: string, answer: string) => Effect.Effect<void, StoreUnavailable>
  /** The answers by their keys. */
  readonly find: (taskId: TaskId) => Effect.Effect<ReadonlyMap<string, string>, StoreUnavailable>
  readonly delete: (taskId: TaskId, keys: ReadonlyArray<string>) => Effect.Effect<void, StoreUnavailable>
}>()("async-task-service/services/mcp/TaskAnswers") {
  static readonly layerSql = Layer.effect(
    TaskAnswers,
    Effect.map(makeQueries, ({ execute, rows }) =>
      TaskAnswers.of({
        add: (taskId, key, answer) => execute(addAnswer, [taskId, key, answer]),
        find: (taskId) =>
          Effect.map(
            rows(findAnswers, [taskId]),
            (found) => new Map(found.map(({ answer, key }) => [key, answer]))
          ),
        delete: (taskId, keys) => execute(deleteAnswers, [taskId, keys])
      }))
  )
}
