/** The Effect client: typed errors, a stream of events, and tools as effects. */
import { Console, Effect, Layer, Redacted, Stream } from "effect"
import { FetchHttpClient } from "effect/http"
import { TaskService, ValidationFailed } from "../../src/http/client/EffectClient.ts" // async-task-service/client/effect

const program = Effect.gen(function*() {
  const { tasks } = yield* TaskService

  const { uuid } = yield* tasks.create({
    payload: { assistant_id: 1, input: [{ type: "text", text: "What is 6 * 7?" }] }
  })
  // Reconnects by itself and ends with the task.
  yield* tasks.events(uuid).pipe(Stream.runForEach(({ event }) => Console.log("event:", event)))

  const task = yield* tasks.run(
    {
      assistant_id: 2,
      input: [{ type: "text", text: "Call time." }],
      client_tools: [{ type: "function", name: "time" }]
    },
    { time: () => Effect.succeed("noon") }
  )
  yield* Console.log(task.status)

  // A refused request is a typed error with the broken fields.
  yield* tasks.create({ payload: { assistant_id: 1, input: [{ type: "text", text: "?" }], metadata: { a: "\0" } } })
    .pipe(
      Effect.catchIf(
        (error) => error instanceof ValidationFailed,
        ({ errors }) => Console.log("refused:", Object.keys(errors).join())
      )
    )
})

const layer = TaskService.layer({
  baseUrl: process.env["TASK_SERVICE_URL"] ?? "http://127.0.0.1:3000",
  token: Effect.succeed(Redacted.make(process.env["TASK_SERVICE_TOKEN"] ?? "")) // evaluated for each request
}).pipe(Layer.provide(FetchHttpClient.layer))

await Effect.runPromise(program.pipe(Effect.provide(layer)))
