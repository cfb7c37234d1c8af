/** Another service creates a task on behalf of a user and watches it, over the internal interface. */
import { Console, Effect, Layer, Redacted, Stream } from "effect"
import { FetchHttpClient } from "effect/http"
import * as RpcClient from "../../src/http/client/Rpc.ts" // async-task-service/rpc

const sub = process.env["TASK_SERVICE_USER"] ?? "developer"
const user_token = process.env["TASK_SERVICE_TOKEN"] ?? "" // a valid token of that user, for the assistant backend

const program = Effect.gen(function*() {
  const client = yield* RpcClient.make

  const { uuid } = yield* client["Tasks.create"]({
    sub,
    user_token,
    task: { assistant_id: 1, input: [{ type: "text", text: "What is 6 * 7?" }] }
  })
  // Resumes after a broken connection and ends with the task.
  yield* RpcClient.follow(client, { sub, uuid }).pipe(Stream.runForEach(({ event }) => Console.log("event:", event)))

  // Failures are typed and have a tag.
  yield* client["Tasks.cancel"]({ sub, uuid }).pipe(
    Effect.catchTag("TaskNotInterrupted", ({ message }) => Console.log("refused:", message))
  )
})

const layer = RpcClient.layerHttp({
  url: process.env["TASK_SERVICE_URL"] ?? "http://127.0.0.1:3000",
  token: Redacted.make(process.env["INTERNAL_TOKEN"] ?? "") // one of INTERNAL_TOKENS
}).pipe(Layer.provideMerge(FetchHttpClient.layer))

await Effect.runPromise(program.pipe(Effect.scoped, Effect.provide(layer)))
