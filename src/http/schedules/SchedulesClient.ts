/** Exports of `async-task-service/schedules`: the Effect client of schedules, and their groups of `HttpApi` and RPC. */
import { Context, Effect, Layer, Option, Schema } from "effect"
import { HttpApiClient } from "effect/http-api"
import { makeHttp, type TaskServiceOptions } from "../client/EffectTaskClient.ts"
import { SchedulesApi } from "./SchedulesApi.ts"
import { TaskScheduleView } from "./ScheduleSchemas.ts"

export * from "../../services/schedules/ScheduleErrors.ts"
export { PreconditionFailed, SchedulesApi } from "./SchedulesApi.ts"
export { SchedulesRpc } from "./SchedulesRpc.ts"

const make = Effect.fnUntraced(function*(options: TaskServiceOptions) {
  const httpClient = yield* makeHttp(options)
  return yield* HttpApiClient.makeWith(SchedulesApi, { httpClient })
})

/** `schedules` has the calls of the `HttpApi`, which are retried as those of `TaskService`. */
export class ScheduleService extends Context.Service<ScheduleService, Effect.Success<ReturnType<typeof make>>>()(
  "async-task-service/http/schedules/SchedulesClient/ScheduleService"
) {
  static readonly layer = (options: TaskServiceOptions) => Layer.effect(ScheduleService, make(options))
}

/** The field `schedule` of a task that was read with `include=schedule`; none without it. */
export const scheduleOf = (task: object) => Option.map(decode(task), ({ schedule }) => schedule)

const decode = Schema.decodeUnknownOption(Schema.Struct({ schedule: TaskScheduleView }))
