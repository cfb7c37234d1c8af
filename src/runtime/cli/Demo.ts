/** Walks through the main features step by step with the Promise client, as a client app would use it. */
import { Console, Deferred, Effect, Layer, Logger, References, Stream } from "effect"
import { FetchHttpClient, HttpClient } from "effect/http"
import { randomBytes } from "node:crypto"
import { createServer, type IncomingMessage } from "node:http"
import * as path from "node:path"
import { buffer } from "node:stream/consumers"
import { TaskServiceClient } from "../../http/client/promise/TaskServiceClient.ts"
import type { Task } from "../../http/client/promise/Types.ts"
import { verifyWebhook } from "../../http/client/Webhooks.ts"
import * as App from "../App.ts"
import * as AppConfig from "../config/AppConfig.ts"
import * as TokenKeys from "../config/TokenKeys.ts"
import { freePort, portOf } from "../node/LocalPort.ts"
import { asFailure, environment, failed, textOf } from "./Root.ts"

const step = (title: string) => Console.log(`\n— ${title}`)
const log = (text: string) => Console.log(`  ${text}`)

const listen = (handler: (request: IncomingMessage) => Promise<number>) =>
  Effect.acquireRelease(
    Effect.callback<ReturnType<typeof createServer>>((resume) => {
      const server = createServer((request, response) =>
        handler(request).then((status) => response.writeHead(status).end())
      )
      server.listen(0, "127.0.0.1", () => resume(Effect.succeed(server)))
    }),
    (server) => Effect.sync(() => server.close())
  )

/** Starts a temporary service that stops with the demo. */
const start = Effect.gen(function*() {
  // Later demos reuse the database in this directory, because its creation takes most of the time.
  const dataDir = path.resolve((yield* environment)["DATA_DIR"] ?? ".data", "demo")
  const config = yield* AppConfig.load({ PATH: process.env["PATH"], PORT: String(yield* freePort), DATA_DIR: dataDir })
  yield* Layer.build(App.layer(config)).pipe(
    Effect.provideService(References.MinimumLogLevel, "Warn"),
    Effect.provide(Logger.layer([Logger.consolePretty()]))
  )
  if (config.developmentSecret === undefined) return yield* failed("The demo requires a development key")
  return { url: config.publicUrl, token: yield* TokenKeys.mint(config.developmentSecret) }
})

/** The storage path of the first image in a turn. */
const imageOf = (turn: Task["turn"]): string | undefined => {
  const output = turn?.["output"]
  if (!Array.isArray(output)) return undefined
  return output.find(({ type }) => type === "image")?.file.provider_data.path
}

/** Listens for webhooks. `expect` waits for the signed webhook of a task and status. */
const receiveWebhooks = Effect.gen(function*() {
  const secret = randomBytes(24).toString("base64url")
  const received = new Map<string, Deferred.Deferred<void>>()
  const inbox = (uuid: string, status: string) => {
    const key = `${uuid} ${status}`
    const known = received.get(key) ?? Deferred.makeUnsafe<void>()
    received.set(key, known)
    return known
  }
  const server = yield* listen((request) =>
    buffer(request).then((body) => verifyWebhook({ body, headers: request.headers, secret })).then(
      ({ task }) => {
        Deferred.doneUnsafe(inbox(task.uuid, task.status), Effect.void)
        return 204
      },
      () => 401
    )
  )
  const expect = Effect.fnUntraced(function*(uuid: string, status: string) {
    yield* Deferred.await(inbox(uuid, status)).pipe(
      Effect.timeoutOrElse({
        duration: "20 seconds",
        orElse: () => Effect.fail(failed("No webhook with a valid signature within 20 s"))
      })
    )
    yield* log(`webhook: ${status}, signature verified`)
  })
  const callback = { callback_url: `http://127.0.0.1:${portOf(server)}/webhook`, callback_secret: secret }
  return { callback, expect }
})

const tour = Effect.fnUntraced(function*(url: string, token: string) {
  const client = new TaskServiceClient({ baseUrl: url, token })
  const call = <A>(send: (signal: AbortSignal) => PromiseLike<A>) => Effect.tryPromise({ try: send, catch: asFailure })
  const text = (content: string) => ({ type: "text", text: content }) as const
  const { callback, expect } = yield* receiveWebhooks

  yield* step("Upload a file, which the service forwards to the assistant backend")
  const notes = new Blob(["Sales rose by a tenth. The north did best. Costs fell."])
  const file = yield* call((signal) => client.files.upload(notes, { name: "report.txt", type: "text/plain", signal }))
  yield* log(`${file.file.name} is file ${file.file.id}: ${yield* call(() => client.files.url(file))}`)

  yield* step("Create a task about the file; the response returns its uuid immediately")
  const created = yield* call(() =>
    client.tasks.create({ assistant_id: 1, input: [text("Who did best?"), file], ...callback })
  )
  yield* log(`${created.uuid} is ${created.status}, with a time limit of ${created.max_execution_time} s`)
  const completed = yield* call((signal) => client.tasks.waitFor(created.uuid, { signal }))
  yield* log(`${completed.status}: ${textOf(completed.turn).replaceAll("\n", " ")}`)
  yield* expect(created.uuid, "completed")

  yield* step("Follow the progress of a slow task")
  const slow = yield* call(() => client.tasks.create({ assistant_id: 3, input: [text("take 3")] }))
  yield* Stream.fromAsyncIterable(client.tasks.events(slow.uuid), asFailure).pipe(
    Stream.runForEach(({ event }) =>
      Effect.flatMap(call(() => client.tasks.get(slow.uuid)), ({ turn }) => log(`${event} ${textOf(turn)}`.trimEnd()))
    )
  )

  yield* step("Answer a client tool call; the interrupted task can wait for hours")
  const client_tools = [{ type: "function", name: "weather" }]
  const calling = yield* call(() =>
    client.tasks.create({ assistant_id: 2, input: [text("the weather in Oslo")], client_tools, ...callback })
  )
  const waiting = yield* call((signal) => client.tasks.waitFor(calling.uuid, { signal }))
  const [pending] = waiting.pending_tool_calls ?? []
  if (pending === undefined) return yield* failed(`The task is ${waiting.status}, not interrupted`)
  yield* log(`${waiting.status}: ${pending.name}(${JSON.stringify(pending.arguments)})`)
  yield* expect(calling.uuid, "interrupted")
  const output = { sky: "clear", degrees: 4 }
  yield* call(() => client.tasks.submitToolResults(calling.uuid, [{ tool_call_id: pending.id, output }]))
  const resumed = yield* call((signal) => client.tasks.waitFor(calling.uuid, { signal }))
  yield* log(`${resumed.status}: ${textOf(resumed.turn)}`)
  yield* expect(calling.uuid, "completed")

  yield* step("Download a generated image by its link, without a token")
  const drawing = yield* call(() => client.tasks.create({ assistant_id: 4, input: [text("a house by the sea")] }))
  const drawn = yield* call((signal) => client.tasks.waitFor(drawing.uuid, { signal }))
  const image = imageOf(drawn.turn)
  if (image === undefined) return yield* failed(`The task is ${drawn.status} and has no image`)
  const link = yield* call(() => client.files.url(image))
  const seen = yield* HttpClient.get(link).pipe(Effect.provide(FetchHttpClient.layer), Effect.mapError(asFailure))
  yield* log(`${drawn.status}: ${link}`)
  yield* log(`GET ${seen.status}, ${seen.headers["content-type"]}, ${seen.headers["content-length"]} bytes`)

  yield* step("Cancel an interrupted task")
  const unwanted = yield* call(() =>
    client.tasks.create({ assistant_id: 2, input: [text("anything")], client_tools, ...callback })
  )
  yield* call((signal) => client.tasks.waitFor(unwanted.uuid, { signal }))
  yield* call(() => client.tasks.cancel(unwanted.uuid, { reason: "The user closed the window" }))
  const canceled = yield* call(() => client.tasks.get(unwanted.uuid))
  yield* log(`${canceled.status}: ${canceled.error}`)
  yield* expect(unwanted.uuid, "canceled")

  yield* step("List the tasks, newest first")
  const { data, meta } = yield* call(() => client.tasks.list({ per_page: 5 }))
  yield* Effect.forEach(data, ({ status, uuid }) => log(`${uuid}  ${status}`), { discard: true })
  yield* log(`${meta.total} tasks\n`)
})

/** Uses the service at `running`, or a temporary one when undefined. */
export const run = (running: { readonly url: string; readonly token: string } | undefined) =>
  Effect.scoped(Effect.gen(function*() {
    if (running === undefined) {
      yield* Console.log("Starting a temporary service with embedded Postgres, built-in core and demo assistants.")
    }
    const { token, url } = running ?? (yield* start)
    yield* Console.log(`Service: ${url}`)
    yield* tour(url, token)
  }))
