/**
 * The test kit for clients in any language: the same service on a port, with a clock and a core that are driven over HTTP.
 * What drives them is under `/test`; everything else is the service.
 */
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import { Console, DateTime, Duration, Effect, identity, Layer, Schema } from "effect"
import { HttpEffect, HttpRouter, HttpServer, HttpServerRequest, HttpServerResponse } from "effect/http"
import { createServer } from "node:http"
import { FailureCode } from "../../domain/CoreProtocol.ts"
import { JsonObject } from "../../domain/OpaqueJson.ts"
import { createTestService, type PlainTestService } from "./createTestService.ts"

const Turn = Schema.Struct({ turn: Schema.Union([Schema.String, JsonObject]) })

const problem = (status: number, message: string) => HttpServerResponse.jsonUnsafe({ message }, { status })

const refusal = (error: unknown) =>
  problem(409, error instanceof Error && error.message !== "" ? error.message : String(error))

/** A POST with a body of one schema. */
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
      return yield* Effect.tryPromise({ try: () => act(given, uuid), catch: refusal }).pipe(
        Effect.match({ onSuccess: (found) => HttpServerResponse.jsonUnsafe(found ?? {}), onFailure: identity })
      )
    }).pipe(
      Effect.catchTags({
        SchemaError: ({ message }) => Effect.succeed(problem(422, message)),
        HttpServerError: () => Effect.succeed(problem(422, "The body is not valid JSON"))
      })
    )
  )

const inspect = (read: () => unknown) => Effect.sync(() => HttpServerResponse.jsonUnsafe(read()))

const routesOf = (service: PlainTestService) => {
  const { core, webhooks } = service
  const clock = () => service.now().then((now) => ({ now: now.toISOString() }))
  return [
    HttpRouter.route("GET", "/test/clock", Effect.map(Effect.promise(clock), HttpServerResponse.jsonUnsafe)),
    HttpRouter.route("GET", "/test/core", inspect(() => ({ runs: core.runs(), stops: core.stops() }))),
    HttpRouter.route("GET", "/test/webhooks", inspect(() => ({ received: webhooks.received() }))),
    post(
      "/test/clock/advance",
      Schema.Struct({ duration: Schema.DurationFromString }),
      ({ duration }) => service.advance(duration).then(clock)
    ),
    post(
      "/test/tokens",
      Schema.Struct({ sub: Schema.String }),
      ({ sub }) => service.token(sub).then((token) => ({ token }))
    ),
    post(
      "/test/core",
      Schema.Struct({ behaviour: Schema.Union([Schema.Literals(["accepts", "silent", "down"]), Schema.Int]) }),
      ({ behaviour }) => Promise.resolve(core.behave(behaviour))
    ),
    post("/test/tasks/:uuid/progress", Turn, ({ turn }, uuid) => core.progress(uuid, turn)),
    post("/test/tasks/:uuid/complete", Turn, ({ turn }, uuid) => core.complete(uuid, turn)),
    post(
      "/test/tasks/:uuid/interrupt",
      Schema.Struct({ calls: Schema.Record(Schema.String, JsonObject) }),
      ({ calls }, uuid) => core.interrupt(uuid, calls)
    ),
    post(
      "/test/tasks/:uuid/fail",
      Schema.Struct({ code: FailureCode, message: Schema.optionalKey(Schema.String) }),
      ({ code, message }, uuid) => core.fail(uuid, code, message)
    ),
    post(
      "/test/webhooks",
      Schema.Struct({ answer: Schema.Union([Schema.Int, Schema.Literal("down")]) }),
      ({ answer }) => Promise.resolve(webhooks.answerWith(answer))
    ),
    HttpRouter.route("*", "/*", HttpEffect.fromWebHandler(service.fetch))
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
    const service = yield* Effect.acquireRelease(
      Effect.promise(() => createTestService({ startAt, listensAt: `http://${options.host}:${options.port}` })),
      ({ close }) => Effect.promise(close)
    )
    const announce = HttpServer.addressFormattedWith((url) => banner(url, service))
    return Layer.effectDiscard(announce).pipe(
      Layer.provide(
        HttpRouter.serve(HttpRouter.addAll(routesOf(service)), { disableLogger: true, disableListenLog: true })
      ),
      Layer.provideMerge(
        NodeHttpServer.layer(createServer, { ...options, gracefulShutdownTimeout: Duration.seconds(1) })
      )
    )
  }))
