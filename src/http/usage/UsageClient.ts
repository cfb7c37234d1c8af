/** Exports of `async-task-service/usage`: the Effect client of usage, what `include=usage` adds to a task, and the groups. */
import { Context, Effect, Layer, Option, Schema } from "effect"
import { HttpApiClient } from "effect/http-api"
import { makeHttp, type TaskServiceOptions } from "../client/EffectTaskClient.ts"
import { UsageApi } from "./UsageApi.ts"
import { TaskUsageView } from "./UsageSchemas.ts"

export { UsageApi } from "./UsageApi.ts"
export { UsageRpc } from "./UsageRpc.ts"

const make = Effect.fnUntraced(function*(options: TaskServiceOptions) {
  const { usage } = yield* HttpApiClient.makeWith(UsageApi, { httpClient: yield* makeHttp(options) })
  return {
    /** Consumption of the caller's tasks, by period and group. */
    get: (query: Parameters<typeof usage.read>[0]["query"] = {}) => usage.read({ query })
  }
})

export class UsageService extends Context.Service<UsageService, Effect.Success<ReturnType<typeof make>>>()(
  "async-task-service/http/usage/UsageClient/UsageService"
) {
  static readonly layer = (options: TaskServiceOptions) => Layer.effect(UsageService, make(options))
}

/** The field `usage` of a task that was read with `include=usage`; none without it. */
export const usageOf = (task: object) => Option.map(decode(task), ({ usage }) => usage)

const decode = Schema.decodeUnknownOption(Schema.Struct({ usage: TaskUsageView }))
