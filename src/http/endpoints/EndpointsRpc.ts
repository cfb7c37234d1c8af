/** The group `Endpoints` of the internal interface: REST's operations. */
import { Schema } from "effect"
import { Rpc, RpcGroup } from "effect/rpc"
import { JsonValue } from "../../domain/json/OpaqueJson.ts"
import { DeliveryNotFound } from "../../domain/Webhook.ts"
import * as Errors from "../../services/endpoints/EndpointErrors.ts"
import { InvalidRequest, RpcAuthorization, Unavailable } from "../contract/rpc/RpcErrors.ts"

const one = { id: Schema.String }
const text = Schema.optionalKey(Schema.String)
const paging = { cursor: text, limit: Schema.optionalKey(Schema.Finite) }

const owned = Schema.Union([InvalidRequest, Unavailable, Errors.EndpointNotFound])

const StreamedEvent = Schema.Struct({
  /** The value of `after` that continues behind it. */
  position: Schema.Int,
  /** `webhook-id`. */
  id: Schema.String,
  type: Schema.String,
  /** The body as its text, over which signatures are made. */
  body: Schema.String
})

/** Endpoints, deliveries and pages are REST's JSON. */
export class EndpointsRpc extends RpcGroup.make(
  Rpc.make("Endpoints.create", {
    payload: { endpoint: JsonValue },
    success: JsonValue,
    error: Schema.Union([InvalidRequest, Unavailable, Errors.TooManyEndpoints])
  }),
  Rpc.make("Endpoints.list", {
    payload: paging,
    success: JsonValue,
    error: Schema.Union([InvalidRequest, Unavailable])
  }),
  Rpc.make("Endpoints.get", { payload: one, success: JsonValue, error: owned }),
  Rpc.make("Endpoints.update", { payload: { ...one, body: JsonValue }, success: JsonValue, error: owned }),
  Rpc.make("Endpoints.delete", { payload: one, error: owned }),
  Rpc.make("Endpoints.rotateSecret", {
    payload: { ...one, keep_old_for: Schema.optionalKey(Schema.Finite) },
    success: JsonValue,
    error: owned
  }),
  Rpc.make("Endpoints.test", { payload: { ...one, event: text }, success: JsonValue, error: owned }),
  Rpc.make("Endpoints.deliveries", { payload: { ...one, ...paging, state: text }, success: JsonValue, error: owned }),
  Rpc.make("Endpoints.redeliver", {
    payload: { ...one, delivery: Schema.String },
    success: JsonValue,
    error: Schema.Union([InvalidRequest, Unavailable, Errors.EndpointNotFound, DeliveryNotFound])
  }),
  Rpc.make("Endpoints.replay", {
    payload: { ...one, from: Schema.String, to: Schema.String, failed_only: Schema.optionalKey(Schema.Boolean) },
    success: JsonValue,
    error: owned
  }),
  Rpc.make("Endpoints.events", {
    payload: { ...one, after: Schema.optionalKey(Schema.Int) },
    success: StreamedEvent,
    error: Schema.Union([
      InvalidRequest,
      Unavailable,
      Errors.EndpointNotFound,
      Errors.EndpointIsSent,
      Errors.TooManyReaders
    ]),
    stream: true
  })
).middleware(RpcAuthorization) {}
