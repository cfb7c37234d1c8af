/** A server's WebSocket that terminates peers which answer no pings or do not read. */
import { WebSocket } from "@effect/platform-node/NodeWS"
import { Duration, Effect, Schedule } from "effect"

/** Bytes that wait for the peer to read before its connection is cut. */
const maxBacklogBytes = 64 * 1024 * 1024

const pingInterval = Duration.seconds(30)

/**
 * Pings without an answer before the peer counts as gone. A pong cannot overtake a message that is still arriving: the longest
 * takes 5 minutes at 64 KiB/s.
 */
const maxMissed = 10

export class BoundedWebSocket extends WebSocket {
  #missed = this.#watch()

  /** Starts the pings; none is missed yet. */
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
}
