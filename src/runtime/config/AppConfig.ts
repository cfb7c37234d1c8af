/**
 * The configuration of a process, from the environment. Missing systems are embedded and missing secrets generated into
 * DATA_DIR, but never in production.
 */
import { Effect, Record, Redacted, Result, Schema, UndefinedOr } from "effect"
import { randomBytes } from "node:crypto"
import * as Setting from "../../services/settings/Setting.ts"
import type { Endpoint } from "../builtin/backend/OpenAiModel.ts"
import { extensions } from "../loadedExtensions.ts"
import * as TelemetrySettings from "../telemetry/TelemetrySettings.ts"
import * as Addresses from "./Addresses.ts"
import * as DataDirectory from "./DataDirectory.ts"
import * as ProductionSecrets from "./ProductionSecrets.ts"
import * as ProxySettings from "./ProxySettings.ts"
import { all, misspelled, settings } from "./settings.ts"
import * as TokenKeys from "./TokenKeys.ts"
import * as WorkerAssignment from "./WorkerAssignment.ts"

/** The settings cannot be used; the message lists every missing and wrong one. */
export class InvalidSettings extends Schema.TaggedError<InvalidSettings>()("InvalidSettings", {
  message: Schema.String
}) {}

/** The systems that a process serves: the whole service, or one of the built-in systems alone. */
export type ServedPart = NonNullable<Setting.Setting<unknown>["requiredBy"]>[number]

/** The variables and the values of the settings, and a list that collects what is wrong with them. */
interface Given {
  readonly env: Setting.Environment
  readonly values: Setting.Values<typeof settings>
  readonly report: (name: string, problem: string) => void
}

/** Without an address of one machine in HOST nobody knows where others reach the process. */
const needsPublicUrl = (env: Setting.Environment) =>
  Result.match(settings.host.read(env), { onSuccess: Addresses.isWildcard, onFailure: () => false })

const missingIn = (env: Setting.Environment, part: ServedPart) =>
  all.filter((setting) =>
    setting.requiredBy?.includes(part) || (setting.name === settings.publicUrl.name && needsPublicUrl(env))
  )
    .map(({ alternatives = [], name }) => [name, ...alternatives])
    .filter((names) => names.every((name) => env[name] === undefined))

/** The value of a thunk, which throws an error with the reason when the variables are invalid. */
const derive = <A>({ report }: Given, name: string, thunk: () => A, neutral: A): A => {
  try {
    return thunk()
  } catch (error) {
    report(name, error instanceof Error ? error.message : String(error))
    return neutral
  }
}

const addressOf = ({ host, internalPort, port, publicUrl }: Given["values"]) => {
  const localUrl = (at: number) => Addresses.localUrl(host, at)
  return {
    /** True if an operator has said how others reach the service. */
    hasPublicUrl: publicUrl !== undefined,
    /** The port of the internal routes; undefined when PORT serves them. */
    internalPort: internalPort === port ? undefined : internalPort,
    publicUrl: publicUrl ?? localUrl(port),
    /** The base URL to which the core reports. */
    internalUrl: publicUrl ?? localUrl(internalPort ?? port),
    /** The only origin to which a core served alone sends events; undefined allows any port of loopback. */
    eventsOrigin: UndefinedOr.map(publicUrl, (given) => new URL(given).origin)
  }
}

const secretsOf = (given: Given, part: ServedPart) => {
  const { env, values } = given
  const isProduction = Setting.isProduction(env)
  const jwtSecret = UndefinedOr.map(env["JWT_SECRET"], (text) => Redacted.make(TokenKeys.secretsOf(text)[0]))
  let isUsable: boolean | undefined
  const isDirectoryUsable = () =>
    isUsable ??= derive(given, "DATA_DIR", () => {
      DataDirectory.make(values.dataDir)
      return true
    }, false)
  const hasEmbedded = env["DATABASE_URL"] === undefined || env["ASSISTANT_BACKEND_URL"] === undefined
  if (part === "backend" || (part === "service" && !isProduction && hasEmbedded)) isDirectoryUsable()
  const { filesDir } = values
  if (part === "service" && filesDir !== undefined) {
    derive(given, "FILES_DIR", () => DataDirectory.make(filesDir), undefined)
  }
  /** A part that is served alone does not use the secrets of the others, so a random value is enough in production. */
  const generated = <A>(name: string, file: string, parse: (text: string) => A, neutral: A): A =>
    isProduction && part === "service" ? neutral : derive(given, name, () =>
      parse(
        !isProduction && isDirectoryUsable()
          ? DataDirectory.loadOrGenerate(values.dataDir, file)
          : randomBytes(32).toString("base64")
      ), neutral)
  const isKeyGiven = TokenKeys.names.some((name) => env[name] !== undefined)
  const developmentSecret = isKeyGiven ? undefined : generated("DATA_DIR", "jwt-secret", String, undefined)
  const encryptionKey = () =>
    generated("ENCRYPTION_KEY", "encryption-key", ProductionSecrets.encryptionKeyOf, Redacted.make(new Uint8Array()))
  const internalToken = () => generated("INTERNAL_TOKENS", "internal-token", Redacted.make, Redacted.make(""))
  const internalTokens = values.internalTokens ?? ([internalToken()] as const)
  return {
    /** The secret that signs development tokens; undefined when the operator set a key. */
    developmentSecret: UndefinedOr.map(developmentSecret, Redacted.make),
    /** The key of tokens, of a development service that holds it itself. */
    signingSecret: isProduction || env["DATABASE_URL"] !== undefined
      ? undefined
      : jwtSecret ?? UndefinedOr.map(developmentSecret, Redacted.make),
    tokenRules: derive(given, "JWT", () => TokenKeys.rulesOf(env, developmentSecret), TokenKeys.noRules),
    encryptionKeys: values.encryptionKeys ?? ([encryptionKey()] as const),
    internalTokens,
    /** True if the tokens of a core come from this process, so that its operator can know them only from here. */
    generates: {
      coreToken: !isProduction && values.coreTokens === undefined,
      eventToken: !isProduction && values.coreEventTokens === undefined && values.internalTokens === undefined
    },
    internalTokenNames: Setting.tokenNames(values.internalTokenNames, internalTokens.length),
    coreEventTokens: values.coreEventTokens ?? internalTokens,
    coreTokens: values.coreTokens
      ?? (isProduction ? [] : generated("DATA_DIR", "core-token", (text) => [Redacted.make(text)], []))
  }
}

const checkDatabase = ({ report, values: { databaseDirectUrl, databaseUrl } }: Given) => {
  if (databaseDirectUrl !== undefined && databaseUrl === undefined) {
    report("DATABASE_DIRECT_URL", "requires DATABASE_URL")
  }
  if ((databaseDirectUrl?.hosts.length ?? 1) > 1) report("DATABASE_DIRECT_URL", "must have one host")
}

/** A token of both lists would make the core an operator. */
const checkEventTokens = ({ report, values: { coreEventTokens, internalTokens } }: Given) => {
  const internal = new Set(internalTokens?.map(Redacted.value))
  if (coreEventTokens?.some((token) => internal.has(Redacted.value(token)))) {
    report("CORE_EVENT_TOKENS", "must not contain one of INTERNAL_TOKENS")
  }
}

const checkTokenNames = ({ report, values: { internalTokenNames, internalTokens } }: Given) => {
  if (internalTokenNames.length > (internalTokens?.length ?? 1)) {
    report("INTERNAL_TOKEN_NAMES", "has more names than INTERNAL_TOKENS has tokens: write one for each, in their order")
  }
}

const checkPublicUrl = ({ env, report, values: { publicUrl } }: Given) => {
  if (publicUrl === undefined) return
  const { hostname, password, username } = new URL(publicUrl)
  if (username !== "" || password !== "") report("PUBLIC_URL", "must have no user and no password: it is public")
  if (Setting.isProduction(env) && Addresses.isWildcard(hostname)) {
    report("PUBLIC_URL", `must be the URL by which others reach the service, not ${Addresses.shown(publicUrl)}`)
  }
}

/** Only the built-in backend reads the file. */
const checkAssistants = Effect.fnUntraced(function*(
  { env, report, values: { assistantBackendUrl, assistantsFile } }: Given,
  part: ServedPart
) {
  if (assistantsFile === undefined || part === "core" || (part === "service" && assistantBackendUrl !== undefined)) {
    return
  }
  const { problemsOf } = yield* Effect.promise(() => import("../builtin/backend/AssistantsFile.ts"))
  for (const problem of problemsOf(assistantsFile, env)) report("ASSISTANTS_FILE", problem)
})

/** A core elsewhere reports to PUBLIC_URL, which is also in agent cards and links. */
const addressWarnings = ({ env, values }: Given) => {
  const { coreUrl, host } = values
  const address = addressOf(values)
  const { hostname } = new URL(address.publicUrl)
  const [internalUrl, publicUrl] = [Addresses.shown(address.internalUrl), Addresses.shown(address.publicUrl)]
  const set = "set PUBLIC_URL to the URL by which others reach the service"
  if (values.publicUrl === undefined && Addresses.isWildcard(host)) {
    return [`PUBLIC_URL is not set, and HOST is ${host}: cores, agent cards and links get ${publicUrl}; ${set}`]
  }
  if (Addresses.isWildcard(hostname)) {
    return [`PUBLIC_URL is ${publicUrl}, which is no address that others can reach: ${set}`]
  }
  if (coreUrl !== undefined && Addresses.isLoopback(hostname) && !Addresses.isLoopback(new URL(coreUrl).hostname)) {
    return [
      `the core at ${
        Addresses.shown(coreUrl)
      } would report to itself, because it gets ${internalUrl} as address: ${set}`
    ]
  }
  return Setting.isProduction(env) && values.publicUrl === undefined && Addresses.isShortName(hostname)
    ? [`PUBLIC_URL is not set: cores, agent cards and links get ${publicUrl}, a name that others may not know; ${set}`]
    : []
}

const warningsOf = (given: Given, part: ServedPart) => {
  const { env, values: { coreEventTokens, coreUrl } } = given
  return [
    ...misspelled(env),
    ...Setting.secretWarnings(all, env),
    ...(part === "core" ? [] : addressWarnings(given)),
    ...(Setting.isProduction(env) && coreUrl !== undefined && coreEventTokens === undefined
      ? ["CORE_EVENT_TOKENS is not set: the core has one of INTERNAL_TOKENS, with which it may act for any user"]
      : [])
  ]
}

const cleaningWarnings = (environment: Variables, serviceLinks: ReadonlyArray<string>) => {
  // A file in PEM ends with a line break.
  const known = new Set(all.filter(({ isMultiline }) => isMultiline !== true).map(({ name }) => name))
  const names = Setting.cleaned(environment).filter((name) => known.has(name))
  return [
    ...(names.length === 0 ? [] : [`blanks, line breaks or quotes around ${names.join(", ")} are ignored`]),
    ...serviceLinks.filter((name) => name === settings.internalPort.name).map((name) =>
      `${name} is ignored. ${Setting.serviceLinkAdvice(name)}`
    )
  ]
}

type Variables = Readonly<Record<string, string | undefined>>

/** Ports that are not in use although Kubernetes set their variables. */
const unusedServiceLinks = (env: Setting.Environment) => {
  const isClustered = Result.getOrElse(settings.isClustered.read(env), () => true)
  return [settings.internalPort.name, ...(isClustered ? [] : [settings.clusterPort.name])]
    .filter((name) => Setting.isServiceLink(env[name]))
}

const maxPort = 65_535

/** Ports from `CLUSTER_PORT` on: of several workers each has one for the cluster, and one for what the others ask of it. */
const clusterPortsOf = (workers: number): number => workers === 1 ? 1 : 2 * workers

const clusterOf = ({ env, report, values }: Given) => {
  const { clusterHost, clusterPort, internalPort, isClustered, port, workers } = values
  const last = clusterPort + clusterPortsOf(workers) - 1
  if (isClustered && last > maxPort) {
    report("CLUSTER_PORT", `must leave room for ${workers} workers: ${last} is no port`)
  }
  const shared = [port, internalPort].find((other) => other !== undefined && other >= clusterPort && other <= last)
  if (isClustered && shared !== undefined) {
    report(
      "CLUSTER_PORT",
      `must have ports of its own: ${shared} is PORT or INTERNAL_PORT, and it takes ${clusterPort} to ${last}`
    )
  }
  if (isClustered && Addresses.isWildcard(clusterHost)) {
    report("CLUSTER_HOST", `must be the address at which the other nodes reach this one, not ${clusterHost}`)
  }
  if (isClustered && Setting.isProduction(env) && env["CLUSTER_HOST"] === undefined) {
    report("CLUSTER_HOST", "not set, and CLUSTER is on and NODE_ENV production")
  }
  return isClustered ? { host: clusterHost, port: clusterPort } : undefined
}

/** Connections of each of several workers: at least one for notifications, and two so that a slow statement does not delay all others. */
export const connectionsOf = (connections: number, workers: number): number =>
  Math.max(3, Math.floor(connections / workers))

/** Settings of a worker in place of those that its operator has set for all. */
const ofWorker = (worker: WorkerAssignment.WorkerAssignment | undefined, { databaseConnections }: Given["values"]) =>
  worker === undefined ? {} : {
    cluster: worker.cluster,
    databaseConnections: connectionsOf(databaseConnections, worker.count)
  }

const upstreamsOf = ({ env, report, values }: Given, part: ServedPart) => {
  const endpoint = (
    baseUrl: string | undefined,
    apiKey: Redacted.Redacted | undefined,
    model: string
  ): Endpoint | undefined => baseUrl === undefined ? undefined : { baseUrl, apiKey, model, parameters: {} }
  if (values.modelUrl !== undefined && values.modelName === undefined) report("OPENAI_MODEL", "must be set")
  const { assistantBackendUrl: backend, coreUrl, filesDir } = values
  if (part === "core" && (backend === "none" || (backend === undefined && !Setting.isProduction(env)))) {
    report("ASSISTANT_BACKEND_URL", "must be set to a URL for a core that is served alone")
  }
  if (part === "service" && backend === "none" && coreUrl === undefined) {
    report("ASSISTANT_BACKEND_URL", "is none, so CORE_URL must be set: the built-in core calls an assistant backend")
  }
  if (part === "service" && filesDir !== undefined && backend !== "none") {
    report("FILES_DIR", "requires ASSISTANT_BACKEND_URL=none: otherwise the assistant backend keeps the files")
  }
  return {
    /** The model of the general assistant, which exists only without a file of assistants. */
    model: endpoint(values.modelUrl, values.modelKey, values.modelName ?? ""),
    transcription: endpoint(values.transcriptionUrl, values.transcriptionKey, values.transcriptionModel),
    hasBackend: backend !== "none"
  }
}

export type AppConfig = Effect.Success<ReturnType<typeof load>>

/** Reads all settings and collects what is wrong with any of them. */
export const load = Effect.fnUntraced(function*(environment: Variables, part: ServedPart = "service") {
  const variables = Setting.clean(environment)
  const serviceLinks = unusedServiceLinks(variables)
  const env = ProxySettings.effective(Record.filter(variables, (_, name) => !serviceLinks.includes(name)))
  /** A group that several extensions share is read, and reported, by each. */
  const problems = new Set<string>()
  const report = (name: string, problem: string) => {
    problems.add(`${name}: ${problem}`)
  }
  const read = <G extends Setting.Group>(group: G) => Setting.values(group, env, report)
  const isProduction = Setting.isProduction(env)
  const missing = isProduction ? missingIn(env, part) : []
  if (missing.length > 0) {
    problems.add(`not set, and NODE_ENV is production: ${missing.map((names) => names.join(" or ")).join(", ")}`)
  }
  if (isProduction) { for (const problem of ProductionSecrets.problemsOf(all, env)) problems.add(problem) }
  const given: Given = { env, report, values: read(settings) }
  checkDatabase(given)
  checkEventTokens(given)
  checkTokenNames(given)
  checkPublicUrl(given)
  yield* checkAssistants(given, part)
  // The problems are those of the settings.
  const { proxies, warnings } = ProxySettings.read(variables, () => {})
  const worker = WorkerAssignment.read(environment)
  const config = {
    isProduction,
    /** Shown to the operator, although the service starts. */
    warnings: [...cleaningWarnings(environment, serviceLinks), ...warningsOf(given, part), ...warnings],
    ...given.values,
    ...addressOf(given.values),
    ...secretsOf(given, part),
    ...upstreamsOf(given, part),
    proxies,
    /** The address of this node for the other nodes; undefined without a cluster. */
    cluster: clusterOf(given),
    /** Undefined when no collector is configured. */
    telemetry: TelemetrySettings.telemetryOf(given.values),
    extensions: extensions.map((extension) => extension.load(read)),
    /** Undefined for the only process. */
    worker,
    ...ofWorker(worker, given.values)
  }
  if (problems.size === 0) return config
  return yield* new InvalidSettings({ message: `The settings cannot be used:\n  ${[...problems].join("\n  ")}` })
})
