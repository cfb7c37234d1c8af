/** `/rpc`: calls by POST in NDJSON, and over a WebSocket at the same path. The token is checked before anything is read. */
import { Duration, Effect, Layer, References } from "effect"
import { Digest } from "effect/crypto"
import { HttpRouter, HttpServerRequest, HttpServerResponse } from "effect/http"
import { RpcServer } from "effect/rpc"
import { WaitingRequests } from "../../services/store/WaitingRequests.ts"
import { InternalRpc, path } from "../contract/rpc/Rpc.ts"
import * as CoreRpc from "../handlers/rpc/CoreRpc.ts"
import * as OperationsRpc from "../handlers/rpc/OperationsRpc.ts"
import { RpcAccess } from "../handlers/rpc/RpcAuthorization.ts"
import * as TasksRpc from "../handlers/rpc/TasksRpc.ts"
import * as TokensRpc from "../handlers/rpc/TokensRpc.ts"
import * as RpcConnections from "./RpcConnections.ts"
import { RpcMemory } from "./RpcMemory.ts"
import * as RpcPost from "./RpcPost.ts"
import * as RpcSocket from "./RpcSocket.ts"

const unauthorized = HttpServerResponse.jsonUnsafe(
  { message: "The token is missing or not one of INTERNAL_TOKENS." },
  { status: 401 }
)

/** Serves requests with a valid token. Other requests get 401 without a body being read or an upgrade being made. */
const addRoute = Effect.fnUntraced(function*<E, R>(
  method: "GET" | "POST",
  handler: (
    request: HttpServerRequest.HttpServerRequest
  ) => Effect.Effect<HttpServerResponse.HttpServerResponse, E, R>
) {
  const router = yield* HttpRouter.HttpRouter
  const { isGranted } = yield* RpcAccess
  yield* router.add(
    method,
    path,
    Effect.flatMap(
      HttpServerRequest.HttpServerRequest,
      (request) => isGranted(request) ? handler(request) : Effect.succeed(unauthorized)
    )
  )
})

const layerPost = Layer.effect(
  RpcServer.Protocol,
  Effect.gen(function*() {
    const connections = yield* RpcConnections.make({ isDuplex: false })
    yield* addRoute("POST", yield* RpcPost.make(connections))
    return connections.protocol
  })
)

/** How long calls in flight may continue when the node stops; clients then reconnect to another node. */
const drainGrace = Duration.seconds(1)

const layerSocket = Layer.effect(
  RpcServer.Protocol,
  Effect.gen(function*() {
    const connections = yield* RpcConnections.make({ isDuplex: true })
    const memory = yield* RpcMemory
    const { drained } = yield* WaitingRequests
    const connection = Effect.provideService(RpcSocket.handle(connections), RpcMemory, memory)
    const untilStop = Effect.raceFirst(
      connection,
      drained.pipe(Effect.andThen(Effect.sleep(drainGrace)), Effect.as(HttpServerResponse.empty()))
    )
    yield* addRoute(
      "GET",
      ({ headers }) =>
        headers["upgrade"]?.toLowerCase() === "websocket" ? untilStop : Effect.succeed(RpcSocket.upgradeRequired)
    )
    return connections.protocol
  })
)

export const spanPrefix = "rpc"

/** A defect in one call does not end the other calls of its connection. */
const layerGroup = Layer.fresh(Layer.unwrap(
  Effect.map(
    References.TracerEnabled,
    (isTraced) => RpcServer.layer(InternalRpc, { disableFatalDefects: true, disableTracing: !isTraced, spanPrefix })
  )
))

export const layer = Layer.mergeAll(
  Layer.provide(layerGroup, layerPost),
  Layer.provide(Layer.fresh(layerGroup), layerSocket)
).pipe(
  Layer.provide([TasksRpc.layer, CoreRpc.layer, TokensRpc.layer, OperationsRpc.layer, RpcMemory.layer]),
  Layer.provide(Digest.layerWebCrypto)
)
