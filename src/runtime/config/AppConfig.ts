/**
 * The configuration of a process, from the environment. Missing systems are embedded and missing secrets generated into
 * DATA_DIR, but never in production.
 */
import { Config, Duration, Effect, Redacted, Schema, UndefinedOr } from "effect"
import { randomBytes } from "node:crypto"
import * as path from "node:path"
import * as Limits from "../../domain/Limits.ts"
import * as Facades from "../../http/facades/Facades.ts"
import type { Endpoint } from "../builtin/backend/OpenAiModel.ts"
import * as Watchdog from "../node/Watchdog.ts"
import * as DatabaseUrl from "../postgres/DatabaseUrl.ts"
import * as TelemetrySettings from "../telemetry/TelemetrySettings.ts"
import * as AddressGuard from "../webhooks/AddressGuard.ts"
import * as DataDirectory from "./DataDirectory.ts"
import * as ProductionSecrets from "./ProductionSecrets.ts"
import { misspelled } from "./settings.ts"
import * as SettingsReader from "./SettingsReader.ts"
import { audiencesOf, commaList, isOpenAiOn, modelsOf, nonEmpty, originsOf } from "./SettingValues.ts"
import * as TokenKeys from "./TokenKeys.ts"

type Reader = SettingsReader.SettingsReader

/** The settings cannot be used; the message lists every missing and wrong one. */
export class InvalidSettings extends Schema.TaggedError<InvalidSettings>()("InvalidSettings", {
  message: Schema.String
}) {}

/** The highest WEBHOOK_TIMEOUT. A target that hangs occupies a slot in flight for that long. */
const maxWebhookTimeout = Duration.minutes(5)
/** The highest RETENTION and ACCEPTANCE_TIMEOUT, which keeps all moments within the range of `Timestamp`. */
const maxPeriod = Duration.days(36_500)

/** The systems that a process serves: the whole service, or one of the built-in systems alone. */
export type ServedPart = "service" | "core" | "backend"

const requiredInProduction: Readonly<Record<ServedPart, ReadonlyArray<ReadonlyArray<string>>>> = {
  service: [
    ["DATABASE_URL"],
    TokenKeys.names,
    ["CORE_URL"],
    ["INTERNAL_TOKENS"],
    ["ASSISTANT_BACKEND_URL"],
    ["ENCRYPTION_KEY"]
  ],
  core: [["ASSISTANT_BACKEND_URL"], ["INTERNAL_TOKENS"], ["CORE_TOKEN"], ["PUBLIC_URL"]],
  backend: [TokenKeys.names]
}

const isProduction = ({ env }: Reader) => env["NODE_ENV"] === "production"

const checkProduction = ({ env, problems }: Reader, part: ServedPart) => {
  const missing = requiredInProduction[part].filter((names) => names.every((name) => env[name] === undefined))
  if (missing.length > 0) {
    problems.push(`not set, and NODE_ENV is production: ${missing.map((names) => names.join(" or ")).join(", ")}`)
  }
  problems.push(...ProductionSecrets.problemsOf(env))
}

const loadAddress = Effect.fnUntraced(function*({ derive, env, read, url }: Reader) {
  const host = env["HOST"] ?? "127.0.0.1"
  const port = yield* read("PORT", Config.Port, 3000)
  const internalPort = yield* read<number | undefined>("INTERNAL_PORT", Config.Port, undefined)
  const publicUrl = url("PUBLIC_URL")
  const localUrl = (at: number) => `http://${host.includes(":") ? `[${host}]` : host}:${at}`
  return {
    host,
    port,
    /** The port of the internal routes; undefined when PORT serves them. */
    internalPort: internalPort === port ? undefined : internalPort,
    publicUrl: publicUrl ?? localUrl(port),
    /** The base URL to which the core reports. */
    internalUrl: publicUrl ?? localUrl(internalPort ?? port),
    /** The only origin to which a core served alone sends events; undefined allows any port of loopback. */
    eventsOrigin: UndefinedOr.map(publicUrl, (given) => new URL(given).origin),
    corsOrigins: derive("CORS_ORIGINS", () => originsOf(env["CORS_ORIGINS"] ?? ""), [])
  }
})

const loadSecrets = (reader: Reader, part: ServedPart) => {
  const { derive, env, secret } = reader
  const dataDir = path.resolve(env["DATA_DIR"] ?? ".data")
  let isUsable: boolean | undefined
  const isDirectoryUsable = () =>
    isUsable ??= derive("DATA_DIR", () => {
      DataDirectory.make(dataDir)
      return true
    }, false)
  const hasEmbedded = env["DATABASE_URL"] === undefined || env["ASSISTANT_BACKEND_URL"] === undefined
  if (part === "backend" || (part === "service" && !isProduction(reader) && hasEmbedded)) isDirectoryUsable()
  /** A part that is served alone does not use the secrets of the others, so a random value is enough in production. */
  const generated = (name: string) => {
    if (isProduction(reader) && part === "service") return undefined
    return !isProduction(reader) && isDirectoryUsable()
      ? DataDirectory.loadOrGenerate(dataDir, name)
      : randomBytes(32).toString("base64")
  }
  const isKeyGiven = TokenKeys.names.some((name) => env[name] !== undefined)
  const developmentSecret = derive("DATA_DIR", () => isKeyGiven ? undefined : generated("jwt-secret"), undefined)
  const listOf = <A>(name: string, file: string, parse: (text: string) => A, neutral: A) =>
    derive(name, () => {
      const text = env[name] ?? generated(file)
      return nonEmpty(text === undefined ? [neutral] : commaList(text).map(parse))
    }, [neutral])
  return {
    dataDir,
    /** The secret that signs development tokens; undefined when the operator set a key. */
    developmentSecret: UndefinedOr.map(developmentSecret, Redacted.make),
    tokenRules: derive("JWT", () => TokenKeys.rulesOf(env, developmentSecret), TokenKeys.noRules),
    encryptionKeys: listOf(
      "ENCRYPTION_KEY",
      "encryption-key",
      ProductionSecrets.encryptionKeyOf,
      Redacted.make(new Uint8Array())
    ),
    internalTokens: listOf("INTERNAL_TOKENS", "internal-token", Redacted.make, Redacted.make("")),
    coreToken: secret("CORE_TOKEN") ?? (isProduction(reader)
      ? undefined
      : UndefinedOr.map(derive("DATA_DIR", () => generated("core-token"), undefined), Redacted.make))
  }
}

const loadLimits = Effect.fnUntraced(function*({ count, read, report }: Reader) {
  const webhookTimeout = yield* read("WEBHOOK_TIMEOUT", Config.Duration, Limits.webhookTimeout)
  if (!Duration.between(webhookTimeout, { minimum: Duration.millis(1), maximum: maxWebhookTimeout })) {
    report("WEBHOOK_TIMEOUT", `must be positive, and ${Duration.format(maxWebhookTimeout)} at most`)
  }
  const period = Effect.fnUntraced(function*(name: string, fallback: Duration.Duration) {
    const given = yield* read(name, Config.Duration, fallback)
    if (!Duration.between(given, { minimum: Duration.zero, maximum: maxPeriod })) {
      report(name, `must not be negative, and ${Duration.format(maxPeriod)} at most`)
    }
    return given
  })
  return {
    webhookTimeout,
    retention: yield* period("RETENTION", Limits.retention),
    acceptanceTimeout: yield* period("ACCEPTANCE_TIMEOUT", Limits.acceptanceTimeout),
    /** Undefined means no watchdog. */
    watchdogTimeout: yield* read("WATCHDOG_TIMEOUT", Watchdog.timeout, Watchdog.defaultTimeout),
    maxActiveTasks: yield* count("MAX_ACTIVE_TASKS", Limits.maxActiveTasks, 1, 1_000_000),
    /** Bytes that one user may keep in the built-in storage. */
    storageQuota: Number(yield* read("STORAGE_QUOTA", Config.ByteSize, Limits.storageQuota)),
    databaseConnections: yield* count("DATABASE_CONNECTIONS", 10, 2, 1000)
  }
})

const loadFacades = Effect.fnUntraced(function*(reader: Reader) {
  const { derive, env, read, report } = reader
  const timeLimit = Duration.toSeconds(
    yield* read("FACADE_TIME_LIMIT", Config.Duration, Duration.seconds(Facades.defaultTimeLimit))
  )
  if (!Number.isInteger(timeLimit) || timeLimit < 1 || timeLimit > Limits.maxExecutionTime) {
    report("FACADE_TIME_LIMIT", `must be whole seconds between 1 and ${Limits.maxExecutionTime}`)
  }
  return {
    openai: derive("FACADES", () => isOpenAiOn(env["FACADES"] ?? (isProduction(reader) ? "off" : "openai")), false),
    models: derive("FACADE_MODELS", () => modelsOf(env["FACADE_MODELS"] ?? ""), new Map<string, Facades.FacadeModel>()),
    isLenient: yield* read("FACADE_LENIENT", Config.Boolean, false),
    timeLimit
  }
})

/** The settings of the operator interface. Its content is what users wrote, so by default only a development service shows it. */
const loadOperators = Effect.fnUntraced(function*({ env, read, report }: Reader) {
  const operatorSession = yield* read("OPERATOR_SESSION", Config.Duration, Duration.hours(8))
  if (!Duration.between(operatorSession, { minimum: Duration.minutes(1), maximum: Duration.days(30) })) {
    report("OPERATOR_SESSION", "must be between 1 minute and 30 days")
  }
  return {
    operatorSession,
    operatorReadTokens: commaList(env["OPERATOR_READ_TOKENS"] ?? "").map((token) => Redacted.make(token)),
    showsContent: yield* read("OPERATOR_CONTENT", Config.Boolean, env["DATABASE_URL"] === undefined)
  }
})

const loadCluster = Effect.fnUntraced(function*(reader: Reader) {
  const { env, read, report } = reader
  const isClustered = yield* read("CLUSTER", Config.Boolean, false)
  const port = yield* read("CLUSTER_PORT", Config.Port, 34431)
  if (isClustered && isProduction(reader) && env["CLUSTER_HOST"] === undefined) {
    report("CLUSTER_HOST", "not set, and CLUSTER is on and NODE_ENV production")
  }
  return isClustered ? { host: env["CLUSTER_HOST"] ?? "127.0.0.1", port } : undefined
})

const loadUpstreams = (reader: Reader, part: ServedPart) => {
  const { env, report, secret, url } = reader
  const endpoint = (prefix: string, baseUrl: string | undefined, model: string | undefined): Endpoint | undefined => {
    if (baseUrl === undefined) return undefined
    if (model === undefined) report(`${prefix}_MODEL`, "must be set")
    return { baseUrl, apiKey: secret(`${prefix}_API_KEY`), model: model ?? "", parameters: {} }
  }
  const upstreams = {
    coreUrl: url("CORE_URL"),
    assistantBackendUrl: url("ASSISTANT_BACKEND_URL"),
    assistantsFile: UndefinedOr.map(env["ASSISTANTS_FILE"], (file) => path.resolve(file)),
    /** The model of the general assistant, which exists only without a file of assistants. */
    model: endpoint("OPENAI", url("OPENAI_BASE_URL"), env["OPENAI_MODEL"]),
    transcription: endpoint(
      "TRANSCRIPTION",
      url("TRANSCRIPTION_URL")?.replace(/\/audio\/transcriptions$/, ""),
      env["TRANSCRIPTION_MODEL"] ?? "whisper-1"
    )
  }
  if (part === "core" && upstreams.assistantBackendUrl === undefined && !isProduction(reader)) {
    report("ASSISTANT_BACKEND_URL", "must be set for a core that is served alone")
  }
  return upstreams
}

export type AppConfig = Effect.Success<ReturnType<typeof load>>

/** Reads all settings and collects what is wrong with any of them. */
export const load = Effect.fnUntraced(function*(
  environment: Readonly<Record<string, string | undefined>>,
  part: ServedPart = "service"
) {
  const reader = SettingsReader.make(environment)
  const { derive, env, problems, read, report, secret } = reader
  if (isProduction(reader)) checkProduction(reader, part)
  const database = (name: string) => derive(name, () => UndefinedOr.map(secret(name), DatabaseUrl.parse), undefined)
  const databaseUrl = database("DATABASE_URL")
  const databaseDirectUrl = database("DATABASE_DIRECT_URL")
  if (databaseDirectUrl !== undefined && databaseUrl === undefined) {
    report("DATABASE_DIRECT_URL", "requires DATABASE_URL")
  }
  if ((databaseDirectUrl?.hosts.length ?? 1) > 1) report("DATABASE_DIRECT_URL", "must have one host")
  const allowPrivate = env["WEBHOOK_ALLOW_PRIVATE"] ?? String(databaseUrl === undefined && !isProduction(reader))
  const config = {
    isProduction: isProduction(reader),
    databaseUrl,
    databaseDirectUrl,
    /** Variables that may be misspelt settings. */
    warnings: misspelled(env),
    ...(yield* loadAddress(reader)),
    ...loadSecrets(reader, part),
    webhookGuard: derive(
      "WEBHOOK_ALLOW_PRIVATE",
      () => AddressGuard.parse(allowPrivate),
      AddressGuard.parse("false")
    ),
    consoleAudiences: derive(
      "CONSOLE",
      () => audiencesOf(env["CONSOLE"] ?? (isProduction(reader) ? "off" : "users,operators")),
      []
    ),
    facades: yield* loadFacades(reader),
    ...(yield* loadOperators(reader)),
    ...(yield* loadLimits(reader)),
    /** The address of this node for the other nodes; undefined without a cluster. */
    cluster: yield* loadCluster(reader),
    logLevel: yield* read("LOG_LEVEL", Config.LogLevel, "Info"),
    /** Undefined when no collector is configured. */
    telemetry: yield* TelemetrySettings.load(reader),
    ...loadUpstreams(reader, part)
  }
  if (problems.length === 0) return config
  return yield* new InvalidSettings({ message: `The settings cannot be used:\n  ${problems.join("\n  ")}` })
})
