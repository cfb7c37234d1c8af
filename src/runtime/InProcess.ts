/** Other systems played by us, reached over their real wires without a socket: requests go by origin to a handler. */
import { Effect, Layer } from "effect"
import { FetchHttpClient, type HttpClient, HttpRouter, HttpServer } from "effect/http"

export type Fetch = typeof globalThis.fetch

/** Serves routes to requests of this process, for as long as the scope lasts. */
export const serve = (routes: Layer.Layer<never, never, HttpRouter.HttpRouter>) =>
  Effect.acquireRelease(
    Effect.sync(() =>
      HttpRouter.toWebHandler(Layer.provideMerge(routes, HttpServer.layerServices), { disableLogger: true })
    ),
    ({ dispose }) => Effect.promise(dispose)
  ).pipe(Effect.map(({ handler }): Fetch => (input, init) => handler(new Request(input, init))))

/** A client whose requests to the given origins go to their handlers, and all others to the network. */
export const layerClient = (byOrigin: ReadonlyMap<string, Fetch>): Layer.Layer<HttpClient.HttpClient> =>
  // Fresh: the same layer built with another table of origins must not be taken for this one.
  Layer.fresh(FetchHttpClient.layer).pipe(
    Layer.provide(
      Layer.succeed(FetchHttpClient.Fetch, (input, init) => {
        const url = input instanceof Request ? input.url : input
        return (byOrigin.get(new URL(url).origin) ?? globalThis.fetch)(input, init)
      })
    )
  )
