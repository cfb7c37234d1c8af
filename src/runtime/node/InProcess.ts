/** Calls built-in systems without a socket: routes requests by origin to a handler that implements the real HTTP interface. */
import { Effect, Layer } from "effect"
import { FetchHttpClient, type HttpClient, HttpRouter, HttpServer } from "effect/http"

export type Fetch = typeof globalThis.fetch

/** Serves routes to requests of this process until the scope closes. */
export const serve = (routes: Layer.Layer<never, never, HttpRouter.HttpRouter>) =>
  Effect.acquireRelease(
    Effect.sync(() =>
      HttpRouter.toWebHandler(Layer.provideMerge(routes, HttpServer.layerServices), { disableLogger: true })
    ),
    ({ dispose }) => Effect.promise(dispose)
  ).pipe(Effect.map(({ handler }): Fetch => (input, init) => handler(new Request(input, init))))

/** A client that sends requests for the given origins to their handlers and all others to the network. */
export const layerClient = (byOrigin: ReadonlyMap<string, Fetch>): Layer.Layer<HttpClient.HttpClient> =>
  // Fresh, because layers are memoized by reference: a second client would reuse the origins of the first.
  Layer.fresh(FetchHttpClient.layer).pipe(
    Layer.provide(
      Layer.succeed(FetchHttpClient.Fetch, (input, init) => {
        const url = input instanceof Request ? input.url : input
        return (byOrigin.get(new URL(url).origin) ?? globalThis.fetch)(input, init)
      })
    )
  )
