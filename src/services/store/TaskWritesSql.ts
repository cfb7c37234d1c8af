/** Changes of tasks in Postgres. */
import { Effect, Layer } from "effect"
import { TaskEvent, TaskHead } from "../../domain/Task.ts"
import { IdempotencyKeyReused, TooManyActiveTasks } from "../../domain/TaskErrors.ts"
import * as Batcher from "./Batcher.ts"
import * as CommitBatcher from "./CommitBatcher.ts"
import * as CreateBatcher from "./CreateBatcher.ts"
import { make as makeQueries, moment, query } from "./Queries.ts"
import { headColumns } from "./TaskColumns.ts"
import { type IdempotencyClaim, type NewTask, TaskWrites } from "./TaskWrites.ts"

const startAcceptance = `UPDATE tasks SET acceptance_deadline_at = ${moment("$3")}
  WHERE uuid = $1 AND run_id = $2 AND status = 'pending' AND acceptance_deadline_at IS NULL`

const interrupted = query(TaskHead, `SELECT ${headColumns} FROM tasks WHERE sub = $1 AND status = 'interrupted'`)

export const layer = Layer.effect(
  TaskWrites,
  Effect.gen(function*() {
    const { execute, rows } = yield* makeQueries
    const insert = yield* CreateBatcher.make
    const commit = yield* CommitBatcher.make

    return TaskWrites.of({
      create: Effect.fnUntraced(function*(task: NewTask, maxActive: number, claim?: IdempotencyClaim) {
        const { outcome, taskId } = yield* insert(task, maxActive, claim)
        if (outcome === "too_many_active_tasks") return yield* new TooManyActiveTasks({ maximum: maxActive })
        if (outcome === "key_reused") return yield* new IdempotencyKeyReused({})
        return { taskId, isReplay: outcome === "replayed" }
      }),

      commit,

      cancelInterrupted: Effect.fnUntraced(function*(sub, at) {
        const event = TaskEvent.cases.Canceled.make({ reason: null })
        const commits = yield* Effect.forEach(
          yield* rows(interrupted, [sub]),
          ({ uuid }) => commit(uuid, event, at),
          { concurrency: Batcher.maxBatch }
        )
        return commits.flatMap((outcome) => outcome._tag === "Applied" ? [outcome.head] : [])
      }),

      startAcceptance: (uuid, runId, deadline) => execute(startAcceptance, [uuid, runId, deadline])
    })
  })
)
