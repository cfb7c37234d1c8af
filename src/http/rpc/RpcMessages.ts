/** Parses messages of RPC clients, one JSON object per line. `RpcCodecs` decodes the payloads of calls. */
import { Predicate, Result, Schema } from "effect"
import * as Limits from "../../domain/Limits.ts"
import { ValueCounter } from "../handlers/body/ValueCounter.ts"

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

/** `size` is in characters, which approximates the bytes in memory. */
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

const malformed = new Malformed({ message: "Expected one RPC message in JSON on each line", isTooLong: false })

const tooMany = new Malformed({ message: `Expected at most ${Limits.rpcCalls} messages at a time`, isTooLong: true })

const tooManyValues = new Malformed({
  message: `Must not have more than ${Limits.rpcValues} values`,
  isTooLong: false
})

/** A text has at most one value per byte, so only large texts are counted. Parsed values take up to 80 times their size. */
const hasTooManyValues = (bytes: Uint8Array) => {
  if (bytes.length <= Limits.rpcValues) return false
  const values = new ValueCounter()
  values.add(bytes)
  return values.count > Limits.rpcValues
}

/** Every line may be followed by a blank one, and the text may end with a newline. */
const maxPieces = 2 * Limits.rpcCalls + 1

const parseLine = (line: string) =>
  Result.try({ try: (): unknown => JSON.parse(line), catch: () => malformed }).pipe(
    Result.flatMap((value) => Result.mapError(decodeMessage(value), () => malformed)),
    Result.map((message): Received => ({ message, size: line.length }))
  )

const parseText = (text: string): Result.Result<ReadonlyArray<Received>, Malformed> => {
  const pieces = text.split("\n", maxPieces + 1)
  const lines = pieces.filter((piece) => piece.trim() !== "")
  if (pieces.length > maxPieces || lines.length > Limits.rpcCalls) return Result.fail(tooMany)
  return Result.all(lines.map(parseLine))
}

const utf8 = new TextDecoder("utf-8", { fatal: true })
const encoder = new TextEncoder()

/** Parses the messages of a whole POST or of one WebSocket message; the last line needs no newline. */
export const parse = (data: string | Uint8Array): Result.Result<ReadonlyArray<Received>, Malformed> => {
  if (typeof data === "string") {
    return data.length > Limits.rpcValues && hasTooManyValues(encoder.encode(data))
      ? Result.fail(tooManyValues)
      : parseText(data)
  }
  if (hasTooManyValues(data)) return Result.fail(tooManyValues)
  return Result.flatMap(Result.try({ try: () => utf8.decode(data), catch: () => malformed }), parseText)
}
