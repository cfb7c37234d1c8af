import { TaskService } from "async-task-service/client/effect"
import * as Rpc from "async-task-service/rpc"
import { Effect, Layer, Redacted, Stream } from "effect"
import { FetchHttpClient } from "effect/http"

declare const process: { readonly env: Readonly<Record<string, string>> }
declare const console: { log(...what: ReadonlyArray<unknown>): void }

const url = process.env["SERVICE_URL"]!
const user_token = process.env["TOKEN"]!
const input = [{ type: "text", text: "What is 6 * 7?" }] as const

const program = Effect.gen(function*() {
  const { tasks } = yield* TaskService
  const task = yield* tasks.run({ assistant_id: 1, input })
  const client = yield* Rpc.make
  const { uuid } = yield* client["Tasks.create"]({ sub: "stranger", user_token, task: { assistant_id: 1, input } })
  const events = yield* Stream.runCollect(Rpc.follow(client, { sub: "stranger", uuid }))
  const missing = yield* client["Tasks.get"]({ sub: "stranger", uuid: "none" }).pipe(
    Effect.catchTag("TaskNotFound", (error) => Effect.succeed(error.message))
  )
  console.log(task.status, events.at(-1)?.status, missing)
})

const layer = Layer.mergeAll(
  TaskService.layer({ baseUrl: url, token: Effect.succeed(Redacted.make(user_token)) }),
  Rpc.layerHttp({ url, token: Redacted.make(process.env["INTERNAL_TOKEN"]!) })
).pipe(Layer.provide(FetchHttpClient.layer))

await Effect.runPromise(program.pipe(Effect.scoped, Effect.provide(layer)))
