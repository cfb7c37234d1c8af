/**
 * The test kit for clients in any language: the same service on a port, with a clock and a core that are driven over HTTP.
 * What drives them is under `/test`; everything else is the service.
 */
import { NodeHttpServer } from "@effect/platform-node"
import { Console, DateTime, Duration, Effect, Layer, Schema } from "effect"
import { HttpEffect, HttpRouter, HttpServer, HttpServerRequest, HttpServerResponse } from "effect/http"
import { createServer } from "node:http"
import { FailureCode } from "../../domain/CoreProtocol.ts"
import { JsonObject } from "../../domain/OpaqueJson.ts"
import { createTestService, type PlainTestService } from "./createTestService.ts"

const Turn = Schema.Struct({ turn: Schema.Union([Schema.String, JsonObject]) })

const problem = (status: number, message: string) => HttpServerResponse.jsonUnsafe({ message }, { status })

const refusal = (error: unknown) =>
  problem(409, error instanceof Error && error.message !== "" ? error.message : String(error))

/** A POST with a body of one schema, which promises its answer. */
const action = <A>(schema: Schema.Decoder<A>, act: (body: A, uuid: string) => Promise<unknown>) =>
  Effect.gen(function*() {
    const { uuid = "" } = yield* HttpRouter.params
    const body = yield* HttpServerRequest.schemaBodyJson(schema)
    return yield* Effect.tryPromise({ try: () => act(body, uuid), catch: refusal }).pipe(
      Effect.match({
        onSuccess: (answer) => HttpServerResponse.jsonUnsafe(answer ?? {}),
        onFailure: (refused) => refused
      })
    )
  }).pipe(
    Effect.catchTags({
      SchemaError: ({ message }) => Effect.succeed(problem(422, message)),
      HttpServerError: () => Effect.succeed(problem(422, "The body is not valid JSON"))
    })
  )

const layerRoutes = (service: PlainTestService) =>
  HttpRouter.use((router) =>
    Effect.gen(function*() {
      const { core } = service
      const clock = () => service.now().then((now) => ({ now: now.toISOString() }))
      yield* router.add("GET", "/test/clock", Effect.map(Effect.promise(clock), HttpServerResponse.jsonUnsafe))
      yield* router.add(
        "POST",
        "/test/clock/advance",
        action(
          Schema.Struct({ duration: Schema.DurationFromString }),
          ({ duration }) => service.advance(duration).then(clock)
        )
      )
      yield* router.add(
        "POST",
        "/test/tokens",
        action(Schema.Struct({ sub: Schema.String }), ({ sub }) => service.token(sub).then((token) => ({ token })))
      )
      yield* router.add(
        "GET",
        "/test/core",
        Effect.sync(() => HttpServerResponse.jsonUnsafe({ runs: core.runs(), stops: core.stops() }))
      )
      yield* router.add(
        "POST",
        "/test/core",
        action(
          Schema.Struct({ behaviour: Schema.Union([Schema.Literals(["accepts", "silent", "down"]), Schema.Int]) }),
          ({ behaviour }) => Promise.resolve(core.behave(behaviour))
        )
      )
      yield* router.add(
        "POST",
        "/test/tasks/:uuid/progress",
        action(Turn, ({ turn }, uuid) => core.progress(uuid, turn))
      )
      yield* router.add(
        "POST",
        "/test/tasks/:uuid/complete",
        action(Turn, ({ turn }, uuid) => core.complete(uuid, turn))
      )
      yield* router.add(
        "POST",
        "/test/tasks/:uuid/interrupt",
        action(
          Schema.Struct({ calls: Schema.Record(Schema.String, JsonObject) }),
          ({ calls }, uuid) => core.interrupt(uuid, calls)
        )
      )
      yield* router.add(
        "POST",
        "/test/tasks/:uuid/fail",
        action(
          Schema.Struct({ code: FailureCode, message: Schema.optionalKey(Schema.String) }),
          ({ code, message }, uuid) => core.fail(uuid, code, message)
        )
      )
      yield* router.add(
        "GET",
        "/test/webhooks",
        Effect.sync(() => HttpServerResponse.jsonUnsafe({ received: service.webhooks.received() }))
      )
      yield* router.add(
        "POST",
        "/test/webhooks",
        action(
          Schema.Struct({ answer: Schema.Union([Schema.Int, Schema.Literal("down")]) }),
          ({ answer }) => Promise.resolve(service.webhooks.answerWith(answer))
        )
      )
      yield* router.add("*", "/*", HttpEffect.fromWebHandler(service.fetch))
    })
  )

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
      Layer.provide(HttpRouter.serve(layerRoutes(service), { disableLogger: true, disableListenLog: true })),
      Layer.provideMerge(
        NodeHttpServer.layer(createServer, { ...options, gracefulShutdownTimeout: Duration.seconds(1) })
      )
    )
  }))
