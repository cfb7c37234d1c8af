/** All routes as one layer. */
import { Layer } from "effect"
import { Digest } from "effect/crypto"
import { HttpApiBuilder } from "effect/http-api"
import { Api } from "./contract/Api.ts"
import * as Cors from "./Cors.ts"
import * as Docs from "./Docs.ts"
import { BodyReader } from "./handlers/body/BodyReader.ts"
import * as Core from "./handlers/Core.ts"
import * as Files from "./handlers/Files.ts"
import * as Live from "./handlers/Live.ts"
import * as Operations from "./handlers/Operations.ts"
import * as Tasks from "./handlers/Tasks.ts"
import * as Tokens from "./handlers/Tokens.ts"
import { Uploads } from "./handlers/Uploads.ts"
import * as Home from "./Home.ts"
import * as Llms from "./Llms.ts"
import * as ResponseMiddleware from "./ResponseMiddleware.ts"
import * as Rpc from "./rpc/Rpc.ts"

/** Paths are compared exactly, so that another spelling cannot bypass a rule of a proxy. */
export const routerConfig = {
  caseSensitive: true,
  ignoreDuplicateSlashes: false,
  /** Keys of clients have up to 100 characters, which take 12 each when they are percent-encoded. */
  maxParamLength: 2000
}

const layerApi = HttpApiBuilder.layer(Api).pipe(
  Layer.provide([Files.layer, Tasks.layer, Core.layer, Tokens.layer, Operations.layerMetrics])
)

/** `ResponseMiddleware` is outermost, so that its headers are also on CORS preflight responses. */
export const layer = <E, R, E2 = never, R2 = never>(
  corsOrigins: Cors.CorsOrigins,
  layerExtensions: Layer.Layer<never, E, R>,
  // A caller without it has neither type.
  layerExtensionsRpc: Layer.Layer<never, E2, R2> = Layer.empty as Layer.Layer<never, E2, R2>
) =>
  Layer.mergeAll(
    Layer.provide(Layer.mergeAll(layerApi, Live.layer, layerExtensions), [BodyReader.layer, Uploads.layer]),
    Rpc.layer(Layer.provide(layerExtensionsRpc, [BodyReader.layer, Uploads.layer])),
    Operations.layerHealth,
    Home.layer,
    Docs.layer,
    Llms.layer,
    Cors.layer(corsOrigins)
  ).pipe(
    Layer.provide(Digest.layerWebCrypto),
    Layer.provideMerge(ResponseMiddleware.layer)
  )
