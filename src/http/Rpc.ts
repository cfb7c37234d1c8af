/** `/rpc`: calls by POST in NDJSON, and the same over a WebSocket at the same address (CONTRACT 6). */
import { ByteSize, Duration, Effect, Layer, References } from "effect"
import { Digest } from "effect/crypto"
import { HttpIncomingMessage, HttpRouter, HttpServerRequest, HttpServerResponse } from "effect/http"
import { RpcSerialization, RpcServer } from "effect/rpc"
import * as Limits from "../domain/Limits.ts"
import { TaskNotifications } from "../services/TaskNotifications.ts"
import { InternalRpc, path } from "./contract/Rpc.ts"
import * as CoreRpc from "./handlers/CoreRpc.ts"
import * as OperationsRpc from "./handlers/OperationsRpc.ts"
import * as TasksRpc from "./handlers/TasksRpc.ts"
import * as TokensRpc from "./handlers/TokensRpc.ts"

/** A call carries a body of REST and what it is about. */
const maxMessageBytes = Limits.jsonBodyBytes + 64 * 1024

const layerPost = Layer.effect(
  RpcServer.Protocol,
  Effect.gen(function*() {
    const { httpEffect, protocol } = yield* RpcServer.makeProtocolWithHttpEffect()
    const router = yield* HttpRouter.HttpRouter
    const bounded = Effect.provideService(
      httpEffect,
      HttpIncomingMessage.MaxBodySize,
      ByteSize.fromInputUnsafe(maxMessageBytes)
    )
    yield* router.add("POST", path, bounded)
    return protocol
  })
)

const upgradeRequired = HttpServerResponse.jsonUnsafe(
  { message: "Calls come by POST, or over a WebSocket." },
  { status: 426, headers: { upgrade: "websocket" } }
)

/** For the calls that are under way when the node is about to stop; a client with more to say connects elsewhere. */
const farewell = Duration.seconds(1)

const layerSocket = Layer.effect(
  RpcServer.Protocol,
  Effect.gen(function*() {
    const { httpEffect, protocol } = yield* RpcServer.makeProtocolWithHttpEffectWebsocket
    const router = yield* HttpRouter.HttpRouter
    const { drained } = yield* TaskNotifications
    const untilStop = Effect.raceFirst(
      httpEffect,
      drained.pipe(Effect.andThen(Effect.sleep(farewell)), Effect.as(HttpServerResponse.empty()))
    )
    const upgraded = Effect.flatMap(
      HttpServerRequest.HttpServerRequest,
      ({ headers }) => headers["upgrade"]?.toLowerCase() === "websocket" ? untilStop : Effect.succeed(upgradeRequired)
    )
    yield* router.add("GET", path, upgraded)
    return protocol
  })
)

/** What the span of a call is named after, before the call's own name. */
export const spanPrefix = "rpc"

/** One failed call does not end the others of its connection. */
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
  Layer.provide([TasksRpc.layer, CoreRpc.layer, TokensRpc.layer, OperationsRpc.layer]),
  Layer.provide(RpcSerialization.layerNdjsonWith({ maxBufferSize: maxMessageBytes })),
  Layer.provide(Digest.layerWebCrypto)
)
