/** Exports of `async-task-service/schedules`: the Effect client of schedules, and their groups of `HttpApi` and RPC. */
import { Context, Effect, Layer } from "effect"
import { HttpApiClient } from "effect/http-api"
import { makeHttp, type TaskServiceOptions } from "../client/EffectTaskClient.ts"
import { SchedulesApi } from "./SchedulesApi.ts"

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
