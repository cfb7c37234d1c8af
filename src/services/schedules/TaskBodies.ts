/** Reads the stored body of a task by the rules of `POST /api/tasks`, which may be stricter than when it was stored. */
import { Context, type Effect, Schema } from "effect"
import type { CreateTask } from "../../domain/TaskRequest.ts"

export class TaskBodyRefused extends Schema.TaggedError<TaskBodyRefused>()("TaskBodyRefused", {
  message: Schema.String
}) {}

export class TaskBodies extends Context.Service<TaskBodies, {
  readonly decode: (body: string) => Effect.Effect<CreateTask, TaskBodyRefused>
}>()("async-task-service/services/schedules/TaskBodies") {}
