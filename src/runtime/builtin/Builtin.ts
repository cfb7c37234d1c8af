/** The built-in core and backend, made from settings: to be reached in this process, or each served alone. */
import { NodeHttpClient, NodeHttpServer } from "@effect/platform-node"
import { Effect, Layer } from "effect"
import { HttpRouter, HttpServerResponse } from "effect/http"
import * as path from "node:path"
import type { AppConfig } from "../AppConfig.ts"
import * as HttpListener from "../HttpListener.ts"
import * as PooledRandom from "../PooledRandom.ts"
import * as Assistants from "./Assistants.ts"
import * as BuiltinBackend from "./BuiltinBackend.ts"
import * as BuiltinCore from "./BuiltinCore.ts"
import * as Chats from "./Chats.ts"
import * as FileReader from "./FileReader.ts"
import * as FileStorage from "./FileStorage.ts"

/** Id of the assistant that `OPENAI_BASE_URL` makes. */
export const generalAssistantId = 10

const assistantsOf = ({ assistantsFile, model }: AppConfig) =>
  assistantsFile !== undefined
    ? Assistants.fromFile(assistantsFile, process.env)
    : Effect.succeed({ current: Effect.succeed(Assistants.general(generalAssistantId, model)) })

/** The backend's routes for the gateway and the core, and the storage that is everyone's. */
export const backend = Effect.fnUntraced(function*(config: AppConfig) {
  const storage = yield* FileStorage.make(path.join(config.dataDir, "storage"))
  const routes = BuiltinBackend.layer({
    storage,
    storageUrl: `${config.publicUrl}/storage`,
    reader: FileReader.make(),
    chats: yield* Chats.make(path.join(config.dataDir, "chats")),
    assistants: (yield* assistantsOf(config)).current,
    hasDemo: config.assistantsFile === undefined,
    transcription: config.transcription
  })
  return { routes, storageRoutes: storage.publicRoutes }
})

export const core = (config: AppConfig, backendUrl: string) =>
  BuiltinCore.layer({ backendUrl, internalToken: config.internalTokens[0], token: config.coreToken })

const health = HttpRouter.use((router) =>
  router.add("GET", "/healthz", HttpServerResponse.jsonUnsafe({ status: "ok" }))
)

const routesOf = (part: "core" | "backend", config: AppConfig) =>
  part === "core"
    ? core(config, config.assistantBackendUrl ?? "")
    : Layer.unwrap(Effect.map(backend(config), ({ routes, storageRoutes }) => Layer.mergeAll(routes, storageRoutes)))

/** One of the two alone on HOST and PORT: `serve --only core`, `serve --only backend`. */
export const layerAlone = (part: "core" | "backend", config: AppConfig) =>
  HttpListener.serve(Layer.mergeAll(routesOf(part, config), health), config).pipe(
    Layer.provide([NodeHttpClient.layerUndici, NodeHttpServer.layerHttpServices, PooledRandom.layer])
  )
