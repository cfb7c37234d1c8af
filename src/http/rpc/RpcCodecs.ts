/** Decodes the payloads and encodes the results of calls. Both are JSON. */
import { Result, Schema } from "effect"
import { Rpc, RpcSchema, RpcSerialization } from "effect/rpc"
import { InternalRpc } from "../contract/rpc/Rpc.ts"
import { collect, FieldErrors } from "../handlers/body/BodyErrors.ts"
import { asInvalidRequest, invalid } from "../handlers/rpc/RpcRequests.ts"
import type { Call } from "./RpcMessages.ts"

const { codecFor } = RpcSerialization.ndjson

const codecs = new Map(
  Array.from(InternalRpc.requests, ([tag, rpc]) => {
    const { payloadSchema, successSchema } = rpc
    const value = RpcSchema.isStreamSchema(successSchema) ? successSchema.success : undefined
    return [tag, {
      tag: rpc._tag,
      isStream: value !== undefined,
      decodePayload: Schema.decodeUnknownResult(codecFor(payloadSchema)),
      encodeExit: Schema.encodeUnknownResult(codecFor(Rpc.exitSchema(rpc))),
      /** Encodes values of a stream. */
      encodeValues: Schema.encodeUnknownResult(codecFor(Schema.Array(value ?? Schema.Never)))
    }] as const
  })
)

export type DecodedCall = Result.Result.Success<ReturnType<typeof decode>>

const unknownTag = invalid("tag", "There is no such call")

/** Fails for an unknown call, and for a payload of the wrong type with an error that names the fields. */
export const decode = (call: Call) => {
  const codec = codecs.get(call.tag)
  if (codec === undefined) return Result.fail(unknownTag)
  const payload = codec.decodePayload(call.payload)
  if (Result.isSuccess(payload)) return Result.succeed({ ...call, tag: codec.tag, payload: payload.success, codec })
  const errors = new FieldErrors("payload")
  collect(payload.failure.issue, [], errors, call.payload)
  return Result.fail(asInvalidRequest(errors.toError()))
}
