import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Fiber, References, type Scope, Stream } from "effect"
import { HttpClient, HttpClientRequest, HttpRouter, HttpServerRequest, HttpServerResponse } from "effect/http"
import * as InProcess from "../../../src/runtime/node/InProcess.ts"

const origin = "http://application.test"

type Handler = Effect.Effect<
  HttpServerResponse.HttpServerResponse,
  never,
  HttpServerRequest.HttpServerRequest | HttpRouter.RouteContext | Scope.Scope
>

/** A client of an application with one route. */
const serve = (handler: Handler, method: "GET" | "POST" = "GET", path: "/" | "/echo/:name" = "/") =>
  Effect.gen(function*() {
    const routes = HttpRouter.use((router) => router.add(method, path, handler))
    const app = yield* InProcess.toApp(routes)
    return yield* Effect.provide(HttpClient.HttpClient, InProcess.layerClient(app))
  })

describe("InProcess", () => {
  it.effect("passes method, path, headers and body in both directions", () =>
    Effect.gen(function*() {
      const http = yield* serve(
        Effect.gen(function*() {
          const request = yield* HttpServerRequest.HttpServerRequest
          const { name } = yield* HttpRouter.params
          const body = `${request.headers["x-color"]} ${name} ${yield* Effect.orDie(request.text)}`
          return HttpServerResponse.text(body, { status: 201, headers: { "x-size": String(body.length) } })
        }),
        "POST",
        "/echo/:name"
      )
      const response = yield* HttpClientRequest.post(`${origin}/echo/ball`).pipe(
        HttpClientRequest.setHeader("x-color", "red"),
        HttpClientRequest.bodyText("bounces"),
        http.execute
      )
      assert.strictEqual(response.status, 201)
      assert.strictEqual(response.headers["x-size"], "16")
      assert.strictEqual(yield* response.text, "red ball bounces")
      assert.strictEqual((yield* http.get(`${origin}/elsewhere`)).status, 404)
    }))

  it.effect("responds with 500 to a defect", () =>
    Effect.gen(function*() {
      const http = yield* serve(Effect.die("broken"))
      assert.strictEqual((yield* http.get(origin)).status, 500)
    }))

  it.effect("interrupts the application when its caller is interrupted", () =>
    Effect.gen(function*() {
      const started = yield* Deferred.make<void>()
      const interrupted = yield* Deferred.make<void>()
      const handler = Deferred.succeed(started, undefined).pipe(
        Effect.andThen(Effect.never),
        Effect.onInterrupt(() => Deferred.succeed(interrupted, undefined))
      )
      const http = yield* serve(handler)
      const calling = yield* Effect.forkChild(http.get(origin))
      yield* Deferred.await(started)
      yield* Fiber.interrupt(calling)
      assert.isTrue(yield* Deferred.isDone(interrupted))
    }))

  it.effect("releases the resources of a streamed response after its body", () =>
    Effect.gen(function*() {
      let isReleased = false
      const handler = Effect.acquireRelease(Effect.void, () => Effect.sync(() => isReleased = true)).pipe(
        Effect.as(HttpServerResponse.stream(Stream.make(new Uint8Array([1]), new Uint8Array([2]))))
      )
      const http = yield* serve(handler)
      const { stream } = yield* http.get(origin)
      assert.isFalse(isReleased)
      assert.strictEqual((yield* Stream.runCollect(stream)).length, 2)
      assert.isTrue(isReleased)
    }))

  it.effect("hides the caller's context from the application", () =>
    Effect.gen(function*() {
      const annotations = Effect.map(References.CurrentLogAnnotations, (all) => HttpServerResponse.jsonUnsafe(all))
      const http = yield* serve(annotations)
      const response = yield* Effect.annotateLogs(http.get(origin), "user", "ann")
      assert.deepStrictEqual(yield* response.json, {})
    }))
})
