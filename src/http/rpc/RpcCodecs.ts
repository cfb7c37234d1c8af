/** Decodes the payloads and encodes the results of calls. Both are JSON. The bodies in payloads stay bytes. */
import { Effect, Result, Schema, SchemaAST } from "effect"
import { Rpc, RpcSchema, RpcSerialization } from "effect/rpc"
import * as RawJson from "../../domain/json/RawJson.ts"
import { merge, object, type Shape, shapeOf, small } from "../../domain/json/Shape.ts"
import { InternalRpc } from "../contract/rpc/Rpc.ts"
import { RpcUnauthorized } from "../contract/rpc/RpcErrors.ts"
import type { AnyCall, ExtensionRoutes } from "../ExtensionRoutes.ts"
import { collect, FieldErrors } from "../handlers/body/BodyErrors.ts"
import type { Grants } from "../handlers/rpc/RpcAuthorization.ts"
import { asInvalidRequest, invalid } from "../handlers/rpc/RpcRequests.ts"
import type { Call } from "./RpcMessages.ts"

const { codecFor } = RpcSerialization.ndjson

/** True if a payload takes the parameters that extensions add to lists of tasks. */
const isOpen = ({ ast }: Schema.Top) => SchemaAST.isObjects(ast) && ast.indexSignatures.length > 0

const codecOf = (rpc: AnyCall, added: Shape) => {
  const { payloadSchema, successSchema } = rpc
  const value = RpcSchema.isStreamSchema(successSchema) ? successSchema.success : undefined
  const payload = codecFor(payloadSchema)
  return {
    // The server finds the handler by the tag; its type has the calls of the core.
    tag: rpc._tag as Parameters<typeof InternalRpc.accessHandler>[0],
    isStream: value !== undefined,
    shape: isOpen(payloadSchema) ? merge(shapeOf(payload), added) : shapeOf(payload),
    decodePayload: Schema.decodeUnknownResult(payload),
    // Neither an exit nor the values of a stream need services where the schemas of a call need none.
    encodeExit: Schema.encodeUnknownResult(codecFor(Rpc.exitSchema(rpc)) as Schema.Codec<unknown, unknown>),
    /** Encodes values of a stream. */
    encodeValues: Schema.encodeUnknownResult(
      codecFor(Schema.Array(value ?? Schema.Never)) as Schema.Codec<unknown, unknown>
    )
  }
}

export type DecodedCall = Effect.Success<ReturnType<ReturnType<typeof make>["decode"]>>

const unknownTag = invalid("tag", "There is no such call")

export const refused = new RpcUnauthorized({ message: "The token is missing or does not grant this call." })

const payloadIn = (payload: unknown, shape: Shape) =>
  payload instanceof RawJson.RawJson
    ? Effect.map(RawJson.find(shape, payload.bytes), (found) => RawJson.decodable(found, payload.bytes))
    : Effect.succeed({ value: payload, excess: [] })

/** The whole interface, with the calls of extensions. */
export const make = (extensions: ReadonlyArray<ExtensionRoutes>) => {
  const group = InternalRpc.add(...extensions.flatMap(({ rpc }) => rpc === undefined ? [] : [...rpc.requests.values()]))
  const names = extensions.flatMap(({ taskField }) => taskField?.parameter === undefined ? [] : [taskField.name])
  const added = object(Object.fromEntries(names.map((name) => [name, small])))
  const codecs = new Map(Array.from(group.requests, ([tag, rpc]) => [tag, codecOf(rpc, added)]))
  return {
    group,
    /** Fails for an unknown call, for one that the token does not grant, and for a payload of the wrong type with an error that names the fields. */
    decode: Effect.fnUntraced(function*(call: Call, grants: Grants) {
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
  }
}
