/** A WebSocket to `/rpc` that terminates peers that do not answer pings or do not read, and refuses messages that are too long. */
import { WebSocket } from "@effect/platform-node/NodeWS"
import { Duration, Effect, Schedule } from "effect"
import * as Limits from "../../domain/Limits.ts"

/** Unsent bytes after which the connection is terminated. */
const maxBacklogBytes = 64 * 1024 * 1024

const pingInterval = Duration.seconds(30)

/**
 * Unanswered pings after which the connection is terminated. A pong cannot overtake a message that is still arriving, and the
 * longest message takes 5 minutes at 220 KiB/s.
 */
const maxMissed = 10

/** The code with which `ws` closes when a message is longer than `maxPayload`. */
const messageTooBig = 1009
const tooLong = `A message is longer than ${Limits.rpcMessageBytes} bytes.`
/** The error of the RPC protocol that belongs to no call. */
const refusal = `${JSON.stringify({ _tag: "Defect", defect: { message: tooLong } })}\n`

export class BoundedWebSocket extends WebSocket {
  #missed = this.#watch()

  /** Starts the pings when the socket opens. Returns the initial count of missed ones. */
  #watch() {
    const pings = Effect.schedule(Effect.sync(() => this.#check()), Schedule.spaced(pingInterval))
    this.once("open", () => {
      const watching = Effect.runFork(pings)
      this.once("close", () => watching.interruptUnsafe())
    })
    this.on("pong", () => this.#missed = 0)
    this.on("message", () => this.#missed = 0)
    return 0
  }

  #check() {
    if (++this.#missed > maxMissed) this.terminate()
    else if (this.readyState === WebSocket.OPEN) this.ping()
  }

  override send(data: string | ArrayBufferLike | ArrayBufferView, ...rest: ReadonlyArray<never>) {
    if (this.bufferedAmount > maxBacklogBytes) this.terminate()
    else super.send(data, ...rest)
  }

  override close(code?: number, reason?: string | Buffer) {
    if (code !== messageTooBig) return super.close(code, reason)
    super.send(refusal)
    super.close(code, tooLong)
  }
}
