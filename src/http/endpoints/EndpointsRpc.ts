/** The group `Endpoints` of the internal interface: REST's operations. */
import { Schema } from "effect"
import { Rpc, RpcGroup } from "effect/rpc"
import { JsonValue } from "../../domain/json/OpaqueJson.ts"
import { DeliveryNotFound } from "../../domain/Webhook.ts"
import * as Errors from "../../services/endpoints/EndpointErrors.ts"
import { InvalidRequest, jsonCall, RpcAuthorization, Unavailable } from "../contract/rpc/RpcErrors.ts"

const one = { id: Schema.String }
const text = Schema.optionalKey(Schema.String)
const paging = { cursor: text, limit: Schema.optionalKey(Schema.Finite) }

const any = [InvalidRequest, Unavailable] as const
const owned = [...any, Errors.EndpointNotFound] as const

const StreamedEvent = Schema.Struct({
  /** The value of `after` that continues behind it. */
  position: Schema.Int,
  /** `webhook-id`. */
  id: Schema.String,
  type: Schema.String,
  /** The body as its text, over which signatures are made. */
  body: Schema.String
})

export class EndpointsRpc extends RpcGroup.make(
  jsonCall("Endpoints.create", { endpoint: JsonValue }, [...any, Errors.TooManyEndpoints]),
  jsonCall("Endpoints.list", paging, any),
  jsonCall("Endpoints.get", one, owned),
  jsonCall("Endpoints.update", { ...one, body: JsonValue }, owned),
  Rpc.make("Endpoints.delete", { payload: one, error: Schema.Union(owned) }),
  jsonCall("Endpoints.rotateSecret", { ...one, keep_old_for: Schema.optionalKey(Schema.Finite) }, owned),
  jsonCall("Endpoints.test", { ...one, event: text }, owned),
  jsonCall("Endpoints.deliveries", { ...one, ...paging, state: text }, owned),
  jsonCall("Endpoints.redeliver", { ...one, delivery: Schema.String }, [...owned, DeliveryNotFound]),
  jsonCall(
    "Endpoints.replay",
    { ...one, from: Schema.String, to: Schema.String, failed_only: Schema.optionalKey(Schema.Boolean) },
    owned
  ),
  Rpc.make("Endpoints.events", {
    payload: { ...one, after: Schema.optionalKey(Schema.Int) },
    success: StreamedEvent,
    error: Schema.Union([...owned, Errors.EndpointIsSent, Errors.TooManyReaders]),
    stream: true
  })
).middleware(RpcAuthorization) {}
