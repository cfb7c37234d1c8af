/** The client of the internal interface: calls by HTTP or over one WebSocket, each with the bearer token. */
import { Effect, Layer, Redacted, Schedule, Stream } from "effect"
import { Headers } from "effect/http"
import { RpcClient, RpcClientError, RpcMiddleware, RpcSerialization } from "effect/rpc"
import { Socket } from "effect/socket"
import { isTerminal } from "../../domain/Task.ts"
import { InternalRpc, path } from "../contract/Rpc.ts"
import { RpcAuthorization } from "../contract/RpcMiddleware.ts"

/** Where the service is, as in `http://127.0.0.1:3000`, and one of its `INTERNAL_TOKENS`. */
export interface RpcOptions {
  readonly url: string
  readonly token: Redacted.Redacted
}

export const make = RpcClient.make(InternalRpc)
export type InternalClient = Effect.Success<typeof make>

const layerToken = (token: Redacted.Redacted) =>
  RpcMiddleware.layerClient(
    RpcAuthorization,
    ({ next, request }) =>
      next({ ...request, headers: Headers.set(request.headers, "authorization", `Bearer ${Redacted.value(token)}`) })
  )

/** Calls by `POST`; streams too, each as an answer of its own. */
export const layerHttp = ({ token, url }: RpcOptions) =>
  RpcClient.layerProtocolHttp({ url: url + path }).pipe(
    Layer.provide(RpcSerialization.layerNdjson),
    Layer.merge(layerToken(token))
  )

/** All calls over one WebSocket, which is opened again when it breaks. */
export const layerWebSocket = ({ token, url }: RpcOptions) =>
  RpcClient.layerProtocolSocket({ retryTransientErrors: true }).pipe(
    Layer.provide([RpcSerialization.layerNdjson, Socket.layerWebSocket(url.replace(/^http/, "ws") + path)]),
    Layer.merge(layerToken(token))
  )

const reconnect = Schedule.min([Schedule.exponential("200 millis"), Schedule.spaced("5 seconds")]).pipe(
  Schedule.jittered
)

/** `Tasks.watch` that resumes by itself where it broke off, until the task has ended and all was told. */
export const follow = (
  client: InternalClient,
  { after = -1, sub, uuid }: { readonly sub: string; readonly uuid: string; readonly after?: number }
) =>
  Stream.suspend(() => {
    let last = after
    let isOver = false
    const leg = Stream.suspend(() => client["Tasks.watch"]({ sub, uuid, after: last })).pipe(
      Stream.tap(({ revision, status }) =>
        Effect.sync(() => {
          last = revision
          isOver = isTerminal(status)
        })
      )
    )
    // A node that drains ends its streams; what came between is asked for once more before the end is believed.
    const legs = (wasTerminal: boolean): typeof leg =>
      Stream.concat(
        leg,
        Stream.suspend(() =>
          isOver || wasTerminal
            ? Stream.empty
            : Stream.unwrap(Effect.map(client["Tasks.get"]({ sub, uuid }), ({ status }) => legs(isTerminal(status))))
        )
      )
    return Stream.retry(legs(false), ($) => $(reconnect).pipe(Schedule.while(({ input }) => isConnectionError(input))))
  })

const isConnectionError = (error: unknown) => error instanceof RpcClientError.RpcClientError
