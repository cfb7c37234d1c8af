/**
 * The test kit for clients in any language: the same service on a port, with a clock and a core that are driven over HTTP.
 * Their controls are under `/test`; everything else is the service.
 */
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import { Console, DateTime, Duration, Effect, identity, Layer, Schema } from "effect"
import { HttpEffect, HttpRouter, HttpServer, HttpServerRequest, HttpServerResponse } from "effect/http"
import { createServer } from "node:http"
import { FailureCode } from "../../domain/CoreProtocol.ts"
import { JsonObject } from "../../domain/json/OpaqueJson.ts"
import { createTestService, type PlainTestService } from "./createTestService.ts"

const Turn = Schema.Struct({ turn: Schema.Union([Schema.String, JsonObject]) })

const WebhookAnswer = Schema.Union([Schema.Int, Schema.Literal("down")])

const problem = (status: number, message: string) => HttpServerResponse.jsonUnsafe({ message }, { status })

const refusal = (error: unknown) =>
  problem(409, error instanceof Error && error.message !== "" ? error.message : String(error))

const respond = (act: () => Promise<unknown>) =>
  Effect.tryPromise({ try: act, catch: refusal }).pipe(
    Effect.match({ onSuccess: (found) => HttpServerResponse.jsonUnsafe(found ?? {}), onFailure: identity })
  )

/** A POST with a body of one schema. */
const isForward = Schema.makeFilter((duration: Duration.Duration) =>
  Duration.isGreaterThanOrEqualTo(duration, Duration.zero) || "Expected a duration that is not negative"
)

const post = <A>(
  path: HttpRouter.PathInput,
  body: Schema.Decoder<A>,
  act: (body: A, uuid: string) => Promise<unknown>
) =>
  HttpRouter.route(
    "POST",
    path,
    Effect.gen(function*() {
      const { uuid = "" } = yield* HttpRouter.params
      const given = yield* HttpServerRequest.schemaBodyJson(body)
      return yield* respond(() => act(given, uuid))
    }).pipe(
      Effect.catchTags({
        SchemaError: ({ message }) => Effect.succeed(problem(422, message)),
        HttpServerError: () => Effect.succeed(problem(422, "The body is not valid JSON"))
      })
    )
  )

const get = (path: HttpRouter.PathInput, read: (uuid: string) => Promise<unknown>) =>
  HttpRouter.route("GET", path, Effect.flatMap(HttpRouter.params, ({ uuid = "" }) => respond(() => read(uuid))))

/** The service of the moment: a reset replaces it. */
interface Current {
  service: PlainTestService
}

const routesOf = (current: Current, create: () => Promise<PlainTestService>) => {
  const core = () => current.service.core
  const webhooks = () => current.service.webhooks
  const clock = () => current.service.now().then((now) => ({ now: now.toISOString() }))
  const reset = () => {
    const previous = current.service
    return create().then((service) => {
      current.service = service
      return previous.close().then(clock)
    })
  }
  return [
    get("/test/clock", clock),
    get("/test/core", () => Promise.resolve({ runs: core().runs(), stops: core().stops() })),
    get("/test/tasks/:uuid/run", (uuid) => core().runOf(uuid)),
    get("/test/webhooks", () => Promise.resolve({ received: webhooks().received() })),
    HttpRouter.route("POST", "/test/reset", respond(reset)),
    post(
      "/test/clock/advance",
      Schema.Struct({ duration: Schema.DurationFromString.check(isForward) }),
      ({ duration }) => current.service.advance(duration).then(clock)
    ),
    post(
      "/test/tokens",
      Schema.Struct({ sub: Schema.NonEmptyString }),
      ({ sub }) => current.service.token(sub).then((token) => ({ token }))
    ),
    post(
      "/test/core",
      Schema.Struct({
        behaviour: Schema.optionalKey(
          Schema.Union([Schema.Literals(["accepts", "silent", "down", "busy"]), Schema.Int])
        ),
        room: Schema.optionalKey(Schema.Int.check(Schema.isGreaterThanOrEqualTo(0)))
      }),
      ({ behaviour, room }) => {
        if (behaviour !== undefined) core().behave(behaviour)
        if (room !== undefined) core().limit(room)
        return Promise.resolve()
      }
    ),
    post("/test/tasks/:uuid/progress", Turn, ({ turn }, uuid) => core().progress(uuid, turn)),
    post("/test/tasks/:uuid/complete", Turn, ({ turn }, uuid) => core().complete(uuid, turn)),
    post(
      "/test/tasks/:uuid/interrupt",
      Schema.Struct({ calls: Schema.Record(Schema.String, JsonObject) }),
      ({ calls }, uuid) => core().interrupt(uuid, calls)
    ),
    post(
      "/test/tasks/:uuid/fail",
      Schema.Struct({ code: FailureCode, message: Schema.optionalKey(Schema.String) }),
      ({ code, message }, uuid) => core().fail(uuid, code, message)
    ),
    post(
      "/test/webhooks",
      Schema.Struct({ answer: Schema.Union([WebhookAnswer, Schema.Array(WebhookAnswer)]) }),
      ({ answer }) => Promise.resolve(webhooks().answerWith(answer))
    ),
    HttpRouter.route("*", "/*", HttpEffect.fromWebHandler((request) => current.service.fetch(request)))
  ]
}

const banner = (url: string, service: PlainTestService) =>
  Effect.flatMap(Effect.promise(() => service.token("developer")), (token) =>
    Console.log(
      `The service in memory, on a clock of its own: ${url}\n\n  TOKEN=${token}\n`
        + `  curl -s ${url}/test/clock/advance -H 'Content-Type: application/json' -d '{"duration": "24 hours"}'\n`
    ))

export const layer = (options: { readonly host: string; readonly port: number }) =>
  Layer.unwrap(Effect.gen(function*() {
    const startAt = DateTime.toDate(yield* DateTime.now)
    const create = () => createTestService({ log: true, startAt, listensAt: `http://${options.host}:${options.port}` })
    const current = yield* Effect.acquireRelease(
      Effect.promise(() => create().then((service): Current => ({ service }))),
      ({ service }) => Effect.promise(() => service.close())
    )
    const announce = HttpServer.addressFormattedWith((url) => banner(url, current.service))
    return Layer.effectDiscard(announce).pipe(
      Layer.provide(
        HttpRouter.serve(HttpRouter.addAll(routesOf(current, create)), { disableLogger: true, disableListenLog: true })
      ),
      Layer.provideMerge(
        NodeHttpServer.layer(createServer, { ...options, gracefulShutdownTimeout: Duration.seconds(1) })
      )
    )
  }))
