/** `/rpc`: calls by POST in NDJSON, and over a WebSocket at the same path. The token is checked before anything is read. */
import { Duration, Effect, Layer } from "effect"
import { Digest } from "effect/crypto"
import { HttpRouter, HttpServerRequest, HttpServerResponse } from "effect/http"
import * as Limits from "../../domain/Limits.ts"
import { observe } from "../../services/limits/Memory.ts"
import { Changes } from "../../services/signals/Changes.ts"
import { codeOfStatus } from "../contract/ErrorCodes.ts"
import { path } from "../contract/rpc/Rpc.ts"
import * as Core from "../handlers/Core.ts"
import { type Grants, RpcAccess } from "../handlers/rpc/RpcAuthorization.ts"
import * as Tasks from "../handlers/Tasks.ts"
import * as Tokens from "../handlers/Tokens.ts"
import * as RpcCodecs from "./RpcCodecs.ts"
import * as RpcConnections from "./RpcConnections.ts"
import { RpcMemory } from "./RpcMemory.ts"
import * as RpcPost from "./RpcPost.ts"
import * as RpcSocket from "./RpcSocket.ts"

const unauthorized = HttpServerResponse.jsonUnsafe({ message: RpcCodecs.refused.message, code: codeOfStatus(401) }, {
  status: 401
})

/** Serves requests with a valid token. Other requests get 401 without a body being read or an upgrade being made. */
const addRoute = Effect.fnUntraced(function*<E, R>(
  method: "GET" | "POST",
  handler: (
    request: HttpServerRequest.HttpServerRequest,
    grants: Grants
  ) => Effect.Effect<HttpServerResponse.HttpServerResponse, E, R>
) {
  const router = yield* HttpRouter.HttpRouter
  const { grantsOf } = yield* RpcAccess
  yield* router.add(
    method,
    path,
    Effect.flatMap(
      HttpServerRequest.HttpServerRequest,
      (request) =>
        Effect.matchEffect(grantsOf(request), {
          onFailure: () => Effect.succeed(unauthorized),
          onSuccess: (grants) => handler(request, grants)
        })
    )
  )
})

const addPost = Effect.fnUntraced(function*(memory: RpcMemory) {
  const connections = yield* RpcConnections.make({ isDuplex: false })
  yield* addRoute("POST", yield* RpcPost.make(connections, memory))
})

/** Time for which calls in flight may continue when the node stops; clients then reconnect to another node. */
const drainGrace = Duration.seconds(1)

const addSocket = Effect.fnUntraced(function*(memory: RpcMemory) {
  const connections = yield* RpcConnections.make({ isDuplex: true })
  const { drained } = yield* Changes
  const handle = RpcSocket.handle(connections, memory)
  const untilStop = (grants: Grants) =>
    Effect.raceFirst(
      handle(grants),
      drained.pipe(Effect.andThen(Effect.sleep(drainGrace)), Effect.as(HttpServerResponse.empty()))
    )
  yield* addRoute(
    "GET",
    ({ headers }, grants) =>
      headers["upgrade"]?.toLowerCase() === "websocket"
        ? untilStop(grants)
        : Effect.succeed(RpcSocket.upgradeRequired)
  )
})

/** The handlers of extensions are given apart. */
export const layer = <E, R>(layerExtensions: Layer.Layer<never, E, R>) =>
  Layer.effectDiscard(Effect.gen(function*() {
    const memory = new RpcMemory()
    yield* observe("core", "calls", Limits.rpcBytesInFlight, { inUse: memory.inUse, waiting: () => 0 })
    yield* addPost(memory)
    yield* addSocket(memory)
  })).pipe(
    Layer.provide(layerExtensions),
    Layer.provide([Tasks.layerRpc, Core.layerRpc, Tokens.layerRpc]),
    Layer.provide(Digest.layerWebCrypto)
  )
