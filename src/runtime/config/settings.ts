/** The settings of the process. `npm run docs` writes the table in src/runtime/README.md from all settings. */
import { Config, Redacted } from "effect"
import { isIPv6 } from "node:net"
import * as path from "node:path"
import type { CorsOrigins } from "../../http/Cors.ts"
import {
  baseUrl,
  commaList,
  type Group,
  integer,
  isServiceLink,
  list,
  names,
  optional,
  parsed,
  port,
  type Reader,
  secret,
  secrets,
  setting,
  tokens,
  tokenSecrets
} from "../../services/settings/Setting.ts"
import * as Settings from "../../services/settings/Settings.ts"
import * as FreshTokens from "../FreshTokens.ts"
import { extensions } from "../loadedExtensions.ts"
import * as DatabaseUrl from "../postgres/DatabaseUrl.ts"
import * as TelemetrySettings from "../telemetry/TelemetrySettings.ts"
import * as AddressGuard from "../webhooks/AddressGuard.ts"
import * as Addresses from "./Addresses.ts"
import { encryptionKeyOf } from "./ProductionSecrets.ts"
import * as ProxySettings from "./ProxySettings.ts"
import * as TokenKeys from "./TokenKeys.ts"

const originsOf = (text: string): CorsOrigins => {
  if (text.trim() === "*") return "*"
  const origins = commaList(text)
  const wrong = origins.filter((origin) => !URL.canParse(origin) || new URL(origin).origin !== origin)
  if (wrong.length > 0) throw new Error(`${wrong.join(", ")} is no origin as in https://app.example`)
  return origins
}

/** A URL, or the word `none`. */
const noneOr = (reader: Reader<string>): Reader<string> => (name) =>
  Config.flatMap(Config.String(name), (text) => /^none$/i.test(text) ? Config.succeed("none") : reader(name))

const databaseUrl = parsed((text) => DatabaseUrl.parse(Redacted.make(text)))

/** The longest name in DNS. */
const maxHost = 253

const host = parsed((text) => {
  const name = text.replace(/^\[(.*)\]$/, "$1")
  if (name.length > maxHost) throw new Error(`must have at most ${maxHost} characters`)
  // The URLs of ports of this host are made of it.
  if ((!isIPv6(name) && /[\s/\\@?#:]/.test(name)) || !URL.canParse(Addresses.localUrl(name, 80))) {
    throw new Error("must be an address or a name, without http://, port and zone")
  }
  return name
})

export const settings = {
  host: setting(host, {
    name: "HOST",
    default: "127.0.0.1",
    meaning: "where REST, RPC, docs and health listen",
    longest: maxHost
  }),
  port: setting(port, { name: "PORT", default: "3000", meaning: "the port of `HOST`" }),
  internalPort: optional(port, {
    name: "INTERNAL_PORT",
    unset: "`PORT`",
    meaning: "port of `/internal/*` and `/rpc`, which `PORT` then no longer serves"
  }),
  publicUrl: optional(baseUrl, {
    name: "PUBLIC_URL",
    unset: "`http://HOST:PORT`; production requires it if `HOST` is `0.0.0.0` or `::`",
    meaning: "the external base URL, to which the core reports (with `INTERNAL_PORT` it has to reach that port)",
    requiredBy: ["core"]
  }),
  corsOrigins: setting(parsed(originsOf), {
    name: "CORS_ORIGINS",
    default: "",
    meaning: "origins of web pages that may call the service, or `*`"
  }),
  databaseUrl: optional(databaseUrl, {
    name: "DATABASE_URL",
    unset: "embedded Postgres",
    meaning: "URL of a Postgres 14 or later, or of a pooler; see deployment/README.md",
    requiredBy: ["service"]
  }),
  databaseDirectUrl: optional(databaseUrl, {
    name: "DATABASE_DIRECT_URL",
    unset: "`DATABASE_URL`",
    meaning: "the same database without a pooler; a cluster behind a transaction pooler requires it"
  }),
  dataDir: setting(parsed((directory) => path.resolve(directory)), {
    name: "DATA_DIR",
    default: ".data",
    meaning: "directory of the embedded database, demo storage and development keys"
  }),
  ...TokenKeys.settings,
  coreUrl: optional(baseUrl, {
    name: "CORE_URL",
    unset: "built-in core",
    meaning: "base URL of the processing core",
    requiredBy: ["service"]
  }),
  coreTokens: optional(secrets, {
    name: "CORE_TOKEN",
    unset: "generated; in production unset",
    meaning:
      "list of bearer tokens for the core: the first that it does not answer with 401 or 403 is sent; a core served alone accepts all",
    requiredBy: ["core"],
    secret: tokenSecrets
  }),
  internalTokens: optional(tokens, {
    name: "INTERNAL_TOKENS",
    unset: "generated",
    meaning: "list of bearer tokens accepted on `/internal/*` and `/rpc`; 32 characters or more in production",
    requiredBy: ["service"],
    secret: "tokens"
  }),
  internalTokenNames: setting(names, {
    name: "INTERNAL_TOKEN_NAMES",
    default: "",
    meaning:
      "names of those who have `INTERNAL_TOKENS`, in their order; the audit and the tasks that they cancel show them (else `token-1`, …)"
  }),
  coreEventTokens: optional(tokens, {
    name: "CORE_EVENT_TOKENS",
    unset: "`INTERNAL_TOKENS`",
    meaning:
      "list of bearer tokens accepted for the events of runs and nothing else, where `INTERNAL_TOKENS` are then refused; a core served alone sends the first that is accepted",
    requiredBy: ["core"],
    alternatives: ["INTERNAL_TOKENS"],
    secret: "tokens"
  }),
  assistantBackendUrl: optional(noneOr(baseUrl), {
    name: "ASSISTANT_BACKEND_URL",
    unset: "built-in demo backend",
    meaning:
      "base URL of the assistant backend, or `none` for a core that needs none: `POST /api/files` and `GET /api/storage/base` are then 404, unless `FILES_DIR` is set",
    requiredBy: ["service", "core"]
  }),
  filesDir: optional(parsed((directory) => path.resolve(directory)), {
    name: "FILES_DIR",
    unset: "no files",
    meaning:
      "with `ASSISTANT_BACKEND_URL=none`, the directory in which the service keeps files itself, common to all nodes; downloads are at `PUBLIC_URL/storage`"
  }),
  encryptionKeys: optional(list(encryptionKeyOf), {
    name: "ENCRYPTION_KEY",
    unset: "generated",
    meaning: "list of 32 bytes in base64, which decrypt secrets at rest; the first encrypts",
    requiredBy: ["service"],
    secret: "keys"
  }),
  webhookGuard: setting(parsed(AddressGuard.parse), {
    name: "WEBHOOK_ALLOW_PRIVATE",
    default: "false",
    embedded: "true",
    meaning: "list of private hosts and CIDRs that webhooks may reach; `true` allows loopback"
  }),
  ...Settings.settings,
  ...ProxySettings.settings,
  assistantsFile: optional(parsed((file) => path.resolve(file)), {
    name: "ASSISTANTS_FILE",
    unset: "the demo assistants",
    meaning: "YAML or JSON file of the built-in backend's assistants; reloaded when it changes"
  }),
  modelUrl: optional(baseUrl, {
    name: "OPENAI_BASE_URL",
    unset: "unset",
    meaning: "model of the built-in backend's assistant 10; ignored with `ASSISTANTS_FILE`"
  }),
  modelKey: optional(secret, { name: "OPENAI_API_KEY", unset: "unset", meaning: "its key" }),
  modelName: optional(Config.String, { name: "OPENAI_MODEL", unset: "unset", meaning: "its name, which it requires" }),
  modelRuns: integer(1, 1_000_000, {
    name: "MODEL_RUNS",
    default: "32",
    meaning:
      "runs that the built-in core works on at a time, on each node or served alone; it answers others with 429, so that they wait in the queue"
  }),
  transcriptionUrl: optional(
    (name) => Config.map(baseUrl(name), (given) => given.replace(/\/audio\/transcriptions$/, "")),
    {
      name: "TRANSCRIPTION_URL",
      unset: "unset",
      meaning: "speech-to-text service of the built-in backend"
    }
  ),
  transcriptionKey: optional(secret, { name: "TRANSCRIPTION_API_KEY", unset: "unset", meaning: "its key" }),
  transcriptionModel: setting(Config.String, {
    name: "TRANSCRIPTION_MODEL",
    default: "whisper-1",
    meaning: "its model"
  }),
  /** Bytes that one user may keep in the built-in storage. */
  storageQuota: setting((name) => Config.map(Config.ByteSize(name), Number), {
    name: "STORAGE_QUOTA",
    default: "10 GiB",
    meaning: "maximum total size of one user's files in the built-in backend, or in `FILES_DIR`"
  }),
  isClustered: setting(Config.Boolean, {
    name: "CLUSTER",
    default: "off",
    meaning: "`on`: this process is a node of a cluster on the same Postgres"
  }),
  clusterHost: setting(host, {
    name: "CLUSTER_HOST",
    default: "127.0.0.1",
    meaning: "address where the other nodes see whether this one runs",
    longest: maxHost
  }),
  clusterPort: setting(port, { name: "CLUSTER_PORT", default: "34431", meaning: "the port of `CLUSTER_HOST`" }),
  workers: integer(1, 32, {
    name: "WORKERS",
    default: "1",
    meaning:
      "processes of this machine that serve `PORT` together, as a cluster of their own; connections and memory are divided among them"
  }),
  databaseConnections: integer(2, 1000, {
    name: "DATABASE_CONNECTIONS",
    default: "10",
    meaning: "connections, one of them for notifications; of `WORKERS` each has at least 3"
  }),
  ...TelemetrySettings.settings,
  logLevel: setting(Config.LogLevel, {
    name: "LOG_LEVEL",
    default: "Info",
    meaning: "`Debug`, `Info`, `Warn` or `Error`"
  }),
  ...FreshTokens.settings,
  environment: optional(Config.String, {
    name: "NODE_ENV",
    unset: "unset",
    meaning: "`production`: nothing is embedded or generated, and logs are JSON lines"
  })
}

const groups: ReadonlyArray<Group> = [settings, ...extensions.map((extension) => extension.settings)]

/** The settings of the process and of all extensions. */
export const all = groups.flatMap((group) => Object.values(group))

const known = new Set([...all.map(({ name }) => name), "TASK_SERVICE_URL", "TASK_SERVICE_TOKEN"])

/** The number of inserted, removed and replaced characters between two texts (Levenshtein). */
const distance = (one: string, other: string): number => {
  let row = Array.from({ length: other.length + 1 }, (_, index) => index)
  for (const [above, char] of [...one].entries()) {
    const next = [above + 1]
    for (const [left, otherChar] of [...other].entries()) {
      const replaced = (row[left] ?? 0) + (char === otherChar ? 0 : 1)
      next.push(Math.min(replaced, (row[left + 1] ?? 0) + 1, (next[left] ?? 0) + 1))
    }
    row = next
  }
  return row[other.length] ?? 0
}

/** The setting that an unknown variable resembles: one difference in six characters, two at most. */
const nearest = (name: string) =>
  name.length < 6
    ? undefined
    : [...known].find((other) => {
      const limit = Math.min(2, Math.floor(name.length / 6))
      return Math.abs(other.length - name.length) <= limit && distance(name, other) <= limit
    })

/** A warning for each variable that is no setting but resembles one. */
export const misspelled = (environment: Readonly<Record<string, string>>): ReadonlyArray<string> =>
  Object.entries(environment).flatMap(([name, text]) => {
    const meant = known.has(name) || isServiceLink(text) ? undefined : nearest(name)
    return meant === undefined ? [] : [`${name} is not a setting: did you mean ${meant}?`]
  })
