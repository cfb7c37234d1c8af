/**
 * The HTTP client of the built-in backend, which joins the small chunks of a model's stream. A model sends thousands of them, and to
 * wake the fiber that reads them costs more than to copy them.
 */
import * as NodeHttpClient from "@effect/platform-node/NodeHttpClient"
import type { Dispatcher } from "@effect/platform-node/Undici"
import { Duration, Effect, Layer } from "effect"
import * as Outgoing from "../../node/Outgoing.ts"
import { pieceBytes, pieceInterval } from "./OpenAiStream.ts"

interface Options {
  /** Maximum milliseconds that bytes wait for more. */
  readonly interval: number
  /** Maximum bytes that wait. */
  readonly maxBytes: number
  /** Matches the Latin-1 of a chunk that passes immediately. A match that is spread over two chunks may wait. */
  readonly urgent: RegExp
}

type Given<Name extends keyof Dispatcher.DispatchHandler> = Parameters<NonNullable<Dispatcher.DispatchHandler[Name]>>

class Joiner implements Dispatcher.DispatchHandler {
  readonly #handler: Dispatcher.DispatchHandler
  readonly #options: Options
  #timer: NodeJS.Timeout | undefined
  /** Grows with the chunks of the response, because most are far smaller than `maxBytes`. */
  #buffer = Buffer.alloc(0)
  #size = 0

  constructor(handler: Dispatcher.DispatchHandler, options: Options) {
    this.#handler = handler
    this.#options = options
  }

  onRequestStart(...given: Given<"onRequestStart">) {
    this.#handler.onRequestStart?.(...given)
  }

  onRequestUpgrade(...given: Given<"onRequestUpgrade">) {
    this.#handler.onRequestUpgrade?.(...given)
  }

  onResponseStart(...given: Given<"onResponseStart">) {
    this.#handler.onResponseStart?.(...given)
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer) {
    const { interval, maxBytes, urgent } = this.#options
    if (this.#size + chunk.length > maxBytes) this.#pass(controller)
    if (chunk.length > maxBytes) return this.#handler.onResponseData?.(controller, chunk)
    this.#reserve(this.#size + chunk.length)
    this.#size += chunk.copy(this.#buffer, this.#size)
    if (urgent.test(chunk.toString("latin1"))) return this.#pass(controller)
    this.#timer ??= setTimeout(() => this.#pass(controller), interval)
  }

  onResponseEnd(...given: Given<"onResponseEnd">) {
    this.#pass(given[0])
    this.#handler.onResponseEnd?.(...given)
  }

  onResponseError(...given: Given<"onResponseError">) {
    this.#pass(given[0])
    this.#handler.onResponseError?.(...given)
  }

  #reserve(size: number) {
    if (size <= this.#buffer.length) return
    const larger = Buffer.allocUnsafeSlow(Math.max(size, 2 * this.#buffer.length))
    this.#buffer.copy(larger, 0, 0, this.#size)
    this.#buffer = larger
  }

  #pass(controller: Dispatcher.DispatchController) {
    clearTimeout(this.#timer)
    this.#timer = undefined
    if (this.#size === 0) return
    const chunk = Buffer.from(this.#buffer.subarray(0, this.#size))
    this.#size = 0
    this.#handler.onResponseData?.(controller, chunk)
  }
}

/** An interceptor of undici. */
export const joinChunks =
  (options: Options): Dispatcher.DispatcherComposeInterceptor => (dispatch) => (request, handler) =>
    dispatch(request, new Joiner(handler, options))

/** The end of a stream and an error in it do not wait; some providers send `"error": null` in every event. */
const join = joinChunks({
  interval: Duration.toMillis(pieceInterval),
  maxBytes: pieceBytes,
  urgent: /\[DONE\]|"error": ?["{]/
})

const layerDispatcher = Layer.effect(
  NodeHttpClient.Dispatcher,
  Effect.map(Outgoing.makeDispatcher(), (agent) => agent.compose(join))
)

export const layer = NodeHttpClient.layerUndiciNoDispatcher.pipe(Layer.provide(layerDispatcher))
