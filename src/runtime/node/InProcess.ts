/** Calls an HTTP application of this process without a socket. Callers use a plain HTTP client and cannot tell the difference. */
import { Context, Effect, Layer, type Scope } from "effect"
import {
  HttpClient,
  type HttpClientError,
  HttpClientRequest,
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

/** Receives the response of one call. */
class Slot extends Context.Service<Slot, { response: HttpServerResponse.HttpServerResponse | undefined }>()(
  "async-task-service/runtime/node/InProcess/Slot"
) {}

/** Runs the application in the caller's fiber, with the context of requests. */
const toCall = <E>(app: App<E>, context: Context.Context<never>) => {
  const handled = HttpEffect.toHandled(app, (_, response) =>
    Effect.map(Slot, (slot) => {
      // The request's scope stays open until a streamed body has been read.
      slot.response = HttpEffect.scopeTransferToStream(response)
    }))
  return Effect.fnUntraced(function*(request: HttpClientRequest.HttpClientRequest) {
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

/** A client that sends each request to the application, whatever its origin. */
export const layerClient = <E>(app: App<E>): Layer.Layer<HttpClient.HttpClient> =>
  Layer.effect(
    HttpClient.HttpClient,
    Effect.map(RequestContext.get, (context) => {
      const call = toCall(app, context)
      return HttpClient.makeWith<never, never, HttpClientError.HttpClientError, never>(
        (prepared) => Effect.flatMap(prepared, call),
        (request) => Effect.succeed(request)
      )
    })
  )

/** Builds routes as an application of their own. Layers that were built elsewhere, such as the router, are built again. */
export const toApp = <A, E>(routes: Layer.Layer<A, E, HttpRouter.HttpRouter>) =>
  HttpRouter.toHttpEffect(routes).pipe(
    Effect.provideServiceEffect(Layer.CurrentMemoMap, Layer.makeMemoMap)
  )
