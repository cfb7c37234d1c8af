/** `/rpc`: calls by POST in NDJSON, and over a WebSocket at the same path. The token is checked before anything is read. */
import { Duration, Effect, Layer } from "effect"
import { Digest } from "effect/crypto"
import { HttpRouter, HttpServerRequest, HttpServerResponse } from "effect/http"
import { WaitingRequests } from "../../services/store/WaitingRequests.ts"
import { path } from "../contract/rpc/Rpc.ts"
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

const layerPost = Layer.effectDiscard(
  Effect.gen(function*() {
    const connections = yield* RpcConnections.make({ isDuplex: false })
    yield* addRoute("POST", yield* RpcPost.make(connections))
  })
)

/** How long calls in flight may continue when the node stops; clients then reconnect to another node. */
const drainGrace = Duration.seconds(1)

const layerSocket = Layer.effectDiscard(
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
  })
)

export const layer = Layer.merge(layerPost, layerSocket).pipe(
  Layer.provide([TasksRpc.layer, CoreRpc.layer, TokensRpc.layer, OperationsRpc.layer, RpcMemory.layer]),
  Layer.provide(Digest.layerWebCrypto)
)
