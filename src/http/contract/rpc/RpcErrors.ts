/** Failures of the internal interface, distinguished by `_tag`. Those about a task are in `domain/TaskErrors`. */
import { Schema } from "effect"
import { Rpc, RpcMiddleware } from "effect/rpc"
import { JsonValue } from "../../../domain/json/OpaqueJson.ts"

/** The bearer token is not one of `INTERNAL_TOKENS`, or for `Core` not one of `CORE_EVENT_TOKENS`. */
export class RpcUnauthorized extends Schema.TaggedError<RpcUnauthorized>()("Unauthorized", {
  message: Schema.String
}) {}

/** The same as REST's 422: `errors` maps a dotted field path to messages. */
export class InvalidRequest extends Schema.TaggedError<InvalidRequest>()("InvalidRequest", {
  message: Schema.String,
  errors: Schema.Record(Schema.String, Schema.Array(Schema.String))
}) {}

/** The database or another dependency is unavailable. It is unknown whether the call took effect. Try again soon. */
export class Unavailable extends Schema.TaggedError<Unavailable>()("Unavailable", { message: Schema.String }) {}

/** The failures of every call that has a body and needs the store. */
export const refusals = Schema.Union([InvalidRequest, Unavailable])

/** A call whose result is REST's JSON. */
export const jsonCall = <
  const Tag extends string,
  Payload extends Schema.Struct.Fields,
  const Failures extends ReadonlyArray<Schema.Top>
>(
  tag: Tag,
  payload: Payload,
  failures: Failures
) => Rpc.make(tag, { payload, success: JsonValue, error: Schema.Union(failures) })

/** A fault of the service. Details are only in its log. */
export class InternalFailure extends Schema.TaggedError<InternalFailure>()("InternalFailure", {
  message: Schema.String
}) {}

/**
 * Middleware of every call: requires a token that grants it as `Authorization: Bearer …` in the headers of the POST or of the
 * WebSocket's handshake, and makes faults typed errors. A wrong payload is an `InvalidRequest`.
 */
export class RpcAuthorization extends RpcMiddleware.Service<RpcAuthorization>()(
  "async-task-service/http/contract/rpc/RpcErrors/RpcAuthorization",
  { error: Schema.Union([RpcUnauthorized, InvalidRequest, Unavailable, InternalFailure]) }
) {}
