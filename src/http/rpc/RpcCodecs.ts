/** Decodes the payloads and encodes the results of calls. Both are JSON. The bodies in payloads stay bytes. */
import { Effect, Result, Schema } from "effect"
import { Rpc, RpcSchema, RpcSerialization } from "effect/rpc"
import * as RawJson from "../../domain/json/RawJson.ts"
import { type Shape, shapeOf } from "../../domain/json/Shape.ts"
import { InternalRpc } from "../contract/rpc/Rpc.ts"
import { RpcUnauthorized } from "../contract/rpc/RpcErrors.ts"
import type { ExtensionRoutes } from "../ExtensionRoutes.ts"
import { collect, FieldErrors } from "../handlers/body/BodyErrors.ts"
import type { Grants } from "../handlers/rpc/RpcAuthorization.ts"
import { asInvalidRequest, invalid } from "../handlers/rpc/RpcRequests.ts"
import type { Call } from "./RpcMessages.ts"

const { codecFor } = RpcSerialization.ndjson

const codecsOf = ({ requests }: typeof InternalRpc) =>
  Array.from(requests, ([tag, rpc]) => {
    const { payloadSchema, successSchema } = rpc
    const value = RpcSchema.isStreamSchema(successSchema) ? successSchema.success : undefined
    const payload = codecFor(payloadSchema)
    return [tag, {
      tag: rpc._tag,
      isStream: value !== undefined,
      shape: shapeOf(payload),
      decodePayload: Schema.decodeUnknownResult(payload),
      encodeExit: Schema.encodeUnknownResult(codecFor(Rpc.exitSchema(rpc))),
      /** Encodes values of a stream. */
      encodeValues: Schema.encodeUnknownResult(codecFor(Schema.Array(value ?? Schema.Never)))
    }] as const
  })

const codecs = new Map(codecsOf(InternalRpc))

/** The whole interface with the calls of extensions, whose types only their clients know. */
export const withExtensions = (extensions: ReadonlyArray<ExtensionRoutes>): typeof InternalRpc => {
  let whole = InternalRpc
  for (const { rpc } of extensions) {
    if (rpc === undefined) continue
    // The server takes groups of any calls; the type stands for the calls of the core.
    const group = rpc as unknown as typeof InternalRpc
    for (const [tag, codec] of codecsOf(group)) codecs.set(tag, codec)
    whole = whole.merge(group) as unknown as typeof InternalRpc
  }
  return whole
}

export type DecodedCall = Effect.Success<ReturnType<typeof decode>>

const unknownTag = invalid("tag", "There is no such call")

export const refused = new RpcUnauthorized({ message: "The token is missing or does not grant this call." })

const payloadIn = (payload: unknown, shape: Shape) =>
  payload instanceof RawJson.RawJson
    ? Effect.map(RawJson.find(shape, payload.bytes), (found) => RawJson.decodable(found, payload.bytes))
    : Effect.succeed({ value: payload, excess: [] })

/** Fails for an unknown call, for one that the token does not grant, and for a payload of the wrong type with an error that names the fields. */
export const decode = Effect.fnUntraced(function*(call: Call, grants: Grants) {
  const codec = codecs.get(call.tag)
  if (codec === undefined) return yield* unknownTag
  if (!grants.has(call.tag)) return yield* refused
  const { excess, value } = yield* payloadIn(call.payload, codec.shape)
  const errors = new FieldErrors("payload")
  errors.addExcess(excess)
  const payload = codec.decodePayload(value)
  if (Result.isSuccess(payload) && errors.isEmpty) {
    return { ...call, tag: codec.tag, payload: payload.success, codec, caller: grants.name }
  }
  if (Result.isFailure(payload)) collect(payload.failure.issue, [], errors, value)
  return yield* asInvalidRequest(errors.toError())
})
