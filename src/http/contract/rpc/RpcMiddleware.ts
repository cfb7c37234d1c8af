/** Middleware of every call of the internal interface: requires one of `INTERNAL_TOKENS`, and makes faults typed errors. */
import { Schema } from "effect"
import { RpcMiddleware } from "effect/rpc"
import { InternalFailure, InvalidRequest, RpcUnauthorized, Unavailable } from "./RpcErrors.ts"

/** `Authorization: Bearer …` in the headers of the POST or of the WebSocket's handshake. A wrong payload is an `InvalidRequest`. */
export class RpcAuthorization extends RpcMiddleware.Service<RpcAuthorization>()(
  "async-task-service/http/contract/rpc/RpcMiddleware/RpcAuthorization",
  { error: Schema.Union([RpcUnauthorized, InvalidRequest, Unavailable, InternalFailure]) }
) {}
