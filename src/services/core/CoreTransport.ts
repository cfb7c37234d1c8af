/** One POST to the core, as `CoreClient` needs it. */
import { Context, Effect, Layer } from "effect"
import { HttpClient, HttpClientRequest } from "effect/http"
import { CoreUnavailable } from "../../domain/DispatchRetry.ts"
import { concat } from "../../domain/OpaqueJson.ts"

export interface CoreResponse {
  readonly status: number
  /** The `Retry-After` header. */
  readonly retryAfter: string | undefined
}

export class CoreTransport extends Context.Service<CoreTransport, {
  readonly post: (
    url: string,
    headers: Readonly<Record<string, string>>,
    /** Pieces of JSON. */
    body: ReadonlyArray<Uint8Array>
  ) => Effect.Effect<CoreResponse, CoreUnavailable>
}>()("async-task-service/services/core/CoreTransport") {
  /** Uses any `HttpClient`. It has no timeout: it is for the built-in core in the same process, which waits for nothing. */
  static readonly layerHttpClient = Layer.effect(
    CoreTransport,
    Effect.map(HttpClient.HttpClient, (http) => ({
      post: (url, headers, body) =>
        HttpClientRequest.post(url).pipe(
          HttpClientRequest.setHeaders(headers),
          HttpClientRequest.bodyUint8Array(concat(body), "application/json"),
          http.execute,
          Effect.tap((response) => response.text),
          Effect.map(({ headers, status }) => ({ status, retryAfter: headers["retry-after"] })),
          Effect.mapError(({ _tag }) => new CoreUnavailable({ reason: _tag, retryAfter: null }))
        )
    }))
  )
}
