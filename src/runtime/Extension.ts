/** The parts that an extension gives to the service. Nothing else imports it: without its folders and its line in `extensions.ts` it is gone. */
import { Context, type Effect, type FileSystem, type Layer, type Path, type Redacted } from "effect"
import type { Command } from "effect/cli"
import type { Digest, SecureRandom } from "effect/crypto"
import type { Etag, HttpPlatform, HttpRouter } from "effect/http"
import type { SqlClient, SqlError } from "effect/sql"
import type { Authorization, InternalAuthorization } from "../http/contract/Middleware.ts"
import type { CorsOrigins } from "../http/Cors.ts"
import type { ExtensionRoutes } from "../http/ExtensionRoutes.ts"
import type { BodyReader } from "../http/handlers/body/BodyReader.ts"
import type { Uploads } from "../http/handlers/Uploads.ts"
import type { Link } from "../http/Home.ts"
import type { OperatorAuthorization } from "../http/OperatorRoutes.ts"
import type { TaskActors } from "../services/actors/TaskActors.ts"
import type { CoreClient } from "../services/core/CoreClient.ts"
import type {
  CallbackFormat,
  CreateLimit,
  RevocationHook,
  TaskLink,
  TurnReport,
  UserData
} from "../services/Extensions.ts"
import type { AssistantBackend } from "../services/files/AssistantBackend.ts"
import type { Memory } from "../services/limits/Memory.ts"
import type { LiveReading } from "../services/live/LiveReading.ts"
import type { ClusterNodes } from "../services/operations/ClusterNodes.ts"
import type { CoreBusy } from "../services/queue/CoreBusy.ts"
import type { Group, Values } from "../services/settings/Setting.ts"
import type { Settings } from "../services/settings/Settings.ts"
import type { Changes } from "../services/signals/Changes.ts"
import type { MemoryTables } from "../services/store/MemoryTables.ts"
import type { RunQueue } from "../services/store/queue/RunQueue.ts"
import type { Tables } from "../services/store/schema/Migrations.ts"
import type { TaskStore } from "../services/store/tasks/TaskStore.ts"
import type { TaskRequests } from "../services/tasks/TaskRequests.ts"
import type { Tasks } from "../services/tasks/Tasks.ts"
import type { TaskWatch } from "../services/tasks/TaskWatch.ts"
import type { Turns } from "../services/tasks/Turns.ts"
import type { Secrets } from "../services/tokens/Secrets.ts"
import type { TokenRevocations } from "../services/tokens/TokenRevocations.ts"
import type { TokenVerifier } from "../services/tokens/TokenVerifier.ts"
import type { HmacSha256 } from "../services/webhooks/WebhookHeaders.ts"
import type { WebhookSender, WebhookTargets } from "../services/webhooks/WebhookSender.ts"
import type { CommandFailed } from "./cli/Root.ts"

/** The services that extensions have in the engine and in the test kit. */
type SharedServices =
  | Authorization
  | BodyReader
  | Changes
  | Digest.Digest
  | Etag.Generator
  | FileSystem.FileSystem
  | HmacSha256
  | HttpPlatform.HttpPlatform
  | HttpRouter.HttpRouter
  | Memory
  | Path.Path
  | Secrets
  | SecureRandom.SecureRandom
  | Settings
  | TaskStore
  | Tasks
  | TokenRevocations
  | WebhookSender
  | WebhookTargets

/** The services of the engine that extensions use. */
type EngineServices =
  | SharedServices
  | AssistantBackend
  | ClusterNodes
  | CoreBusy
  | CoreClient
  | EngineSettings
  | LiveReading
  | OwnConnections
  | RunQueue
  | SqlClient.SqlClient
  | TaskActors
  | TaskRequests
  | Turns
  | TaskWatch
  | TokenVerifier
  | Uploads

/** The routes and services of an extension. */
export type ExtensionLayer = Layer.Layer<never, SqlError.SqlError, EngineServices>

/** Connections of an extension's own, so that its searches never delay requests of clients. A statement ends after 2 s. */
export class OwnConnections extends Context.Service<OwnConnections, {
  readonly layer: (count: number) => Layer.Layer<SqlClient.SqlClient, SqlError.SqlError>
}>()("async-task-service/runtime/Extension/OwnConnections") {}

export class EngineSettings extends Context.Service<EngineSettings, {
  readonly internalTokens: ReadonlyArray<Redacted.Redacted>
  /** The name of each of them. */
  readonly internalTokenNames: ReadonlyArray<string>
  /** The origins of other web pages that may call the service. */
  readonly corsOrigins: CorsOrigins
  readonly isProduction: boolean
  /** `JWT_ISSUER`. */
  readonly jwtIssuer: string | undefined
  readonly publicUrl: string
  /** True if `PUBLIC_URL` is set. */
  readonly hasPublicUrl: boolean
  /** Mints a token of a user with the key of the service itself, which only an embedded development service has. */
  readonly mintToken: ((sub: string) => Effect.Effect<string>) | undefined
}>()("async-task-service/runtime/Extension/EngineSettings") {}

/** An extension as its settings made it. */
interface LoadedExtension {
  /** Routes and whatever runs beside them: `HttpApiBuilder.layer(UsageApi)`. Empty when the settings turn the extension off. */
  readonly layer: ExtensionLayer
  /** The handlers of `routes.rpc`: `BotRpc.toLayer({ "Bot.say": … })`. */
  readonly rpc?: ExtensionLayer
  /** The identity of operators, by the one extension that knows them: `OperatorAuthorization.layer`. */
  readonly operators?: Layer.Layer<OperatorAuthorization, SqlError.SqlError, EngineServices>
  /** Operators that may change nothing, and so read the metrics too: `[{ name: "grafana", token }]`. */
  readonly readers?: ReadonlyArray<{ readonly name: string; readonly token: Redacted.Redacted }>
  /** Its routes for operators, which exist if another extension knows operators: `HttpApiBuilder.layer(OperatorUsageApi)`. */
  readonly forOperators?: Layer.Layer<never, SqlError.SqlError, EngineServices | OperatorAuthorization>
  /** Its facts about tasks: `{ name: "usage", describe: (uuid) => store.ofTask(uuid) }`. `routes.taskField` describes it. */
  readonly taskLink?: Effect.Effect<TaskLink, never, SqlClient.SqlClient>
  /** Its bounds on the creates of a user: `[(sub) => isFull(sub) ? new CreateRefused({ limit: "stored_bytes", … }) : undefined]`. */
  readonly createLimits?: ReadonlyArray<CreateLimit>
  /** Run when the metrics are read, at most every 30 s: `Effect.flatMap(count, (found) => Metric.update(gauge, found))`. */
  readonly gaugeHook?: Effect.Effect<void>
  /** Other systems that it calls, for `doctor`: `[{ name: "tokens of schedules", url }]`. */
  readonly upstreams?: ReadonlyArray<{ readonly name: string; readonly url: string }>
  /** Links of the page at `/`, and of the start-up message: `[{ path: "/bot", name: "Bot", description: "Your chats" }]`. */
  readonly links?: ReadonlyArray<Link>
}

/**
 * The smallest extension has settings, a layer with its routes, and their list: so other methods of a path are answered with 405.
 *
 * ```ts
 * export const extension: Extension = {
 *   settings: {},
 *   load: () => ({ layer: HttpRouter.add("GET", "/hello", HttpServerResponse.text("Hello")) }),
 *   routes: { routes: [{ method: "GET", path: "/hello" }] }
 * }
 * ```
 *
 * `test/examples/extension` is one that creates tasks.
 */
export interface Extension {
  /** Its settings by names of its own: `{ token: optional(secret, { name: "BOT_TOKEN", … }) }`. */
  readonly settings: Group
  /** `read` has the values of a group: its own, or a shared one such as those of `FreshTokens`. */
  readonly load: (read: <G extends Group>(group: G) => Values<G>) => LoadedExtension
  readonly routes: ExtensionRoutes
  /** Its tables, which exist also while its settings turn it off: `{ name: "bot", migrations: [["CREATE TABLE bot_chats …"]] }`. */
  readonly tables?: Tables
  /** The formats of webhooks that its tasks name, also while its settings turn it off: `{ openai: (changes) => bodies }`. */
  readonly callbackFormats?: Effect.Effect<Readonly<Record<string, CallbackFormat>>, never, SqlClient.SqlClient>
  /** Its reading of the turns of events, also while its settings turn it off: `{ shape, read: (turn) => json }`. One extension has it. */
  readonly turnReport?: TurnReport
  /**
   * Its data of users, which an operator exports and erases, also while its settings turn it off:
   * `{ tables: [{ table: "bot_chats", isOfUser: "sub = $1::text", exported: null }] }`
   */
  readonly userData?: UserData
  /** Its changes in the transaction of a revocation, also while its settings turn it off: `() => [{ text: "UPDATE bot_chats …", values }]`. */
  readonly onRevoked?: RevocationHook
}

/** An extension in the test kit, over stores in memory. */
export interface TestExtension {
  readonly layer: Layer.Layer<never, never, SharedServices | InternalAuthorization | MemoryTables>
  /** Its facts about tasks. */
  readonly taskLink?: Effect.Effect<TaskLink, never, MemoryTables>
  readonly turnReport?: TurnReport
  readonly routes: ExtensionRoutes
}

// oxlint-disable-next-line typescript/no-explicit-any -- the name and the input of a command concern only itself
type ExtensionCommand = Command.Command<any, any, any, CommandFailed, Command.CommandContext<"async-task-service">>

export interface ExtensionModules {
  readonly server: () => Promise<{ readonly extension: Extension }>
  /** Absent for an extension that the test kit lacks. */
  readonly testing?: () => Promise<{ readonly extension: TestExtension }>
  /** Each command of the command line imports all commands, so this module imports no more than they need. */
  readonly commands?: () => Promise<{ readonly commands: ReadonlyArray<ExtensionCommand> }>
}
