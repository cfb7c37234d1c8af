/** Parses messages of RPC clients, one JSON object per line: digits beyond 2^53 are not kept. `RpcCodecs` decodes the payloads of calls. */
import { Predicate, Result, Schema } from "effect"
import { isSpace } from "../../domain/JsonBytes.ts"
import { read } from "../../domain/JsonReader.ts"
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

const tooManyValues = new Malformed({
  message: `Must not have more than ${Limits.rpcValues} values`,
  isTooLong: false
})

const [quote, backslash, comma, openBracket, openBrace] = [0x22, 0x5c, 0x2c, 0x5b, 0x7b]

/** Whether the JSON has more values than permitted: each follows a comma or an opening bracket. Takes about 1 ms for a MiB. */
const hasTooManyValues = (bytes: Uint8Array): boolean => {
  // Nearly every value takes two bytes.
  if (bytes.length <= Limits.rpcValues) return false
  let count = 0
  let isText = false
  for (let index = 0; index < bytes.length; index++) {
    const byte = bytes[index]
    if (byte === quote) isText = !isText
    else if (isText) index += byte === backslash ? 1 : 0
    else if (byte === comma || byte === openBracket || byte === openBrace) count++
  }
  return count > Limits.rpcValues
}

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

const parseLine = (line: Uint8Array) =>
  read(line).pipe(
    Result.mapError(() => malformed),
    Result.flatMap((value) => Result.mapError(decodeMessage(value), () => malformed)),
    Result.map((message): Received => ({ message, size: line.length }))
  )

/** Parses the messages of a whole POST or of one WebSocket message. */
export const parse = (data: string | Uint8Array): Result.Result<ReadonlyArray<Received>, Malformed> => {
  const bytes = typeof data === "string" ? encoder.encode(data) : data
  if (hasTooManyValues(bytes)) return Result.fail(tooManyValues)
  const lines = linesOf(bytes)?.filter((line) => line.some((byte) => isSpace[byte] === 0))
  return lines === undefined || lines.length > Limits.rpcCalls ? Result.fail(tooMany) : Result.all(lines.map(parseLine))
}
