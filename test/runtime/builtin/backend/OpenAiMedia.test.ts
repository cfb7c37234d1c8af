import { NodeHttpClient, NodeHttpServer } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit, Layer, Stream } from "effect"
import { HttpRouter, HttpServer, HttpServerResponse } from "effect/http"
import { createServer } from "node:http"
import { generateImage } from "../../../../src/runtime/builtin/backend/OpenAiMedia.ts"

const image = new Uint8Array(100_000).fill(7)

/** An image provider that responds with URLs of a finite image and of an endless one. */
const layerProvider = HttpRouter.serve(
  HttpRouter.use((router) =>
    Effect.gen(function*() {
      const url = HttpServer.formatAddress((yield* HttpServer.HttpServer).address)
      yield* router.add("POST", "/:kind/images/generations", (request) =>
        HttpServerResponse.json({ data: [{ url: `${url}/${request.url.split("/")[1]}` }] }))
      yield* router.add("GET", "/whole", HttpServerResponse.uint8Array(image))
      yield* router.add("GET", "/endless", HttpServerResponse.stream(Stream.forever(Stream.make(image))))
    })
  ),
  { disableLogger: true }
).pipe(
  Layer.provideMerge(NodeHttpServer.layer(() => createServer(), { port: 0, host: "127.0.0.1" })),
  Layer.provideMerge(NodeHttpClient.layerUndici)
)

describe("an image that the provider names by its URL", () => {
  it.live("is downloaded up to a maximum size", () =>
    Effect.gen(function*() {
      const url = HttpServer.formatAddress((yield* HttpServer.HttpServer).address)
      const draw = (kind: string) =>
        generateImage({ baseUrl: `${url}/${kind}`, apiKey: undefined, model: "painter", parameters: {} }, "a cat")
      assert.deepStrictEqual(new Uint8Array(yield* draw("whole")), image)
      assert.isTrue(Exit.isFailure(yield* Effect.exit(draw("endless"))))
    }).pipe(Effect.provide(layerProvider)))
})
