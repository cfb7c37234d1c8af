/** Composes all layers of the service, from settings to routes. */
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import * as NodeServices from "@effect/platform-node/NodeServices"
import { PgClient } from "@effect/sql-pg"
import { Deferred, Duration, Effect, Layer, Record, Redacted } from "effect"
import { HttpRouter } from "effect/http"
import * as Audience from "../http/Audience.ts"
import { DevelopmentToken, isLoopback } from "../http/DevelopmentToken.ts"
import { DocumentedVersion } from "../http/Docs.ts"
import { Extensions } from "../http/ExtensionRoutes.ts"
import * as Authorization from "../http/handlers/Authorization.ts"
import { LiveTokens } from "../http/handlers/Live.ts"
import { OtherMetrics } from "../http/handlers/Operations.ts"
import * as RpcAuthorization from "../http/handlers/rpc/RpcAuthorization.ts"
import { HomeLinks } from "../http/Home.ts"
import { ReferenceText } from "../http/Llms.ts"
import * as Server from "../http/Server.ts"
import { TaskOwnership } from "../services/cluster/TaskOwnership.ts"
import { CoreClient } from "../services/core/CoreClient.ts"
import {
  CallbackFormats,
  CreateLimits,
  GaugeHooks,
  RevocationHooks,
  TaskLinks,
  TurnReport,
  UserDataOfExtensions
} from "../services/Extensions.ts"
import { AssistantBackend } from "../services/files/AssistantBackend.ts"
import * as Memory from "../services/limits/Memory.ts"
import * as ClockSync from "../services/operations/ClockSync.ts"
import { ClusterNodes } from "../services/operations/ClusterNodes.ts"
import * as ClusterNodesSql from "../services/operations/ClusterNodesSql.ts"
import * as ReadinessSql from "../services/operations/ReadinessSql.ts"
import { TaskCensus } from "../services/operations/TaskCensus.ts"
import { Settings } from "../services/settings/Settings.ts"
import { Changes } from "../services/signals/Changes.ts"
import * as NotificationRelay from "../services/store/NotificationRelay.ts"
import * as PendingWork from "../services/store/PendingWork.ts"
import * as RevocationRepositorySql from "../services/store/revocations/RevocationRepositorySql.ts"
import * as Migrations from "../services/store/schema/Migrations.ts"
import { writeProbe } from "../services/store/schema/WriteProbe.ts"
import * as MeasuredTaskStore from "../services/store/tasks/MeasuredTaskStore.ts"
import * as TaskStoreSql from "../services/store/tasks/TaskStoreSql.ts"
import * as TaskEngine from "../services/TaskEngine.ts"
import { Tasks } from "../services/tasks/Tasks.ts"
import { NodeClock } from "../services/timing/NodeClock.ts"
import { Secrets } from "../services/tokens/Secrets.ts"
import { TokenVerifier } from "../services/tokens/TokenVerifier.ts"
import { WebhookDispatcher } from "../services/webhooks/WebhookDispatcher.ts"
import type { Backend } from "./builtin/Backend.ts"
import * as ModelClient from "./builtin/backend/ModelClient.ts"
import * as Builtin from "./builtin/Builtin.ts"
import * as BackendClient from "./builtin/core/BackendClient.ts"
import * as DirectCore from "./builtin/core/DirectCore.ts"
import * as ClusterClient from "./cluster/ClusterClient.ts"
import * as LiveKeys from "./cluster/LiveKeys.ts"
import type { AppConfig } from "./config/AppConfig.ts"
import * as TokenKeys from "./config/TokenKeys.ts"
import { EngineSettings, OwnConnections } from "./Extension.ts"
import { extensions, extensionTables } from "./loadedExtensions.ts"
import * as BufferCollector from "./node/BufferCollector.ts"
import * as HttpListener from "./node/HttpListener.ts"
import * as InProcess from "./node/InProcess.ts"
import * as NodeCrypto from "./node/NodeCrypto.ts"
import * as Outgoing from "./node/Outgoing.ts"
import * as RequestContext from "./node/RequestContext.ts"
import * as UndiciTransport from "./node/UndiciTransport.ts"
import * as Database from "./postgres/Database.ts"
import * as DatabaseClient from "./postgres/DatabaseClient.ts"
import { DatabaseSockets } from "./postgres/DatabaseSockets.ts"
import { parse as parseDatabaseUrl } from "./postgres/DatabaseUrl.ts"
import * as EmbeddedPostgres from "./postgres/EmbeddedPostgres.ts"
import { reference } from "./Reference.ts"
import * as WorkerMetrics from "./telemetry/WorkerMetrics.ts"
import { version } from "./Version.ts"
import * as WebhookResolver from "./webhooks/WebhookResolver.ts"
import * as WebhookTransport from "./webhooks/WebhookTransport.ts"

/** Reports of the built-in core, once the service can record them. */
type TasksReady = Deferred.Deferred<Tasks["Service"]["report"]>

/** Starts the embedded database, if there is no other, and examines it. */
const openDatabase = Effect.fnUntraced(function*(config: AppConfig) {
  const { cluster, dataDir, databaseDirectUrl, isProduction, worker } = config
  const databaseUrl = worker?.databaseUrl == null
    ? config.databaseUrl
    : parseDatabaseUrl(Redacted.make(worker.databaseUrl))
  const options = { databaseDirectUrl, isClustered: cluster !== undefined, isProduction }
  if (databaseUrl !== undefined) return yield* Database.openWhenReachable({ databaseUrl, ...options })
  const { directory, url } = yield* EmbeddedPostgres.start(dataDir)
  yield* Effect.logInfo(`Embedded Postgres on ${directory}`)
  return yield* Database.openWhenReachable({ databaseUrl: parseDatabaseUrl(url), ...options })
})

/** A layer of a module that few settings need, and that would take memory for as long as the service runs. */
const loaded = <M, A, E, R>(module: () => Promise<M>, layer: (module: M) => Layer.Layer<A, E, R>) =>
  Layer.unwrap(Effect.map(Effect.promise(module), layer))

const loadCluster = () => import("./cluster/Cluster.ts")

/**
 * Migrates on connections of its own, without silence detection: a migration may run for a long time without any traffic. A role
 * that may not change the schema finds it up to date, as `Database.open` has checked.
 */
const layerMigrated = (
  { direct, hasClusterTables, mayMigrate }: Database.Database,
  isClustered: boolean
) => {
  // Its lock of the table of its migrations would wait for a backup.
  const layerCluster = isClustered && !hasClusterTables
    ? loaded(loadCluster, ({ layerTables }) => layerTables)
    : Layer.empty
  const layer = mayMigrate ? Layer.merge(Migrations.layer(extensionTables), layerCluster) : Layer.empty
  const readers = extensionTables.flatMap(({ name, onEvents }) => onEvents === undefined ? [] : [name])
  return Migrations.enableReaders(readers).pipe(
    Layer.provide(layer),
    Layer.provide(PgClient.layer({ ...Database.patient(direct), maxConnections: 2 }))
  )
}

/** Migrates the schema, the tables of a cluster too, so that a node needs no right to create tables. */
export const migrate = (config: AppConfig) =>
  openDatabase(config).pipe(
    Effect.flatMap((database) => Layer.build(layerMigrated(database, true))),
    Effect.scoped
  )

const layerClient = ({ direct, main }: Database.Database, { databaseConnections }: AppConfig) =>
  DatabaseClient.layer({
    ...Database.limited(main),
    // LISTEN has one of these connections, if they can carry it.
    maxConnections: direct === main && main.pooling !== "transaction" ? databaseConnections - 1 : databaseConnections,
    maxMessageSize: 512 * 1024 * 1024,
    listener: direct === main ? undefined : Database.patient(direct),
    probe: writeProbe
  })

/** Shard locks are renewed on separate connections, so that load does not delay a renewal and cost a node its shards. */
const layerOwnership = ({ direct, main }: Database.Database, { cluster, internalPort, port, worker }: AppConfig) => {
  if (cluster === undefined) return TaskOwnership.layerAlone
  const options = { ...Database.limited(direct), maxConnections: 2 }
  // With several hosts, the monitor of `main` knows the one that accepts writes.
  const layerLocks = direct === main && main.hosts.length > 1
    ? Layer.unwrap(
      Effect.map(DatabaseSockets, ({ openUnguarded }) => ClusterClient.layer({ ...options, stream: openUnguarded }))
    )
    : ClusterClient.layer(options)
  const layer = loaded(loadCluster, (Cluster) => Cluster.layer(cluster, worker?.ownPort ?? internalPort ?? port))
  return Layer.provide(layer, layerLocks)
}

const layerOwnConnections = ({ main }: Database.Database) =>
  Layer.effect(
    OwnConnections,
    Effect.map(DatabaseSockets, ({ open }) => ({
      layer: (count) => PgClient.layer({ ...Database.brief(main), maxConnections: count, stream: open })
    }))
  )

/** Carries notifications, if a connection can receive them. Otherwise waiting requests of other processes poll the rows. */
const layerRelay = ({ direct }: Database.Database) =>
  direct.pooling === "transaction" ? Layer.empty : NotificationRelay.layer

/** The database with an up-to-date schema, its clock, and the ownership of its tasks. */
const layerStore = (database: Database.Database, config: AppConfig) =>
  Layer.mergeAll(ClockSync.layer, layerOwnership(database, config), layerOwnConnections(database)).pipe(
    Layer.provideMerge(layerClient(database, config)),
    Layer.provide(DatabaseSockets.layer(database.main.hosts)),
    Layer.provide(layerMigrated(database, config.cluster !== undefined))
  )

/**
 * The assistant backend, the configured one or the built-in one: the calls of a built-in core, the client of the gateway, and
 * the public storage routes of the built-in one. Without a backend there are no calls, and only the files of a directory.
 */
const findBackend = Effect.fnUntraced(function*(config: AppConfig) {
  const { assistantBackendUrl: url, filesDir, hasBackend } = config
  if (!hasBackend) {
    if (filesDir === undefined) return undefined
    const { layerFiles, layerStorage } = yield* Builtin.files(config, filesDir)
    const layerHttp = InProcess.layerClient(yield* InProcess.toApp(layerFiles))
    return { url: "http://files.builtin", calls: undefined, layerHttp, layerStorage }
  }
  if (url !== undefined) {
    const layerHttp = Outgoing.layer
    const calls = yield* Effect.provideContext(BackendClient.make(url), yield* Layer.build(layerHttp))
    return { url, calls, layerHttp, layerStorage: Layer.empty }
  }
  const { calls, layerFiles, layerStorage } = yield* Effect.provideContext(
    Builtin.backend(config),
    yield* Layer.build(ModelClient.layer)
  )
  const layerHttp = InProcess.layerClient(yield* InProcess.toApp(layerFiles))
  return { url: "http://backend.builtin", calls, layerHttp, layerStorage }
})

/** The core: the configured one, or the built-in one, which reports to `tasks` and cannot be without a backend. */
const layerCore = (
  { coreTokens, coreUrl = "", internalUrl, modelRuns }: AppConfig,
  backend: Backend | undefined,
  tasks: TasksReady
) =>
  coreUrl === "" && backend !== undefined
    ? Layer.effect(CoreClient, Effect.map(DirectCore.make(backend, Deferred.await(tasks), modelRuns), CoreClient.make))
    : CoreClient.layer({ url: coreUrl, tokens: coreTokens, eventsUrl: `${internalUrl}/internal/core/events` }).pipe(
      Layer.provide(UndiciTransport.layer)
    )

const layerUpstreams = (config: AppConfig, tasks: TasksReady) =>
  Layer.unwrap(Effect.gen(function*() {
    const found = yield* findBackend(config)
    if (found === undefined) return Layer.merge(layerCore(config, undefined, tasks), AssistantBackend.layerNone)
    const { calls, layerHttp, layerStorage, url } = found
    const layerBackendClient = AssistantBackend.layer(url).pipe(Layer.provide([layerHttp, BufferCollector.layer]))
    return Layer.mergeAll(layerCore(config, calls, tasks), layerBackendClient, layerStorage)
  })).pipe(Layer.provide([NodeServices.layer, NodeCrypto.layerRandom]))

/** Answers long polls and releases the shards before the server drains. */
const layerDrain = Layer.effectDiscard(Effect.gen(function*() {
  const changes = yield* Changes
  const ownership = yield* TaskOwnership
  yield* Effect.addFinalizer(() =>
    Effect.logInfo("draining: the process stops").pipe(
      Effect.andThen(changes.drain),
      Effect.andThen(ownership.drain)
    )
  )
}))

/** Waits briefly for webhook attempts in flight. */
const layerDrainWebhooks = Layer.effectDiscard(
  Effect.flatMap(WebhookDispatcher, ({ drain }) => Effect.addFinalizer(() => drain))
)

const layerClusterNodes = ({ cluster, host, port }: AppConfig) =>
  cluster === undefined
    ? ClusterNodes.layerAlone({ address: `${host}:${port}`, version })
    : ClusterNodesSql.layer({ address: `${cluster.host}:${cluster.port}`, version })

/** Pages contain a token on loopback only, and only with the generated key, which production does not have. */
const layerDevelopmentToken = ({ developmentSecret, host, publicUrl, tokenRules }: AppConfig) =>
  developmentSecret === undefined || ![host, new URL(publicUrl).hostname].every(isLoopback)
    ? Layer.empty
    : Layer.succeed(DevelopmentToken, (sub) => TokenKeys.mint(developmentSecret, { sub, rules: tokenRules }))

const layerCallbackFormats = Layer.effect(
  CallbackFormats,
  Effect.map(
    Effect.forEach(extensions, ({ callbackFormats = Effect.succeed({}) }) => callbackFormats),
    (formats): typeof CallbackFormats.Service => Object.assign({}, ...formats)
  )
)

const layerTaskLinks = (config: AppConfig) =>
  Layer.effect(TaskLinks, Effect.all(config.extensions.flatMap(({ taskLink = [] }) => taskLink)))

const layerRevocationHooks = Layer.succeed(RevocationHooks, extensions.flatMap(({ onRevoked = [] }) => onRevoked))

const layerTaskStores = Layer.provide(TaskStoreSql.layer, layerCallbackFormats)

const layerTurnReport = Layer.succeed(
  TurnReport,
  extensions.find(({ turnReport }) => turnReport !== undefined)?.turnReport
)

const layerEngineSettings = (config: AppConfig) => {
  const { signingSecret } = config
  return Layer.succeed(EngineSettings, {
    ...config,
    mintToken: signingSecret === undefined
      ? undefined
      : (sub) => TokenKeys.mint(signingSecret, { sub, validFor: Duration.hours(1), rules: config.tokenRules })
  })
}

const layerAuthorization = (config: AppConfig) =>
  Layer.mergeAll(
    Authorization.layerUsers,
    Authorization.layerInternal({
      ...config,
      readTokens: config.extensions.flatMap(({ readers = [] }) => readers.map(({ token }) => token))
    }),
    RpcAuthorization.layer(config)
  )

/** A worker has its part of the memory of the service, and shows the metrics of all. */
const layerOfWorker = ({ internalTokens, worker }: AppConfig): Layer.Layer<never> => {
  if (worker === undefined) return Layer.empty
  const part = (bytes: number) => Math.floor(bytes / worker.count)
  return Layer.mergeAll(
    Layer.succeed(
      Memory.Sizes,
      Record.map(Memory.sizes, (size) => ({ ...size, total: Math.max(part(size.total), Memory.leastOf(size)) }))
    ),
    Layer.effect(Memory.LiveBytes, Effect.map(Memory.LiveBytes, (bytes) => part(bytes))),
    Layer.succeed(OtherMetrics, WorkerMetrics.make(worker, internalTokens))
  )
}

const layerOn = (database: Database.Database, config: AppConfig) => {
  const layerSecrets = Layer.provide(Secrets.layer(config.encryptionKeys), NodeCrypto.layerAead)
  const layerCensus = config.telemetry === undefined ? Layer.empty : TaskCensus.layerRepeated
  const layerTasks = Layer.mergeAll(layerDrainWebhooks, layerCensus).pipe(
    Layer.provideMerge(TaskEngine.layer),
    Layer.provideMerge([
      Layer.provideMerge(MeasuredTaskStore.layer, layerTaskStores),
      Layer.provide(RevocationRepositorySql.layer, layerRevocationHooks)
    ]),
    Layer.provideMerge(layerRelay(database)),
    Layer.provide(layerSecrets),
    Layer.provide(
      config.cluster === undefined
        ? Layer.empty
        : loaded(() => import("./cluster/LiveNodes.ts"), ({ layer }) => layer(LiveKeys.tokensOf(config.encryptionKeys)))
    ),
    Layer.provideMerge(
      WebhookTransport.layer(WebhookResolver.make(config.webhookGuard, undefined, config.webhookProxyResolves))
    ),
    Layer.provideMerge(NodeCrypto.layerHmac)
  )
  const tasks: TasksReady = Deferred.makeUnsafe()
  const layerTasksReady = Layer.effectDiscard(Effect.flatMap(Tasks, ({ report }) => Deferred.succeed(tasks, report)))
  const layersForOperators = config.extensions.flatMap(({ operators = [] }) => operators).map((operators) =>
    Layer.provide(
      Layer.mergeAll(Layer.empty, ...config.extensions.flatMap(({ forOperators = [] }) => forOperators)),
      operators
    )
  )
  const layerServer = Server.layer(
    config.corsOrigins,
    Layer.mergeAll(Layer.empty, ...config.extensions.map(({ layer }) => layer), ...layersForOperators),
    Layer.mergeAll(Layer.empty, ...config.extensions.flatMap(({ rpc = [] }) => rpc))
  )
  const layerRoutes = Layer.mergeAll(layerTasksReady, layerServer).pipe(
    Layer.provide([
      layerAuthorization(config),
      layerSecrets
    ]),
    Layer.provide(TokenVerifier.layer(config.tokenRules).pipe(Layer.provide(Outgoing.layer))),
    Layer.provide([ReadinessSql.layer, BufferCollector.layer]),
    Layer.provide(layerClusterNodes(config)),
    Layer.provide(layerTasks),
    Layer.provide(layerUpstreams(config, tasks)),
    Layer.provide([
      Settings.layer(config),
      layerDevelopmentToken(config),
      Layer.succeed(HomeLinks, config.extensions.flatMap(({ links = [] }) => links)),
      layerEngineSettings(config),
      layerTurnReport,
      layerTaskLinks(config),
      Layer.succeed(UserDataOfExtensions, extensions.flatMap(({ userData = [] }) => userData)),
      Layer.succeed(CreateLimits, config.extensions.flatMap(({ createLimits = [] }) => createLimits)),
      Layer.succeed(GaugeHooks, config.extensions.flatMap(({ gaugeHook = [] }) => gaugeHook)),
      Layer.succeed(LiveTokens, config.cluster === undefined ? [] : LiveKeys.tokensOf(config.encryptionKeys)),
      Layer.succeed(DocumentedVersion, version),
      Layer.succeed(ReferenceText, reference),
      layerOfWorker(config)
    ])
  )
  const layerServed = layerRoutes.pipe(
    Layer.provide(Audience.layer),
    Layer.provide(Layer.succeed(Extensions, extensions.map(({ routes }) => routes)))
  )
  const layerListening = HttpListener.serve(HttpRouter.toHttpEffect(layerServed), config).pipe(
    Layer.provide(Layer.succeed(HttpRouter.RouterConfig, Server.routerConfig))
  )
  return layerDrain.pipe(
    Layer.provideMerge(layerListening),
    Layer.provide(PendingWork.layer),
    Layer.provide([
      NodeHttpServer.layerHttpServices,
      layerStore(database, config),
      NodeCrypto.layerRandom,
      Changes.layer
    ]),
    Layer.provideMerge(NodeClock.layer())
  )
}

export const layer = (config: AppConfig) =>
  Layer.unwrap(Effect.gen(function*() {
    const database = yield* openDatabase(config)
    yield* Effect.forEach(database.warnings, (warning) => Effect.logWarning(warning), { discard: true })
    return layerOn(database, config)
  })).pipe(Layer.provide(RequestContext.layer))
