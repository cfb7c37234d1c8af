/** Calls HTTP applications of this process without a socket. Callers use a plain HTTP client and cannot tell the difference. */
import * as NodeHttpClient from "@effect/platform-node/NodeHttpClient"
import { Context, Effect, Layer, type Scope } from "effect"
import {
  HttpClient,
  type HttpClientError,
  HttpClientRequest,
  type HttpClientResponse,
  HttpEffect,
  HttpRouter,
  HttpServerRequest,
  HttpServerResponse
} from "effect/http"
import * as Tracing from "../../services/telemetry/Tracing.ts"
import * as RequestContext from "./RequestContext.ts"

/** An application whose handlers have received their services already. */
export type App<E> = Effect.Effect<
  HttpServerResponse.HttpServerResponse,
  E,
  HttpServerRequest.HttpServerRequest | Scope.Scope
>

type Call = (request: HttpClientRequest.HttpClientRequest) => Effect.Effect<HttpClientResponse.HttpClientResponse>

/** Receives the response of one call. */
class Slot extends Context.Service<Slot, { response: HttpServerResponse.HttpServerResponse | undefined }>()(
  "async-task-service/runtime/node/InProcess/Slot"
) {}

/** Serves the requests for an origin, such as `http://backend.builtin`, until the scope closes. */
export type Serve = <E>(origin: string, app: App<E>) => Effect.Effect<void, never, Scope.Scope>

/** Runs the application in the caller's fiber, with the context of requests. */
const toCall = <E>(app: App<E>, context: Context.Context<never>): Call => {
  const handled = HttpEffect.toHandled(app, (_, response) =>
    Effect.map(Slot, (slot) => {
      // The request's scope stays open until a streamed body has been read.
      slot.response = HttpEffect.scopeTransferToStream(response)
    }))
  return Effect.fnUntraced(function*(request) {
    const traced = HttpClientRequest.setHeaders(request, yield* Tracing.propagate({}))
    const slot: typeof Slot.Service = { response: undefined }
    const received = HttpServerRequest.fromClientRequest(traced)
    const exit = yield* handled.pipe(
      // Not as one context, which would be merged with the application's by copying it.
      Effect.provideService(Slot, slot),
      Effect.provideService(HttpServerRequest.HttpServerRequest, received),
      Effect.updateContext<never, never>(() => context),
      Effect.exit
    )
    const { response } = slot
    if (response === undefined) return yield* Effect.andThen(exit, Effect.die("an application did not respond"))
    return HttpServerResponse.toClientResponse(response, { request })
  })
}

export interface InProcess {
  readonly serve: Serve
  /** Sends requests for the served origins to their applications, and all others over the network. */
  readonly layerClient: Layer.Layer<HttpClient.HttpClient>
}

export const make = (): InProcess => {
  const calls = new Map<string, Call>()
  const clientOver = (network: HttpClient.HttpClient) =>
    HttpClient.makeWith<never, never, HttpClientError.HttpClientError, never>(
      (prepared) =>
        Effect.flatMap(prepared, (request) => {
          const call = calls.get(/^https?:\/\/[^/]*/.exec(request.url)?.[0] ?? "")
          return call === undefined ? network.execute(request) : call(request)
        }),
      (request) => Effect.succeed(request)
    )
  return {
    serve: (origin, app) =>
      Effect.flatMap(RequestContext.get, (context) =>
        Effect.acquireRelease(
          Effect.sync(() => calls.set(origin, toCall(app, context))),
          () => Effect.sync(() => calls.delete(origin))
        )),
    layerClient: Layer.effect(HttpClient.HttpClient, Effect.map(HttpClient.HttpClient, clientOver)).pipe(
      Layer.provide(NodeHttpClient.layerUndici)
    )
  }
}

/** Builds routes as an application of their own. Layers that were built elsewhere, such as the router, are built again. */
export const toApp = <A, E>(routes: Layer.Layer<A, E, HttpRouter.HttpRouter>) =>
  HttpRouter.toHttpEffect(routes).pipe(
    Effect.provideServiceEffect(Layer.CurrentMemoMap, Layer.makeMemoMap)
  )
