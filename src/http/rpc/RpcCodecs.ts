/** Decodes the payloads and encodes the results of calls. Both are JSON. */
import { Result, Schema } from "effect"
import { Rpc, RpcSchema, RpcSerialization } from "effect/rpc"
import { InternalRpc } from "../contract/rpc/Rpc.ts"
import { type InvalidRequest, RpcUnauthorized } from "../contract/rpc/RpcErrors.ts"
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
    return [tag, {
      tag: rpc._tag,
      isStream: value !== undefined,
      decodePayload: Schema.decodeUnknownResult(codecFor(payloadSchema)),
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

export type DecodedCall = Result.Result.Success<ReturnType<typeof decode>>

const unknownTag = invalid("tag", "There is no such call")

const fail = (error: InvalidRequest | RpcUnauthorized) => Result.fail(error)

export const refused = new RpcUnauthorized({ message: "The token is missing or does not grant this call." })

/** Fails for an unknown call, for one that the token does not grant, and for a payload of the wrong type with an error that names the fields. */
export const decode = (call: Call, grants: Grants) => {
  const codec = codecs.get(call.tag)
  if (codec === undefined) return fail(unknownTag)
  if (!grants(call.tag)) return fail(refused)
  const payload = codec.decodePayload(call.payload)
  if (Result.isSuccess(payload)) return Result.succeed({ ...call, tag: codec.tag, payload: payload.success, codec })
  const errors = new FieldErrors("payload")
  collect(payload.failure.issue, [], errors, call.payload)
  return fail(asInvalidRequest(errors.toError()))
}
