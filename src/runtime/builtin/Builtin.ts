/** Builds the built-in core and backend from settings, in this process or served alone. */
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import { Effect, Layer } from "effect"
import { HttpRouter, HttpServerResponse } from "effect/http"
import * as path from "node:path"
import * as Limits from "../../domain/Limits.ts"
import * as Setting from "../../services/settings/Setting.ts"
import { TokenVerifier } from "../../services/tokens/TokenVerifier.ts"
import type { AppConfig } from "../config/AppConfig.ts"
import * as HttpListener from "../node/HttpListener.ts"
import * as NodeCrypto from "../node/NodeCrypto.ts"
import * as Outgoing from "../node/Outgoing.ts"
import * as Assistants from "./backend/Assistants.ts"
import * as BackendRoutes from "./backend/BackendRoutes.ts"
import * as BackendUsers from "./backend/BackendUsers.ts"
import type { FindUser } from "./backend/BackendUsers.ts"
import * as BuiltinBackend from "./backend/BuiltinBackend.ts"
import * as Chats from "./backend/Chats.ts"
import * as FileReader from "./backend/FileReader.ts"
import * as FileStorage from "./backend/FileStorage.ts"
import * as ModelClient from "./backend/ModelClient.ts"
import * as StorageQuota from "./backend/StorageQuota.ts"
import * as CoreRoutes from "./core/CoreRoutes.ts"

/** Id of the assistant that `OPENAI_BASE_URL` adds. */
const generalAssistantId = 10

/** Minimum of the chats that are kept for one user. */
const minChats = 20

const assistantsOf = ({ assistantsFile, model }: AppConfig) =>
  assistantsFile !== undefined
    // Its parser of YAML is 200 kB of source.
    ? Effect.flatMap(
      Effect.promise(() => import("./backend/AssistantsFile.ts")),
      (AssistantsFile) => AssistantsFile.open(assistantsFile, Setting.clean(process.env))
    )
    : Effect.succeed({ current: Effect.succeed(Assistants.general(generalAssistantId, model)) })

const openStorage = Effect.fnUntraced(function*(directory: string, { storageQuota }: AppConfig) {
  const quota = StorageQuota.make({
    directory: path.join(directory, "storage-usage"),
    userBytes: storageQuota,
    freeBytes: Limits.freeDiskBytes
  })
  return { quota, storage: yield* FileStorage.make({ root: path.join(directory, "storage"), quota }) }
})

const storageUrlOf = ({ publicUrl }: AppConfig) => `${publicUrl}/storage`

/** The part of the backend that keeps files, in a directory that all nodes share. */
export const files = Effect.fnUntraced(function*(config: AppConfig, directory: string) {
  const { storage } = yield* openStorage(directory, config)
  const layerFiles = BackendRoutes.layerFiles({
    findUser: BackendUsers.trusted,
    storage,
    storageUrl: storageUrlOf(config),
    assistants: Effect.succeed([])
  })
  return { layerFiles, layerStorage: storage.publicRoutes }
})

/** The backend, its HTTP routes for files, and the public ones of its storage. */
export const backend = Effect.fnUntraced(function*(config: AppConfig, findUser: FindUser = BackendUsers.trusted) {
  const { quota, storage } = yield* openStorage(config.dataDir, config)
  const maxChats = Math.max(minChats, config.maxActiveTasks)
  const assistants = (yield* assistantsOf(config)).current
  const hasDemo = config.assistantsFile === undefined
  const calls = yield* BuiltinBackend.make({
    storage,
    reader: FileReader.make(),
    chats: yield* Chats.make({ root: path.join(config.dataDir, "chats"), maxChats, quota }),
    assistants,
    hasDemo,
    transcription: config.transcription
  })
  const layerFiles = BackendRoutes.layerFiles({
    findUser,
    storage,
    storageUrl: storageUrlOf(config),
    assistants: BuiltinBackend.list({ assistants, hasDemo })
  })
  return { calls, layerFiles, layerStorage: storage.publicRoutes }
})

const health = HttpRouter.use((router) =>
  router.add("GET", "/healthz", HttpServerResponse.jsonUnsafe({ status: "ok" }))
)

const routesOf = (part: "core" | "backend", config: AppConfig) =>
  part === "core"
    ? CoreRoutes.layer({
      backendUrl: config.assistantBackendUrl ?? "",
      eventsOrigin: config.eventsOrigin,
      eventTokens: config.coreEventTokens,
      maxRuns: config.modelRuns,
      tokens: config.coreTokens
    })
    : Layer.unwrap(Effect.gen(function*() {
      const findUser = BackendUsers.verified(yield* TokenVerifier)
      const { calls, layerFiles, layerStorage } = yield* backend(config, findUser)
      return Layer.mergeAll(BackendRoutes.layerTurns({ backend: calls, findUser }), layerFiles, layerStorage)
    })).pipe(Layer.provide(TokenVerifier.layer(config.tokenRules)))

/** Serves one of the two alone on HOST and PORT: `serve --only core`, `serve --only backend`. */
export const layerAlone = (part: "core" | "backend", config: AppConfig) => {
  const { host, port } = config
  const app = HttpRouter.toHttpEffect(Layer.mergeAll(routesOf(part, config), health))
  return HttpListener.serve(app, { host, port }).pipe(
    Layer.provide([
      part === "core" ? Outgoing.layer : ModelClient.layer,
      NodeHttpServer.layerHttpServices,
      NodeCrypto.layerRandom
    ])
  )
}
