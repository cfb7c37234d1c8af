/** Parses messages of RPC clients, one JSON object per line. The payloads of calls stay bytes, which `RpcCodecs` decodes. */
import { Effect, Predicate, Result, Schema } from "effect"
import * as RawJson from "../../domain/json/RawJson.ts"
import { scanWithPauses } from "../../domain/json/Scanner.ts"
import { object, raw, small } from "../../domain/json/Shape.ts"
import { isSpace } from "../../domain/json/tables.ts"
import * as Limits from "../../domain/Limits.ts"

/** Not a union: Effect sorts the members of a union for each value. */
const Id = Schema.declare((value): value is string | number => typeof value === "string" || Number.isFinite(value))

/** Headers and flags of a call are dropped: the connection has the token, and each call gets a response. */
const Call = Schema.Struct({
  _tag: Schema.tag("Request"),
  id: Id,
  tag: Schema.String,
  payload: Schema.optionalKey(Schema.Unknown),
  traceId: Schema.optionalKey(Schema.String),
  spanId: Schema.optionalKey(Schema.String),
  sampled: Schema.optionalKey(Schema.Boolean)
})

const Control = Schema.Union([
  Schema.Struct({ _tag: Schema.Literals(["Ack", "Interrupt"]), requestId: Id }),
  Schema.Struct({ _tag: Schema.tag("Ping") })
])

export type Call = typeof Call.Type

/** `size` is in bytes of UTF-8, which approximates those in memory. */
export interface Received {
  readonly message: Call | typeof Control.Type
  readonly size: number
}

export class Malformed extends Schema.TaggedError<Malformed>()("Malformed", {
  message: Schema.String,
  isTooLong: Schema.Boolean
}) {}

const decodeCall = Schema.decodeUnknownResult(Call)
const decodeControl = Schema.decodeUnknownResult(Control)

const decodeMessage = (value: unknown): Result.Result<Received["message"], Schema.SchemaError> =>
  Predicate.isTagged(value, "Request") ? decodeCall(value) : decodeControl(value)

const encoder = new TextEncoder()

const malformed = new Malformed({ message: "Expected one RPC message in JSON on each line", isTooLong: false })

const tooMany = new Malformed({ message: `Expected at most ${Limits.rpcCalls} messages at a time`, isTooLong: true })

/** Every line may be followed by a blank one, and the text may end with a newline. */
const maxPieces = 2 * Limits.rpcCalls + 1

const lineFeed = 0x0a

/** The lines, of which the last needs no end; undefined for more than `maxPieces`. */
const linesOf = (bytes: Uint8Array): ReadonlyArray<Uint8Array> | undefined => {
  const lines: Array<Uint8Array> = []
  for (let from = 0; from <= bytes.length;) {
    if (lines.length === maxPieces) return undefined
    const end = bytes.indexOf(lineFeed, from)
    const line = bytes.subarray(from, end === -1 ? bytes.length : end)
    lines.push(line)
    from += line.length + 1
  }
  return lines
}

const shape = object({
  _tag: small,
  id: small,
  tag: small,
  payload: raw,
  traceId: small,
  spanId: small,
  sampled: small,
  requestId: small
})

const parseLine = (line: Uint8Array): Effect.Effect<Received, Malformed> =>
  Effect.flatMap(scanWithPauses(line, shape, Limits.scannedDepth), ({ problem, root }) => {
    if (problem !== undefined || root === undefined) return Effect.fail(malformed)
    const { excess, value } = RawJson.decodable(root, line)
    const decoded = decodeMessage(value)
    return excess.length === 0 && Result.isSuccess(decoded)
      ? Effect.succeed({ message: decoded.success, size: line.length })
      : Effect.fail(malformed)
  })

/** Parses the messages of a whole POST or of one WebSocket message, with pauses if they are long. */
export const parse = (data: string | Uint8Array): Effect.Effect<ReadonlyArray<Received>, Malformed> =>
  Effect.suspend(() => {
    const bytes = typeof data === "string" ? encoder.encode(data) : data
    const lines = linesOf(bytes)?.filter((line) => line.some((byte) => isSpace[byte] === 0))
    return lines === undefined || lines.length > Limits.rpcCalls
      ? Effect.fail(tooMany)
      : Effect.forEach(lines, parseLine)
  })
