/** Tells the main job of the service, step by step, while doing it: with the Promise client, as a client app would. */
import { Console, Deferred, Effect, Layer, Logger, References, Stream } from "effect"
import { FetchHttpClient, HttpClient } from "effect/http"
import { createHmac, randomBytes, timingSafeEqual } from "node:crypto"
import { createServer, type IncomingMessage } from "node:http"
import type { AddressInfo } from "node:net"
import * as path from "node:path"
import { TaskServiceClient } from "../../http/client/promise/TaskServiceClient.ts"
import type { Task } from "../../http/client/promise/Types.ts"
import * as App from "../App.ts"
import * as AppConfig from "../AppConfig.ts"
import * as Banner from "../Banner.ts"
import { innermost } from "../Endings.ts"
import { asFailure, failed, textOf } from "./Root.ts"

const step = (title: string) => Console.log(`\n— ${title}`)
const say = (text: string) => Console.log(`  ${text}`)

const listen = (handler: (request: IncomingMessage, body: string) => number) =>
  Effect.acquireRelease(
    Effect.callback<ReturnType<typeof createServer>>((resume) => {
      const server = createServer((request, response) => {
        const chunks: Array<Buffer> = []
        request.on("data", (chunk: Buffer) => chunks.push(chunk))
        request.on("end", () => response.writeHead(handler(request, Buffer.concat(chunks).toString())).end())
      })
      server.listen(0, "127.0.0.1", () => resume(Effect.succeed(server)))
    }),
    (server) => Effect.sync(() => server.close())
  )

const portOf = (server: ReturnType<typeof createServer>) => (server.address() as AddressInfo).port

const freePort = Effect.scoped(Effect.map(listen(() => 404), portOf))

/** A service of its own, for as long as the demo runs. */
const start = Effect.gen(function*() {
  // Kept from one demo to the next, so that only the first has to make a database.
  const dataDir = path.resolve(process.env["DATA_DIR"] || ".data", "demo")
  const config = yield* AppConfig.load({ PATH: process.env["PATH"], PORT: String(yield* freePort), DATA_DIR: dataDir })
  yield* Layer.build(App.layer(config)).pipe(
    Effect.provideService(References.MinimumLogLevel, "Warn"),
    Effect.provide(Logger.layer([Logger.consolePretty()]))
  )
  if (config.developmentSecret === undefined) return yield* failed("The demo needs the development key")
  return { url: config.publicUrl, token: yield* Banner.mint(config.developmentSecret) }
})

const isSigned = (secret: string, body: string, signature: string | undefined) => {
  const wanted = createHmac("sha256", secret).update(body).digest("hex")
  return signature?.length === wanted.length && timingSafeEqual(Buffer.from(signature), Buffer.from(wanted))
}

/** The storage path of the first image in a turn. */
const imageOf = (turn: Task["turn"]): string | undefined => {
  const output = turn?.["output"]
  if (!Array.isArray(output)) return undefined
  return output.find(({ type }) => type === "image")?.file.provider_data.path
}

interface Webhook {
  readonly task: Task
  readonly verified: boolean
}

const story = Effect.fnUntraced(function*(url: string, token: string) {
  const client = new TaskServiceClient({ baseUrl: url, token })
  const call = <A>(ask: (signal: AbortSignal) => PromiseLike<A>) => Effect.tryPromise({ try: ask, catch: asFailure })
  const text = (words: string) => ({ type: "text", text: words }) as const
  const secret = randomBytes(24).toString("base64url")
  const received = new Map<string, Deferred.Deferred<Webhook>>()
  const inbox = (key: string) => {
    const known = received.get(key) ?? Deferred.makeUnsafe<Webhook>()
    received.set(key, known)
    return known
  }
  const receiver = yield* listen((request, body) => {
    const task = JSON.parse(body) as Task
    const verified = isSigned(secret, body, request.headers["x-signature"] as string | undefined)
    Deferred.doneUnsafe(inbox(`${task.uuid} ${task.status}`), Effect.succeed({ task, verified }))
    return 204
  })
  const callback = { callback_url: `http://127.0.0.1:${portOf(receiver)}/webhook`, callback_secret: secret }
  const webhook = Effect.fnUntraced(function*(uuid: string, status: string) {
    const { verified } = yield* Deferred.await(inbox(`${uuid} ${status}`)).pipe(
      Effect.timeoutOrElse({ duration: "20 seconds", orElse: () => Effect.fail(failed("No webhook came within 20 s")) })
    )
    if (!verified) return yield* failed("The webhook's signature is wrong")
    yield* say(`webhook: ${status}, its X-Signature verified`)
  })

  yield* step("A client uploads a file; it goes on to the assistant backend")
  const notes = new Blob(["Sales rose by a tenth. The north did best. Costs fell."])
  const file = yield* call((signal) => client.files.upload(notes, { name: "report.txt", type: "text/plain", signal }))
  yield* say(`${file.file.name} is file ${file.file.id}, at ${yield* call(() => client.files.url(file))}`)

  yield* step("It asks about the file, and has the uuid of its task at once")
  const asked = yield* call(() =>
    client.tasks.create({ assistant_id: 1, input: [text("Who did best?"), file], ...callback })
  )
  yield* say(`${asked.uuid} is ${asked.status}, with ${asked.max_execution_time} s to end`)
  const answered = yield* call((signal) => client.tasks.waitFor(asked.uuid, { signal }))
  yield* say(`${answered.status}: ${textOf(answered.turn).replaceAll("\n", " ")}`)
  yield* webhook(asked.uuid, "completed")

  yield* step("A slow one tells its progress")
  const slow = yield* call(() => client.tasks.create({ assistant_id: 3, input: [text("take 3")] }))
  yield* Stream.fromAsyncIterable(client.tasks.events(slow.uuid), asFailure).pipe(
    Stream.runForEach(({ event }) =>
      Effect.flatMap(call(() => client.tasks.get(slow.uuid)), ({ turn }) => say(`${event} ${textOf(turn)}`.trimEnd()))
    )
  )

  yield* step("The model calls a tool on the client's side: the task waits, for minutes or hours")
  const client_tools = [{ type: "function", name: "weather" }]
  const calling = yield* call(() =>
    client.tasks.create({ assistant_id: 2, input: [text("the weather in Oslo")], client_tools, ...callback })
  )
  const waiting = yield* call((signal) => client.tasks.waitFor(calling.uuid, { signal }))
  const [pending] = waiting.pending_tool_calls ?? []
  if (pending === undefined) return yield* failed(`The task is ${waiting.status}, not interrupted`)
  yield* say(`${waiting.status}: ${pending.name}(${JSON.stringify(pending.arguments)})`)
  yield* webhook(calling.uuid, "interrupted")
  const output = { sky: "clear", degrees: 4 }
  yield* call(() => client.tasks.submitToolResults(calling.uuid, [{ tool_call_id: pending.id, output }]))
  const resumed = yield* call((signal) => client.tasks.waitFor(calling.uuid, { signal }))
  yield* say(`${resumed.status}: ${textOf(resumed.turn)}`)
  yield* webhook(calling.uuid, "completed")

  yield* step("An assistant makes an image; anyone who has its link can see it")
  const drawing = yield* call(() => client.tasks.create({ assistant_id: 4, input: [text("a house by the sea")] }))
  const drawn = yield* call((signal) => client.tasks.waitFor(drawing.uuid, { signal }))
  const image = imageOf(drawn.turn)
  if (image === undefined) return yield* failed(`The task is ${drawn.status}, without an image`)
  const link = yield* call(() => client.files.url(image))
  const seen = yield* HttpClient.get(link).pipe(Effect.provide(FetchHttpClient.layer), Effect.mapError(asFailure))
  yield* say(`${drawn.status}: ${link}`)
  yield* say(`GET ${seen.status}, ${seen.headers["content-type"]}, ${seen.headers["content-length"]} bytes`)

  yield* step("Another one is no longer wanted")
  const unwanted = yield* call(() =>
    client.tasks.create({ assistant_id: 2, input: [text("anything")], client_tools, ...callback })
  )
  yield* call((signal) => client.tasks.waitFor(unwanted.uuid, { signal }))
  yield* call(() => client.tasks.cancel(unwanted.uuid, { reason: "The user closed the window" }))
  const canceled = yield* call(() => client.tasks.get(unwanted.uuid))
  yield* say(`${canceled.status}: ${canceled.error}`)
  yield* webhook(unwanted.uuid, "canceled")

  yield* step("All of it is in the list")
  const { data, meta } = yield* call(() => client.tasks.list({ per_page: 5 }))
  yield* Effect.forEach(data, ({ status, uuid }) => say(`${uuid}  ${status}`), { discard: true })
  yield* say(`${meta.total} tasks\n`)
})

/** Against the service at `running`, or one that it starts by itself. */
export const run = (running: { readonly url: string; readonly token: string } | undefined) =>
  Effect.scoped(Effect.gen(function*() {
    if (running === undefined) {
      yield* Console.log("Starting a service of its own: embedded Postgres, core, demo assistants.")
    }
    const { token, url } = running ?? (yield* start)
    yield* Console.log(`The service: ${url}`)
    yield* story(url, token)
  })).pipe(Effect.catchTags({
    InvalidSettings: (error) => Effect.fail(failed(innermost(error))),
    EmbeddedPostgresError: (error) => Effect.fail(failed(innermost(error))),
    SqlError: (error) => Effect.fail(failed(innermost(error))),
    ServeError: (error) => Effect.fail(failed(innermost(error)))
  }))
