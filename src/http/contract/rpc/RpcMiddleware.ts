/** What holds for every call of the internal interface (CONTRACT 6): one of `INTERNAL_TOKENS`, and faults as typed errors. */
import { Schema } from "effect"
import { RpcMiddleware } from "effect/rpc"
import { InternalFailure, InvalidRequest, RpcUnauthorized, Unavailable } from "./RpcErrors.ts"

/** `Authorization: Bearer …` in the headers of the POST or of the handshake. A payload of wrong types is an `InvalidRequest`. */
export class RpcAuthorization extends RpcMiddleware.Service<RpcAuthorization>()(
  "async-task-service/http/contract/rpc/RpcMiddleware/RpcAuthorization",
  { error: Schema.Union([RpcUnauthorized, InvalidRequest, Unavailable, InternalFailure]) }
) {}
