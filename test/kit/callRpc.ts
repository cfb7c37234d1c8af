/** Calls of the internal interface. */
import { NodeHttpClient, NodeSocket } from "@effect/platform-node"
import { Effect, Layer, Redacted, type Scope } from "effect"
import type * as EffectRpcClient from "effect/rpc/RpcClient"
import * as RpcClient from "../../src/http/client/RpcClient.ts"
import { internalToken, type Service } from "./Service.ts"

/** One call, as `curl` makes it. Returns the value, or the error with its `_tag`. */
export const callRpc = async (service: Service, tag: string, payload: unknown) => {
  const call = JSON.stringify({ _tag: "Request", id: "1", tag, payload, headers: [] })
  const { body } = await service.call("POST", "/rpc", internalToken, call, { "content-type": "application/ndjson" })
  return body.exit._tag === "Success" ? body.exit.value : body.exit.cause[0].error
}

export type Transport = "POST" | "WebSocket"

/** Calls with the client of this package. */
export const useRpc = <A, E>(
  service: Service,
  calls: (client: RpcClient.InternalClient) => Effect.Effect<A, E>,
  transport: Transport = "POST",
  token = internalToken
) => runRpc(service, Effect.flatMap(RpcClient.make, calls), transport, token)

/** Runs a program that makes a client, of the group of an extension for example. */
export const runRpc = <A, E>(
  service: Service,
  program: Effect.Effect<A, E, EffectRpcClient.Protocol | Scope.Scope>,
  transport: Transport = "POST",
  token = internalToken
) => {
  const options = { url: service.url, token: Redacted.make(token) }
  const layer = transport === "POST"
    ? Layer.provide(RpcClient.layerHttp(options), NodeHttpClient.layerUndici)
    : Layer.provide(RpcClient.layerWebSocket(options), NodeSocket.layerWebSocketConstructor)
  return program.pipe(Effect.scoped, Effect.provide(layer), Effect.runPromise)
}
