/** All routes as one layer. */
import { Layer } from "effect"
import { Digest } from "effect/crypto"
import { HttpApiBuilder } from "effect/http-api"
import { OverviewReader } from "../services/operations/Overview.ts"
import { Operators } from "../services/Operators.ts"
import { Api } from "./contract/Api.ts"
import * as Cors from "./Cors.ts"
import * as Docs from "./Docs.ts"
import * as OpenAi from "./facades/openai/Routes.ts"
import { BodyReader } from "./handlers/body/BodyReader.ts"
import * as Core from "./handlers/Core.ts"
import * as Files from "./handlers/Files.ts"
import * as Health from "./handlers/Health.ts"
import * as Operations from "./handlers/Operations.ts"
import * as Operator from "./handlers/Operator.ts"
import * as OperatorAuthorization from "./handlers/OperatorAuthorization.ts"
import * as Tasks from "./handlers/Tasks.ts"
import * as Tokens from "./handlers/Tokens.ts"
import { Uploads } from "./handlers/Uploads.ts"
import * as Home from "./Home.ts"
import * as ResponseMiddleware from "./ResponseMiddleware.ts"
import * as Rpc from "./rpc/Rpc.ts"

/** Paths are compared exactly, so that another spelling cannot bypass a rule of a proxy. */
export const routerConfig = { caseSensitive: true, ignoreDuplicateSlashes: false }

const layerApi = Layer.merge(HttpApiBuilder.layer(Api), OpenAi.layer).pipe(
  Layer.provide([Files.layer, Tasks.layer, Core.layer, Tokens.layer, Operations.layer, Operator.layer]),
  Layer.provide([Operators.layer, OverviewReader.layer, OperatorAuthorization.layer]),
  Layer.provide([BodyReader.layer, Uploads.layer])
)

/** `ResponseMiddleware` is outermost, so that its headers are also on CORS preflight responses. */
export const layer = (corsOrigins: Cors.CorsOrigins) =>
  Layer.mergeAll(
    layerApi,
    OperatorAuthorization.layerSessions,
    Rpc.layer,
    Health.layer,
    Home.layer,
    Docs.layer,
    Cors.layer(corsOrigins)
  ).pipe(
    Layer.provide(Digest.layerWebCrypto),
    Layer.provideMerge(ResponseMiddleware.layer)
  )
