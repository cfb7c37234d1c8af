/**
 * A protocol for the RPC server in which the routes read the messages. The protocols of `effect/rpc` read bodies and lines
 * without a limit, and deadlock on a POST of more than 16 calls because they respond only after all calls have begun.
 */
import { Effect, Queue } from "effect"
import { type RpcMessage, RpcServer } from "effect/rpc"
import type { InvalidRequest, Unavailable } from "../contract/rpc/RpcErrors.ts"
import { type Call, codecFor, type Received } from "./RpcMessages.ts"

type CallId = Call["id"]

/** Receives the responses: one line each, and `end` after the last. */
export interface ResponseWriter {
  readonly write: (line: string) => Effect.Effect<void>
  readonly end: Effect.Effect<void>
}

export type Connections = Effect.Success<ReturnType<typeof make>>
export type Connection = Effect.Success<ReturnType<Connections["open"]>>

interface Line {
  readonly write: (response: RpcMessage.FromServerEncoded) => Effect.Effect<void>
  readonly end: Effect.Effect<void>
  readonly releases: Map<CallId, Effect.Effect<void>>
}

const failed = (requestId: CallId, error: InvalidRequest | Unavailable): RpcMessage.FromServerEncoded => ({
  _tag: "Exit",
  requestId,
  exit: { _tag: "Failure", cause: [{ _tag: "Fail", error }] }
})

const release = ({ releases }: Line, id: CallId) =>
  Effect.suspend(() => {
    const release = releases.get(id)
    releases.delete(id)
    return release ?? Effect.void
  })

/** Clients on duplex connections acknowledge each chunk of a stream, and may send trace ids with their calls. */
export const make = Effect.fnUntraced(function*({ isDuplex }: { readonly isDuplex: boolean }) {
  const lines = new Map<number, Line>()
  const disconnects = yield* Queue.unbounded<number>()
  let opened = 0
  let forward: (id: number, message: RpcMessage.FromClientEncoded) => Effect.Effect<void> = () => Effect.void

  const send = (id: number, response: RpcMessage.FromServerEncoded) =>
    Effect.suspend(() => {
      const line = lines.get(id)
      if (line === undefined) return Effect.void
      const written = line.write(response)
      return response._tag === "Exit" ? Effect.ensuring(written, release(line, response.requestId)) : written
    })

  const protocol = yield* RpcServer.Protocol.make((write) => {
    forward = write
    return Effect.succeed({
      disconnects,
      send,
      end: (id: number) => lines.get(id)?.end ?? Effect.void,
      clientIds: Effect.sync(() => new Set(lines.keys())),
      initialMessage: Effect.succeedNone,
      supportsAck: isDuplex,
      supportsTransferables: false,
      supportsSpanPropagation: isDuplex,
      supportsNotifications: true,
      codecFor
    })
  })

  const close = (id: number, line: Line) =>
    Effect.suspend(() => {
      lines.delete(id)
      Queue.offerUnsafe(disconnects, id)
      return Effect.forEach([...line.releases.keys()], (call) => release(line, call), { discard: true })
    })

  /** Opens a connection until its scope closes, which interrupts its calls in flight. */
  const open = Effect.fnUntraced(function*({ end, write }: ResponseWriter) {
    const id = opened++
    const line: Line = { write: (response) => write(`${JSON.stringify(response)}\n`), end, releases: new Map() }
    yield* Effect.acquireRelease(Effect.sync(() => lines.set(id, line)), () => close(id, line))
    return {
      isInFlight: (call: CallId) => line.releases.has(call),
      inFlight: () => line.releases.size,
      /** Begins a call; `release` runs once after its response or when the connection closes. */
      begin: (call: Call, release: Effect.Effect<void>) => {
        line.releases.set(call.id, release)
        return forward(id, { ...call, payload: call.payload, headers: [] })
      },
      control: (message: Exclude<Received["message"], Call>) => forward(id, message),
      fail: (call: CallId, error: InvalidRequest | Unavailable) => line.write(failed(call, error)),
      /** Reports an error that belongs to no call. */
      reportError: (message: string) => line.write({ _tag: "Defect", defect: { message } }),
      /** Signals that no more calls follow. */
      finish: forward(id, { _tag: "Eof" })
    }
  })

  return { protocol, open }
})
