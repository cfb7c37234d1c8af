/**
 * Reads small bodies from Node's requests directly. Effect's stream of a request, and its `arrayBuffer`, take about 10 kB of
 * objects per request.
 */
import { Layer } from "effect"
import { IncomingMessage } from "node:http"
import * as SmallBodies from "../../http/handlers/body/SmallBodies.ts"

const none = new Uint8Array(0)

export const layer = Layer.succeed(
  SmallBodies.SocketBodies,
  (source) =>
    !(source instanceof IncomingMessage) ? undefined : (onEnd) => {
      if (source.destroyed) return onEnd(undefined)
      let bytes: Uint8Array = none
      source.on("data", (chunk: Uint8Array) => {
        bytes = bytes === none ? chunk : Buffer.concat([bytes, chunk])
      })
      source.once("end", () => onEnd(bytes))
      // After the end it means nothing: the body was read.
      source.once("close", () => onEnd(undefined))
    }
)
