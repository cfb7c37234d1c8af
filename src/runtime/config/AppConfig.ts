/**
 * Every setting with its default and its bounds. `npm run docs` writes the table in src/runtime/README.md from `settings`.
 * Settings come from the environment. Missing systems are embedded and missing secrets generated into DATA_DIR, but never in
 * production.
 */
import { Config, ConfigProvider, Duration, Effect, type LogLevel, Redacted, Schema, UndefinedOr } from "effect"
import { randomBytes } from "node:crypto"
import * as path from "node:path"
import * as Limits from "../../domain/Limits.ts"
import type { CorsOrigins } from "../../http/Cors.ts"
import type { TokenRules } from "../../services/tokens/TokenVerifier.ts"
import type { Endpoint } from "../builtin/backend/OpenAiModel.ts"
import type * as Cluster from "../cluster/Cluster.ts"
import * as Watchdog from "../node/Watchdog.ts"
import * as TelemetrySettings from "../telemetry/TelemetrySettings.ts"
import * as AddressGuard from "../webhooks/AddressGuard.ts"
import * as DataDirectory from "./DataDirectory.ts"
import * as ProductionSecrets from "./ProductionSecrets.ts"
import { commaList, nonEmpty, originsOf, withoutTrailingSlash } from "./SettingValues.ts"
import * as TokenKeys from "./TokenKeys.ts"

interface Setting {
  readonly names: ReadonlyArray<string>
  readonly default: string
  readonly meaning: string
}

export const settings: ReadonlyArray<Setting> = [
  { names: ["HOST", "PORT"], default: "`127.0.0.1`, `3000`", meaning: "where REST, RPC, docs and health listen" },
  {
    names: ["PUBLIC_URL"],
    default: "`http://HOST:PORT`",
    meaning: "the external base URL; a core served alone sends events to its origin only"
  },
  {
    names: ["CORS_ORIGINS"],
    default: "none",
    meaning: "comma list of the origins of web pages that may call the service, or `*`"
  },
  { names: ["DATABASE_URL"], default: "embedded Postgres", meaning: "URL of a Postgres 14 or later" },
  {
    names: ["DATA_DIR"],
    default: "`.data`",
    meaning: "directory of the embedded database, demo storage and development keys"
  },
  {
    names: ["JWT_SECRET", "JWT_PUBLIC_KEY", "JWT_JWKS_URL"],
    default: "a development key",
    meaning: "exactly one of: HS256 secret of 32 bytes or more, PEM or JWK public key, JWKS URL"
  },
  {
    names: ["JWT_ALGORITHMS", "JWT_ISSUER", "JWT_AUDIENCE"],
    default: "by key type, unset, unset",
    meaning: "accepted algorithms as a comma list; required issuer; required audience"
  },
  { names: ["CORE_URL"], default: "built-in core", meaning: "base URL of the processing core" },
  {
    names: ["CORE_TOKEN"],
    default: "generated; in production unset",
    meaning: "bearer token sent to the core; a core served alone accepts no other"
  },
  {
    names: ["INTERNAL_TOKENS"],
    default: "generated",
    meaning:
      "comma list of bearer tokens accepted on `/internal/*` and `/rpc`, for rotation; 32 characters or more in production"
  },
  { names: ["ASSISTANT_BACKEND_URL"], default: "built-in demo backend", meaning: "base URL of the assistant backend" },
  {
    names: ["ENCRYPTION_KEY"],
    default: "generated",
    meaning: "32 bytes in base64 that encrypt secrets at rest; a comma list for rotation, the first one encrypts"
  },
  {
    names: ["WEBHOOK_ALLOW_PRIVATE"],
    default: "`false`; with the embedded Postgres `true`",
    meaning: "comma list of private hosts and CIDRs that webhooks may reach; `true` allows loopback"
  },
  {
    names: ["WEBHOOK_TIMEOUT"],
    default: "`15 seconds`",
    meaning: "timeout of one webhook attempt: DNS, connect, TLS and response together"
  },
  {
    names: ["ASSISTANTS_FILE"],
    default: "the demo assistants",
    meaning: "YAML or JSON file of the built-in backend's assistants; reloaded when it changes"
  },
  {
    names: ["OPENAI_BASE_URL", "OPENAI_API_KEY", "OPENAI_MODEL"],
    default: "unset",
    meaning: "model of the built-in backend's assistant 10; ignored with `ASSISTANTS_FILE`"
  },
  {
    names: ["TRANSCRIPTION_URL", "TRANSCRIPTION_API_KEY", "TRANSCRIPTION_MODEL"],
    default: "unset, unset, `whisper-1`",
    meaning: "speech-to-text service of the built-in backend: base URL without `/audio/transcriptions`, key, model"
  },
  {
    names: ["STORAGE_QUOTA"],
    default: "`10 GiB`",
    meaning: "maximum total size of one user's files in the built-in backend"
  },
  { names: ["ACCEPTANCE_TIMEOUT"], default: "`30 seconds`", meaning: "how long the core may take to accept a task" },
  { names: ["MAX_ACTIVE_TASKS"], default: "`5`", meaning: "maximum active tasks of one user" },
  { names: ["RETENTION"], default: "`30 days`", meaning: "how long ended tasks are kept" },
  {
    names: ["CLUSTER"],
    default: "`off`",
    meaning:
      "`on`: this process is a node of a cluster on the same Postgres, whose nodes divide the tasks among themselves"
  },
  {
    names: ["CLUSTER_HOST", "CLUSTER_PORT"],
    default: "`127.0.0.1`, `34431`",
    meaning: "address where this node listens for the others; it has no authentication, so keep it on a private network"
  },
  { names: ["DATABASE_CONNECTIONS"], default: "`10`", meaning: "size of the connection pool" },
  ...Watchdog.settings,
  ...TelemetrySettings.settings,
  { names: ["LOG_LEVEL"], default: "`Info`", meaning: "`Debug`, `Info`, `Warn` or `Error`" },
  {
    names: ["NODE_ENV"],
    default: "unset",
    meaning:
      "`production`: nothing is embedded or generated, secrets that are easy to guess are refused, and logs are JSON lines"
  }
]

export interface AppConfig {
  readonly isProduction: boolean
  readonly host: string
  readonly port: number
  readonly publicUrl: string
  readonly corsOrigins: CorsOrigins
  readonly dataDir: string
  readonly databaseUrl: Redacted.Redacted | undefined
  readonly databaseConnections: number
  /** Where the other nodes of the cluster reach this one; undefined without a cluster. */
  readonly cluster: Cluster.Address | undefined
  readonly tokenRules: TokenRules
  /** The secret that signs development tokens; undefined when the operator set a key. */
  readonly developmentSecret: Redacted.Redacted | undefined
  readonly coreUrl: string | undefined
  readonly coreToken: Redacted.Redacted | undefined
  /** The only origin to which a core served alone sends events; undefined allows any port of loopback. */
  readonly eventsOrigin: string | undefined
  readonly internalTokens: readonly [Redacted.Redacted, ...Array<Redacted.Redacted>]
  readonly assistantBackendUrl: string | undefined
  readonly assistantsFile: string | undefined
  /** The model of the general assistant, which exists only without a file of assistants. */
  readonly model: Endpoint | undefined
  readonly transcription: Endpoint | undefined
  /** Bytes that one user may keep in the built-in storage. */
  readonly storageQuota: number
  readonly encryptionKeys: readonly [Redacted.Redacted<Uint8Array>, ...Array<Redacted.Redacted<Uint8Array>>]
  readonly webhookGuard: AddressGuard.AddressGuard
  readonly webhookTimeout: Duration.Duration
  readonly acceptanceTimeout: Duration.Duration
  readonly retention: Duration.Duration
  readonly maxActiveTasks: number
  readonly watchdogTimeout: Duration.Duration | undefined
  readonly logLevel: LogLevel.LogLevel
  /** Undefined when no collector is configured. */
  readonly telemetry: TelemetrySettings.Telemetry | undefined
}

/** The settings cannot be used; the message lists every missing and wrong one. */
export class InvalidSettings extends Schema.TaggedError<InvalidSettings>()("InvalidSettings", {
  message: Schema.String
}) {}

/** The highest WEBHOOK_TIMEOUT. A target that hangs occupies a slot in flight for that long. */
const maxWebhookTimeout = Duration.minutes(5)

/** What a process serves: the service, or one of the built-in systems alone. */
export type Part = "service" | "core" | "backend"

const requiredInProduction: Readonly<Record<Part, ReadonlyArray<ReadonlyArray<string>>>> = {
  service: [
    ["DATABASE_URL"],
    ["JWT_SECRET", "JWT_PUBLIC_KEY", "JWT_JWKS_URL"],
    ["CORE_URL"],
    ["INTERNAL_TOKENS"],
    ["ASSISTANT_BACKEND_URL"],
    ["ENCRYPTION_KEY"]
  ],
  core: [["ASSISTANT_BACKEND_URL"], ["INTERNAL_TOKENS"], ["CORE_TOKEN"], ["PUBLIC_URL"]],
  backend: [TokenKeys.names]
}

const reasonOf = (error: unknown) => error instanceof Error ? error.message : String(error)

/** Reads all settings and collects what is wrong with any of them. */
export const load = (environment: Readonly<Record<string, string | undefined>>, part: Part = "service") =>
  Effect.gen(function*() {
    const env = Object.fromEntries(
      Object.entries(environment).filter(([, value]) => value !== undefined && value !== "")
    )
    const provider = ConfigProvider.fromEnv({ env: env as Record<string, string> })
    const problems: Array<string> = []

    const read = <A>(name: string, config: Config.Config<A>, absent: A): Effect.Effect<A> =>
      env[name] === undefined
        ? Effect.succeed(absent)
        : config.parse(provider).pipe(Effect.catch((error) => {
          problems.push(`${name}: ${error.cause.message.split("\n")[0]}`)
          return Effect.succeed(absent)
        }))
    const derive = <A>(name: string, thunk: () => A): A | undefined => {
      try {
        return thunk()
      } catch (error) {
        problems.push(`${name}: ${reasonOf(error)}`)
        return undefined
      }
    }
    const url = (name: string) =>
      derive(name, () => {
        if (env[name] === undefined) return undefined
        const parsed = URL.canParse(env[name]) ? new URL(env[name]) : undefined
        if (parsed === undefined || !/^https?:$/.test(parsed.protocol)) throw new Error("must be an http or https URL")
        return withoutTrailingSlash(parsed)
      })
    const count = (name: string, absent: number, minimum: number, maximum: number) =>
      Effect.map(read(name, Config.Int(name), absent), (value) => {
        if (value < minimum || value > maximum) problems.push(`${name}: must be between ${minimum} and ${maximum}`)
        return value
      })
    const secret = (name: string) => env[name] === undefined ? undefined : Redacted.make(env[name])

    const isProduction = env["NODE_ENV"] === "production"
    if (isProduction) {
      const missing = requiredInProduction[part].filter((names) => names.every((name) => env[name] === undefined))
      if (missing.length > 0) {
        problems.push(`not set, and NODE_ENV is production: ${missing.map((names) => names.join(" or ")).join(", ")}`)
      }
      problems.push(...ProductionSecrets.problemsOf(env))
    }

    const host = env["HOST"] ?? "127.0.0.1"
    const port = yield* read("PORT", Config.Port("PORT"), 3000)
    const dataDir = path.resolve(env["DATA_DIR"] ?? ".data")
    // A part that is served alone does not use the secrets of the others, so a random value is enough in production.
    const generated = (name: string) =>
      part !== "service" && isProduction
        ? randomBytes(32).toString("base64")
        : isProduction
        ? undefined
        : DataDirectory.loadOrGenerate(dataDir, name)

    const isKeyGiven = TokenKeys.names.some((name) => env[name] !== undefined)
    const developmentSecret = derive("DATA_DIR", () => isKeyGiven ? undefined : generated("jwt-secret"))
    const tokenRules = derive("JWT", () => TokenKeys.rulesOf(env, developmentSecret))

    const encryptionKeys = derive(
      "ENCRYPTION_KEY",
      () =>
        nonEmpty(
          commaList(env["ENCRYPTION_KEY"] ?? generated("encryption-key") ?? "").map(ProductionSecrets.encryptionKeyOf)
        )
    )
    const internalTokens = derive("INTERNAL_TOKENS", () =>
      nonEmpty(
        commaList(env["INTERNAL_TOKENS"] ?? generated("internal-token") ?? "").map((token) => Redacted.make(token))
      ))
    const coreToken = secret("CORE_TOKEN") ?? (isProduction
      ? undefined
      : UndefinedOr.map(derive("DATA_DIR", () => generated("core-token")), Redacted.make))
    const isEmbedded = env["DATABASE_URL"] === undefined && !isProduction
    const webhookGuard = derive(
      "WEBHOOK_ALLOW_PRIVATE",
      () => AddressGuard.parse(env["WEBHOOK_ALLOW_PRIVATE"] ?? String(isEmbedded))
    )
    const duration = (name: string, absent: Duration.Duration) => read(name, Config.Duration(name), absent)
    const webhookTimeout = yield* duration("WEBHOOK_TIMEOUT", Limits.webhookTimeout)
    if (!Duration.between(webhookTimeout, { minimum: Duration.millis(1), maximum: maxWebhookTimeout })) {
      problems.push(`WEBHOOK_TIMEOUT: must be positive, and ${Duration.format(maxWebhookTimeout)} at most`)
    }
    const retention = yield* duration("RETENTION", Limits.retention)
    const acceptanceTimeout = yield* duration("ACCEPTANCE_TIMEOUT", Limits.acceptanceTimeout)
    const watchdogTimeout = yield* read("WATCHDOG_TIMEOUT", Watchdog.timeout, Watchdog.defaultTimeout)
    const maxActiveTasks = yield* count("MAX_ACTIVE_TASKS", Limits.maxActiveTasks, 1, 1_000_000)
    const storageQuota = yield* read("STORAGE_QUOTA", Config.ByteSize("STORAGE_QUOTA"), Limits.storageQuota)
    const databaseConnections = yield* count("DATABASE_CONNECTIONS", 10, 2, 1000)
    const isClustered = yield* read("CLUSTER", Config.Boolean("CLUSTER"), false)
    const clusterPort = yield* read("CLUSTER_PORT", Config.Port("CLUSTER_PORT"), 34431)
    if (isClustered && isProduction && env["CLUSTER_HOST"] === undefined) {
      problems.push("CLUSTER_HOST: not set, and CLUSTER is on and NODE_ENV production")
    }
    const logLevel = yield* read("LOG_LEVEL", Config.LogLevel("LOG_LEVEL"), "Info")
    const telemetry = yield* TelemetrySettings.load({ env: env as Record<string, string>, read, count, derive, url })
    const publicUrl = url("PUBLIC_URL")
    const corsOrigins = derive("CORS_ORIGINS", () => originsOf(env["CORS_ORIGINS"] ?? ""))
    const coreUrl = url("CORE_URL")
    const assistantBackendUrl = url("ASSISTANT_BACKEND_URL")
    const assistantsFile = env["ASSISTANTS_FILE"] === undefined ? undefined : path.resolve(env["ASSISTANTS_FILE"])
    const endpoint = (prefix: string, baseUrl: string | undefined, model: string | undefined) => {
      if (baseUrl === undefined) return undefined
      if (model === undefined) problems.push(`${prefix}_MODEL: must be set`)
      return { baseUrl, apiKey: secret(`${prefix}_API_KEY`), model: model ?? "", parameters: {} }
    }
    const model = endpoint("OPENAI", url("OPENAI_BASE_URL"), env["OPENAI_MODEL"])
    const transcriptionUrl = url("TRANSCRIPTION_URL")?.replace(/\/audio\/transcriptions$/, "")
    const transcription = endpoint("TRANSCRIPTION", transcriptionUrl, env["TRANSCRIPTION_MODEL"] ?? "whisper-1")
    if (part === "core" && assistantBackendUrl === undefined && !isProduction) {
      problems.push("ASSISTANT_BACKEND_URL: must be set for a core that is served alone")
    }

    if (
      problems.length > 0 || tokenRules === undefined || encryptionKeys === undefined || internalTokens === undefined ||
      corsOrigins === undefined || webhookGuard === undefined
    ) {
      return yield* new InvalidSettings({ message: `The settings cannot be used:\n  ${problems.join("\n  ")}` })
    }
    const config: AppConfig = {
      isProduction,
      host,
      port,
      publicUrl: publicUrl ?? `http://${host.includes(":") ? `[${host}]` : host}:${port}`,
      corsOrigins,
      dataDir,
      databaseUrl: secret("DATABASE_URL"),
      databaseConnections,
      cluster: isClustered ? { host: env["CLUSTER_HOST"] ?? "127.0.0.1", port: clusterPort } : undefined,
      tokenRules,
      developmentSecret: developmentSecret === undefined ? undefined : Redacted.make(developmentSecret),
      coreUrl,
      coreToken,
      eventsOrigin: UndefinedOr.map(publicUrl, (given) => new URL(given).origin),
      internalTokens,
      assistantBackendUrl,
      assistantsFile,
      model,
      transcription,
      storageQuota: Number(storageQuota),
      encryptionKeys,
      webhookGuard,
      webhookTimeout,
      acceptanceTimeout,
      retention,
      maxActiveTasks,
      watchdogTimeout,
      logLevel,
      telemetry
    }
    return config
  })
