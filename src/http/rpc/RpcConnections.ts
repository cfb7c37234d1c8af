/**
 * Connections of clients to the RPC server. The routes read the messages: the protocols of `effect/rpc` read bodies and lines
 * without a limit, and deadlock on a POST of more than 16 calls because they respond only after all calls have begun.
 */
import { Context, Effect, References, Result, Scope, Tracer } from "effect"
import { RpcMessage, RpcServer } from "effect/rpc"
import type { InternalFailure, InvalidRequest, RpcUnauthorized, Unavailable } from "../contract/rpc/RpcErrors.ts"
import { Extensions } from "../ExtensionRoutes.ts"
import { internalFailure } from "../handlers/rpc/RpcAuthorization.ts"
import { headersOf } from "../handlers/rpc/RpcRequests.ts"
import * as RpcCodecs from "./RpcCodecs.ts"
import type { Call, Received } from "./RpcMessages.ts"

type CallId = Call["id"]

/** Receives the responses: one line each, and `end` after the last. */
export interface ResponseWriter {
  readonly write: (line: string) => Effect.Effect<void>
  readonly end: Effect.Effect<void>
}

export type Connections = Effect.Success<ReturnType<typeof make>>
export type Connection = Effect.Success<ReturnType<Connections["open"]>>

interface Line {
  readonly write: (response: object) => Effect.Effect<void>
  readonly end: Effect.Effect<void>
  readonly calls: Map<CallId, { readonly codec: RpcCodecs.DecodedCall["codec"]; readonly release: Effect.Effect<void> }>
}

export const spanPrefix = "rpc"

const failed = (requestId: CallId, error: InvalidRequest | Unavailable | RpcUnauthorized | InternalFailure) => ({
  _tag: "Exit",
  requestId,
  exit: { _tag: "Failure", cause: [{ _tag: "Fail", error }] }
})

const release = ({ calls }: Line, id: CallId) =>
  Effect.suspend(() => {
    const call = calls.get(id)
    calls.delete(id)
    return call?.release ?? Effect.void
  })

/** Writes the result of a call. Its id is in use until the server has ended it, which happens after the write. */
const end = (line: Line, id: CallId, response: object) => Effect.ensuring(line.write(response), release(line, id))

/** A message of the server to a connection. */
type FromServer = Parameters<Parameters<typeof RpcServer.makeNoSerialization>[1]["onFromServer"]>[0]

/** Writes what the server answers. */
const respond = (line: Line, response: FromServer): Effect.Effect<void> => {
  if (response._tag === "ClientEnd") return line.end
  if (response._tag === "Defect") {
    return Effect.andThen(
      Effect.logError("a call failed", response.defect),
      line.write({ _tag: "Defect", defect: { message: internalFailure.message } })
    )
  }
  const { requestId } = response
  const codec = line.calls.get(requestId)?.codec
  if (codec === undefined) return Effect.void
  const isExit = response._tag === "Exit"
  const encoded = isExit ? codec.encodeExit(response.exit) : codec.encodeValues(response.values)
  if (Result.isFailure(encoded)) {
    return Effect.logError("the result of a call could not be encoded", encoded.failure).pipe(
      Effect.andThen(end(line, requestId, failed(requestId, internalFailure))),
      // Ends a stream.
      Effect.andThen(Effect.die(encoded.failure))
    )
  }
  return isExit
    ? end(line, requestId, { _tag: "Exit", requestId, exit: encoded.success })
    : line.write({ _tag: "Chunk", requestId, values: encoded.success })
}

/** Clients on duplex connections acknowledge each chunk of a stream, and may send trace ids with their calls. */
export const make = Effect.fnUntraced(function*({ isDuplex }: { readonly isDuplex: boolean }) {
  const lines = new Map<number, Line>()
  let opened = 0

  const { decode, group } = RpcCodecs.make(yield* Extensions)
  const server = yield* RpcServer.makeNoSerialization(group, {
    // A defect in one call does not end the other calls of its connection.
    disableFatalDefects: true,
    disableTracing: !(yield* References.TracerEnabled),
    disableSpanPropagation: !isDuplex,
    disableClientAcks: !isDuplex,
    spanPrefix,
    onFromServer: (response) => {
      const line = lines.get(response.clientId)
      return line === undefined ? Effect.void : respond(line, response)
    }
  })

  const close = (id: number, line: Line) =>
    Effect.suspend(() => {
      lines.delete(id)
      return Effect.andThen(
        server.disconnect(id),
        Effect.forEach([...line.calls.keys()], (call) => release(line, call), { discard: true })
      )
    })

  /** Opens a connection until its scope closes, which interrupts its calls in flight. */
  const open = Effect.fnUntraced(function*(writer: ResponseWriter) {
    const id = opened++
    const line: Line = {
      write: (response) => writer.write(`${JSON.stringify(response)}\n`),
      end: writer.end,
      calls: new Map()
    }
    // The server merges the context in which it is called into that of the handlers, by copying both unless one is empty.
    const span = Context.getOrUndefined(yield* Effect.context<never>(), Tracer.ParentSpan)
    const context = span === undefined ? Context.empty() : Context.make(Tracer.ParentSpan, span)
    const forward = (message: Parameters<typeof server.write>[1]) =>
      server.write(id, message).pipe(Effect.updateContext<never, never>(() => context))
    lines.set(id, line)
    // `Effect.acquireRelease` would copy the context of the request.
    yield* Scope.addFinalizer(yield* Effect.scope, close(id, line))
    return {
      isInFlight: (call: CallId) => line.calls.has(call),
      inFlight: () => line.calls.size,
      fail: (call: CallId, error: InvalidRequest | Unavailable | RpcUnauthorized) => line.write(failed(call, error)),
      /** Begins a call; `release` runs once after its response or when the connection closes. */
      begin: ({ caller, codec, id, ...call }: RpcCodecs.DecodedCall, release: Effect.Effect<void>) => {
        line.calls.set(id, { codec, release })
        return forward({ ...call, id: RpcMessage.RequestId(id), headers: headersOf(caller) })
      },
      control: (message: Exclude<Received["message"], Call>) =>
        message._tag === "Ping"
          ? line.write(RpcMessage.constPong)
          : forward({ _tag: message._tag, requestId: RpcMessage.RequestId(message.requestId), interruptors: [] }),
      /** Reports an error that belongs to no call. */
      reportError: (message: string) => line.write({ _tag: "Defect", defect: { message } }),
      /** Signals that no more calls follow. */
      finish: forward({ _tag: "Eof" })
    }
  })

  return { open, decode }
})
