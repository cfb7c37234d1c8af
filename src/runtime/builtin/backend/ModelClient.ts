/** The HTTP client of the built-in backend, which joins the chunks of a model's stream. */
import * as NodeHttpClient from "@effect/platform-node/NodeHttpClient"
import { Duration, Effect, Layer } from "effect"
import { joinChunks } from "../../node/JoinedChunks.ts"
import { pieceBytes, textInterval } from "./OpenAiStream.ts"

/** The end of a stream and an error in it do not wait; some providers send `"error": null` in every event. */
const join = joinChunks({
  interval: Duration.toMillis(textInterval),
  maxBytes: pieceBytes,
  urgent: /\[DONE\]|"error": ?["{]/
})

const layerDispatcher = Layer.effect(
  NodeHttpClient.Dispatcher,
  Effect.map(NodeHttpClient.makeDispatcher, (agent) => agent.compose(join))
)

export const layer = NodeHttpClient.layerUndiciNoDispatcher.pipe(Layer.provide(layerDispatcher))
