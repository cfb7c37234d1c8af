/** The whole service as a graph of layers, from settings to routes. */
import { NodeHttpClient, NodeHttpServer, NodeServices } from "@effect/platform-node"
import { PgClient } from "@effect/sql-pg"
import { Duration, Effect, Layer } from "effect"
import { Digest } from "effect/crypto"
import { HttpRouter, HttpServer } from "effect/http"
import { createServer } from "node:http"
import * as path from "node:path"
import * as Authorization from "../http/handlers/Authorization.ts"
import * as Server from "../http/Server.ts"
import { AssistantBackend as AssistantBackendClient } from "../services/AssistantBackend.ts"
import { CoreClient } from "../services/CoreClient.ts"
import { CoreStops } from "../services/CoreStops.ts"
import { CoreTransport } from "../services/CoreTransport.ts"
import { Secrets } from "../services/Secrets.ts"
import { Settings } from "../services/Settings.ts"
import * as Migrations from "../services/sql/Migrations.ts"
import * as ReadinessSql from "../services/sql/ReadinessSql.ts"
import * as TaskRepositorySql from "../services/sql/TaskRepositorySql.ts"
import { TaskActors } from "../services/TaskActors.ts"
import { Tasks } from "../services/Tasks.ts"
import { TaskSweeper } from "../services/TaskSweeper.ts"
import { TokenVerifier } from "../services/TokenVerifier.ts"
import type { AppConfig } from "./AppConfig.ts"
import * as Banner from "./Banner.ts"
import * as AssistantBackend from "./builtin/AssistantBackend.ts"
import * as Core from "./builtin/Core.ts"
import { EmbeddedPostgres } from "./builtin/EmbeddedPostgres.ts"
import * as FileStorage from "./builtin/FileStorage.ts"
import * as InProcess from "./builtin/InProcess.ts"
import * as PooledRandom from "./PooledRandom.ts"
import * as UndiciTransport from "./UndiciTransport.ts"

const coreOrigin = "http://core.builtin"
const backendOrigin = "http://backend.builtin"

/** Bounds that no statement of ours comes near while all is well. */
const sessionSettings = {
  statement_timeout: "30000",
  lock_timeout: "10000",
  idle_in_transaction_session_timeout: "60000"
}

const layerDatabase = (config: AppConfig) =>
  Layer.unwrap(Effect.gen(function*() {
    const url = config.databaseUrl ?? (yield* EmbeddedPostgres.start(config.dataDir)).url
    return Migrations.layer.pipe(Layer.provideMerge(PgClient.layer({
      url,
      applicationName: "async-task-service",
      maxConnections: config.databaseConnections,
      multiplex: true,
      multiplexConcurrency: 5,
      keepAlive: Duration.seconds(30),
      connectTimeout: Duration.seconds(10),
      maxMessageSize: 512 * 1024 * 1024,
      startupParameters: sessionSettings
    })))
  }))

/** The assistant backend and the core that are played here when none is set, and a client that reaches either kind. */
const layerNeighbours = (config: AppConfig) =>
  Layer.unwrap(Effect.gen(function*() {
    const storage = yield* FileStorage.make(path.join(config.dataDir, "storage"))
    const backend = yield* InProcess.serve(
      AssistantBackend.layer({ storage, storageUrl: `${config.publicUrl}/storage` }).pipe(
        Layer.provide(PooledRandom.layer)
      )
    )
    const own = new URL(config.publicUrl).origin
    // The built-in core reports to this very process, whatever it is called from outside.
    const local = InProcess.redirect(own, Banner.localUrl(config))
    const core = yield* InProcess.serve(
      Core.layer({
        backendUrl: config.assistantBackendUrl ?? backendOrigin,
        internalToken: config.internalTokens[0]
      }).pipe(
        Layer.provide([
          InProcess.layerClient(new Map([[backendOrigin, backend], [own, local]])),
          PooledRandom.layer
        ])
      )
    )
    const layerCoreClient = CoreClient.layer({
      url: config.coreUrl ?? coreOrigin,
      token: config.coreToken,
      eventsUrl: `${config.publicUrl}/internal/core/events`
    }).pipe(Layer.provide(
      config.coreUrl === undefined
        ? CoreTransport.layerHttpClient.pipe(Layer.provide(InProcess.layerClient(new Map([[coreOrigin, core]]))))
        : UndiciTransport.layer
    ))
    const layerBackendClient = AssistantBackendClient.layer(config.assistantBackendUrl ?? backendOrigin).pipe(
      Layer.provide(
        config.assistantBackendUrl === undefined
          ? InProcess.layerClient(new Map([[backendOrigin, backend]]))
          : NodeHttpClient.layerUndici
      )
    )
    const layerStorage = config.assistantBackendUrl === undefined ? storage.publicRoutes : Layer.empty
    return Layer.mergeAll(layerCoreClient, layerBackendClient, layerStorage)
  })).pipe(Layer.provide([NodeServices.layer, Digest.layerWebCrypto, PooledRandom.layer]))

const layerServer = (config: AppConfig) =>
  NodeHttpServer.layerServer(
    // Node's own limit on a whole request would cut long uploads.
    () => createServer({ requestTimeout: 0, headersTimeout: 20_000, keepAliveTimeout: 75_000 }),
    { host: config.host, port: config.port, gracefulShutdownTimeout: Duration.seconds(15) }
  )

export const layer = (config: AppConfig) => {
  const layerSettings = Layer.succeed(Settings, {
    maxActiveTasks: config.maxActiveTasks,
    acceptanceTimeout: config.acceptanceTimeout,
    sweepInterval: Duration.seconds(1),
    publicUrl: config.publicUrl
  })
  const layerTasks = Tasks.layer.pipe(
    Layer.provideMerge(TaskSweeper.layer),
    Layer.provideMerge(TaskActors.layer),
    Layer.provideMerge(CoreStops.layer),
    Layer.provideMerge(TaskRepositorySql.layer),
    Layer.provide(Secrets.layer(config.encryptionKeys))
  )
  const layerRoutes = Server.layer.pipe(
    Layer.provide([Authorization.layerUsers, Authorization.layerInternal(config.internalTokens)]),
    Layer.provide(TokenVerifier.layer(config.tokenRules)),
    Layer.provide(ReadinessSql.layer),
    Layer.provide(layerTasks),
    Layer.provide(layerNeighbours(config)),
    Layer.provide(layerSettings)
  )
  // Listening comes last: a request that met no routes yet would wait for ever.
  return Layer.unwrap(
    Effect.map(
      HttpRouter.toHttpEffect(layerRoutes),
      (app) => Layer.provideMerge(HttpServer.serve(app), layerServer(config))
    )
  ).pipe(Layer.provide([NodeHttpServer.layerHttpServices, layerDatabase(config), PooledRandom.layer]))
}
