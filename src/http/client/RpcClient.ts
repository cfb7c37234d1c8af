/** The client of the internal interface, over HTTP or one WebSocket. Each call carries the bearer token. */
import { Effect, Layer, Redacted, Schedule, Stream } from "effect"
import { FetchHttpClient, HttpClient, HttpClientError, HttpClientRequest } from "effect/http"
import { RpcClient, RpcClientError, type RpcMessage, RpcSchema, RpcSerialization } from "effect/rpc"
import { Socket } from "effect/socket"
import * as Backoff from "../../domain/Backoff.ts"
import { isTerminal } from "../../domain/Task.ts"
import { InternalRpc, path } from "../contract/rpc/Rpc.ts"

export interface RpcOptions {
  /** Base URL of the service, as in `http://127.0.0.1:3000`. */
  readonly url: string
  /** One of the service's `INTERNAL_TOKENS`; for `Core.report` one of its `CORE_EVENT_TOKENS`, if it has any. */
  readonly token: Redacted.Redacted
}

/** The calls of the core. A client of the calls of an extension is made of its group, such as `SchedulesRpc`. */
export const make = RpcClient.make(InternalRpc)
export type InternalClient = Effect.Success<typeof make>

const reconnectSchedule = Schedule.jittered(Backoff.schedule("200 millis", "5 seconds"))

const bearer = (token: Redacted.Redacted) => `Bearer ${Redacted.value(token)}`

/** `RpcUnauthorized`, as the service would encode it. */
const unauthorized = { _tag: "Unauthorized", message: "The token is missing or does not grant this call." }

interface Client {
  readonly receive: (message: RpcMessage.FromServerEncoded) => Effect.Effect<void>
  /** Ids of the calls without a result. */
  readonly calls: Set<string | number>
}

/**
 * The token is checked before a call is read, so its refusal is an answer of the transport. Calls fail with `Unauthorized` all
 * the same, which is among the errors of each of them.
 */
const withRefusals = (isRefusal: (error: RpcClientError.RpcClientError) => boolean) =>
  Layer.effect(
    RpcClient.Protocol,
    Effect.map(RpcClient.Protocol, (protocol) => {
      const clients = new Map<number, Client>()
      const refuse = ({ calls, receive }: Client) =>
        Effect.forEach([...calls], (requestId) =>
          Effect.suspend(() => {
            calls.delete(requestId)
            return receive({
              _tag: "Exit",
              requestId,
              exit: { _tag: "Failure", cause: [{ _tag: "Fail", error: unauthorized }] }
            })
          }), { discard: true })
      return RpcClient.Protocol.of({
        ...protocol,
        run: (clientId, receive) => {
          const client: Client = { receive, calls: new Set() }
          clients.set(clientId, client)
          const running = protocol.run(clientId, (message) => {
            if (message._tag === "Exit") client.calls.delete(message.requestId)
            return message._tag === "ClientProtocolError" && isRefusal(message.error)
              ? refuse(client)
              : receive(message)
          })
          return Effect.ensuring(running, Effect.sync(() => clients.delete(clientId)))
        },
        send: (clientId, message, transferables) => {
          const client = clients.get(clientId)
          if (message._tag === "Request") client?.calls.add(message.id)
          if (message._tag === "Interrupt") client?.calls.delete(message.requestId)
          const sent = protocol.send(clientId, message, transferables)
          return client === undefined ? sent : Effect.catchIf(sent, isRefusal, () => refuse(client))
        }
      })
    })
  )

const isUnauthorized = ({ reason }: RpcClientError.RpcClientError) =>
  reason._tag === "HttpError" &&
  reason.cause instanceof HttpClientError.StatusCodeError &&
  reason.cause.response.status === 401

/** Reads a response as a stream only when the call returns one: other responses are small and arrive whole. */
const makeProtocolHttp = Effect.gen(function*() {
  const client = yield* HttpClient.HttpClient
  const over = (includesFraming: boolean) =>
    Effect.provideService(RpcClient.makeProtocolHttp(client), RpcSerialization.RpcSerialization, {
      ...RpcSerialization.ndjson,
      includesFraming
    })
  const whole = yield* over(false)
  const streamed = yield* over(true)
  const isStream = ({ tag }: RpcMessage.RequestEncoded) => {
    const rpc = InternalRpc.requests.get(tag)
    return rpc !== undefined && RpcSchema.isStreamSchema(rpc.successSchema)
  }
  return RpcClient.Protocol.of({
    ...whole,
    run: (clientId, receive) => Effect.raceFirst(whole.run(clientId, receive), streamed.run(clientId, receive)),
    send: (clientId, message, transferables) =>
      (message._tag === "Request" && isStream(message) ? streamed : whole).send(clientId, message, transferables)
  })
})

/** Sends each call as a `POST`; a stream is the body of its response. */
export const layerHttp = ({ token, url }: RpcOptions) => {
  const layerClient = Layer.effect(
    HttpClient.HttpClient,
    Effect.map(HttpClient.HttpClient, (client) =>
      client.pipe(
        HttpClient.mapRequest((request) =>
          HttpClientRequest.setHeader(HttpClientRequest.setUrl(request, url + path), "authorization", bearer(token))
        ),
        HttpClient.filterStatusOk
      ))
  )
  return withRefusals(isUnauthorized).pipe(
    Layer.provide(Layer.effect(RpcClient.Protocol, makeProtocolHttp)),
    Layer.provide(layerClient)
  )
}

/**
 * Sends all calls over one WebSocket and reconnects when it breaks. It needs a constructor that can send headers, such as
 * `NodeSocket.layerWebSocketConstructor`; browsers have none.
 */
export const layerWebSocket = ({ token, url }: RpcOptions) =>
  Layer.unwrap(Effect.map(HttpClient.HttpClient, (client) => {
    const headers = { authorization: bearer(token) }
    let isRefused = false
    // WebSocket constructors do not report why a handshake failed, so a plain GET checks the token.
    const isTokenGood = client.get(url + path, { headers }).pipe(
      Effect.map(({ status }) => {
        isRefused = status === 401
        return !isRefused
      }),
      Effect.orElseSucceed(() => true)
    )
    const retryPolicy = reconnectSchedule.pipe(
      Schedule.while(({ input }: { readonly input: Socket.SocketError }) =>
        input.reason._tag === "SocketOpenError" ? isTokenGood : Effect.succeed(true)
      )
    )
    return withRefusals(() => isRefused).pipe(
      Layer.provide(RpcClient.layerProtocolSocket({ retryTransientErrors: true, retryPolicy })),
      Layer.provide([
        RpcSerialization.layerNdjson,
        Socket.layerWebSocket(url.replace(/^http/, "ws") + path, { headers })
      ])
    )
  })).pipe(Layer.provide(FetchHttpClient.layer))

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
