/** The client of the internal interface, over HTTP or one WebSocket. Each call carries the bearer token. */
import { Effect, Layer, Redacted, Schedule, Stream } from "effect"
import { Headers } from "effect/http"
import { RpcClient, RpcClientError, RpcMiddleware, RpcSerialization } from "effect/rpc"
import { Socket } from "effect/socket"
import { isTerminal } from "../../domain/Task.ts"
import { InternalRpc, path } from "../contract/Rpc.ts"
import { RpcAuthorization } from "../contract/RpcMiddleware.ts"
import { cappedBackoff } from "./Backoff.ts"

export interface RpcOptions {
  /** Base URL of the service, as in `http://127.0.0.1:3000`. */
  readonly url: string
  /** One of the service's `INTERNAL_TOKENS`. */
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

/** Sends each call as a `POST`; a stream is the body of its response. */
export const layerHttp = ({ token, url }: RpcOptions) =>
  RpcClient.layerProtocolHttp({ url: url + path }).pipe(
    Layer.provide(RpcSerialization.layerNdjson),
    Layer.merge(layerToken(token))
  )

/** Sends all calls over one WebSocket and reconnects when it breaks. */
export const layerWebSocket = ({ token, url }: RpcOptions) =>
  RpcClient.layerProtocolSocket({ retryTransientErrors: true }).pipe(
    Layer.provide([RpcSerialization.layerNdjson, Socket.layerWebSocket(url.replace(/^http/, "ws") + path)]),
    Layer.merge(layerToken(token))
  )

const reconnectSchedule = cappedBackoff("200 millis", "5 seconds")

/** `Tasks.watch` that reconnects and resumes after the last received revision, until the task has ended. */
export const follow = (
  client: InternalClient,
  { after = -1, sub, uuid }: { readonly sub: string; readonly uuid: string; readonly after?: number }
) =>
  Stream.suspend(() => {
    let last = after
    let isOver = false
    const connection = Stream.suspend(() => client["Tasks.watch"]({ sub, uuid, after: last })).pipe(
      Stream.tap(({ revision, status }) =>
        Effect.sync(() => {
          last = revision
          isOver = isTerminal(status)
        })
      )
    )
    // A draining node ends its streams early. If the task has ended meanwhile, one more connection delivers the rest.
    const connections = (isLast: boolean): typeof connection =>
      Stream.concat(
        connection,
        Stream.suspend(() =>
          isOver || isLast
            ? Stream.empty
            : Stream.unwrap(
              Effect.map(client["Tasks.get"]({ sub, uuid }), ({ status }) => connections(isTerminal(status)))
            )
        )
      )
    return Stream.retry(
      connections(false),
      ($) => $(reconnectSchedule).pipe(Schedule.while(({ input }) => isConnectionError(input)))
    )
  })

const isConnectionError = (error: unknown) => error instanceof RpcClientError.RpcClientError
