/** The bounds of every setting. One with a parser of ours, or for which a field is derived, has a case. */
import { assert, it } from "@effect/vitest"
import { Duration, Effect, Redacted, Result } from "effect"
import { generateKeyPairSync } from "node:crypto"
import * as AppConfig from "../../../src/runtime/config/AppConfig.ts"
import { all } from "../../../src/runtime/config/settings.ts"
import { useDirectory } from "../../kit/suite.ts"

const DATA_DIR = useDirectory()

type Config = AppConfig.AppConfig

/**
 * Reads the field of the configuration, its value without the setting, a valid text with its value, an invalid text (undefined when
 * every text is valid), and other settings without which it has no effect.
 */
type Case = readonly [
  of: (config: Config) => unknown,
  absent: unknown,
  valid: readonly [text: string, value: unknown],
  invalid?: string | undefined,
  others?: Readonly<Record<string, string>>
]

const otlp = { OTEL_EXPORTER_OTLP_ENDPOINT: "http://collector.example" }
const openai = { OPENAI_BASE_URL: "http://model.example/v1", OPENAI_MODEL: "m" }
const speech = { TRANSCRIPTION_URL: "http://speech.example/v1" }
const { publicKey } = generateKeyPairSync("ed25519")
const pem = String(publicKey.export({ format: "pem", type: "spki" }))
const key = "1ufm9JqSlCnW7a7VYjGQDPBlEOWLJ5wA8gZ0vqvSjeE="

const reveal = (value: Redacted.Redacted | undefined) => value === undefined ? undefined : Redacted.value(value)
const millis = (value: Duration.Duration | undefined) => value === undefined ? undefined : Duration.toMillis(value)
const algorithms = ({ tokenRules }: Config) => tokenRules.algorithms.join()

const cases: Readonly<Record<string, Case>> = {
  HOST: [(c) => c.host, "127.0.0.1", ["::1", "::1"]],
  PORT: [(c) => c.port, 3000, ["80", 80], "65536"],
  INTERNAL_PORT: [(c) => c.internalPort, undefined, ["3001", 3001], "65536"],
  PUBLIC_URL: [
    (c) => [c.publicUrl, c.eventsOrigin],
    ["http://127.0.0.1:3000", undefined],
    ["https://a.example/b/", ["https://a.example/b", "https://a.example"]],
    "ftp://a.example"
  ],
  CORS_ORIGINS: [
    (c) => c.corsOrigins,
    [],
    ["http://a.example, http://b", ["http://a.example", "http://b"]],
    "http://a/"
  ],
  DATABASE_URL: [
    (c) => c.databaseUrl?.options.database,
    undefined,
    ["postgres://db/a", "a"],
    "postgres://db?sslmode=x"
  ],
  DATABASE_DIRECT_URL: [
    (c) => c.databaseDirectUrl?.options.database,
    undefined,
    ["postgres://db/a", "a"],
    "postgres://a,b/c",
    { DATABASE_URL: "postgres://pooler/a" }
  ],
  DATA_DIR: [(c) => c.dataDir, DATA_DIR, [`${DATA_DIR}/a/..`, DATA_DIR], "/dev/null/a"],
  JWT_SECRET: [algorithms, "HS256", ["s".repeat(32), "HS256"], "s".repeat(31)],
  JWT_PUBLIC_KEY: [algorithms, "HS256", [pem, "EdDSA,Ed25519"], "no key"],
  JWT_JWKS_URL: [
    ({ tokenRules: { keys } }) => keys instanceof URL ? keys.href : keys.length,
    1,
    ["http://i.example/", "http://i.example/"],
    "i"
  ],
  JWT_ALGORITHMS: [algorithms, "HS256", ["HS384, HS512", "HS384,HS512"], "RS256"],
  JWT_ISSUER: [(c) => c.tokenRules.issuer, undefined, ["i", "i"]],
  JWT_AUDIENCE: [(c) => c.tokenRules.audience, undefined, ["a", "a"]],
  CORE_URL: [(c) => c.coreUrl, undefined, ["http://c/", "http://c"], "c"],
  CORE_TOKEN: [
    (c) => c.coreTokens.map((token) => reveal(token)?.length),
    [44],
    [`${"a".repeat(16)}, ${"b".repeat(17)}`, [16, 17, 35]],
    "\u201ca\u201d"
  ],
  INTERNAL_TOKENS: [(c) => c.internalTokens.map((token) => reveal(token)?.length), [44], ["123, 1", [3, 1]], ","],
  CORE_EVENT_TOKENS: [(c) => c.coreEventTokens.map((token) => reveal(token)?.length), [44], ["123, 1", [3, 1]], ","],
  ASSISTANT_BACKEND_URL: [(c) => c.assistantBackendUrl, undefined, ["http://b/a", "http://b/a"], "b"],
  FILES_DIR: [
    (c) => c.filesDir,
    undefined,
    [`${DATA_DIR}/f/.`, `${DATA_DIR}/f`],
    "/dev/null/a",
    { ASSISTANT_BACKEND_URL: "none", CORE_URL: "http://c" }
  ],
  ENCRYPTION_KEY: [
    (c) => c.encryptionKeys.map((found) => Redacted.value(found).length),
    [32],
    [`${key},${key}`, [32, 32]],
    key.slice(1)
  ],
  WEBHOOK_ALLOW_PRIVATE: [
    ({ webhookGuard: { allows } }) => [allows("127.0.0.1"), allows("10.1.2.3")],
    [true, false],
    ["10.0.0.0/8", [false, true]],
    "10.0.0.0/64"
  ],
  WEBHOOK_TIMEOUT: [(c) => millis(c.webhookTimeout), 15_000, ["2 seconds", 2000], "1 hour"],
  HTTPS_PROXY: [(c) => c.proxies.https?.url, undefined, ["https://p:1", "https://p:1"], "socks5://p"],
  HTTP_PROXY: [(c) => c.proxies.http?.url, undefined, ["p:1", "http://p:1"], "ftp://p"],
  ALL_PROXY: [
    ({ proxies: { http, https } }) => [http?.url, https?.url],
    [undefined, "http://s"],
    ["http://p", ["http://p", "http://s"]],
    "p/path",
    { HTTPS_PROXY: "http://s" }
  ],
  NO_PROXY: [
    ({ proxies: { exceptions } }) => exceptions.matches({ protocol: "http:", hostname: "a.b", port: 80 }),
    false,
    ["x, .b", true],
    undefined,
    { HTTP_PROXY: "p" }
  ],
  WEBHOOK_PROXY_RESOLVES: [(c) => c.webhookProxyResolves, false, ["on", true], "maybe"],
  ASSISTANTS_FILE: [
    (c) => c.assistantsFile,
    undefined,
    ["/a.yaml", "/a.yaml"],
    undefined,
    { ASSISTANT_BACKEND_URL: "http://b" }
  ],
  OPENAI_BASE_URL: [(c) => c.model?.baseUrl, undefined, ["http://m/v1", "http://m/v1"], "m", { OPENAI_MODEL: "m" }],
  OPENAI_API_KEY: [(c) => reveal(c.model?.apiKey), undefined, ["k", "k"], undefined, openai],
  OPENAI_MODEL: [(c) => c.model?.model, "m", ["n", "n"], undefined, openai],
  MODEL_RUNS: [(c) => c.modelRuns, 32, ["1", 1], "0"],
  TRANSCRIPTION_URL: [
    (c) => c.transcription?.baseUrl,
    undefined,
    ["http://t/v1/audio/transcriptions", "http://t/v1"],
    "t"
  ],
  TRANSCRIPTION_API_KEY: [(c) => reveal(c.transcription?.apiKey), undefined, ["k", "k"], undefined, speech],
  TRANSCRIPTION_MODEL: [(c) => c.transcription?.model, "whisper-1", ["w", "w"], undefined, speech],
  STORAGE_QUOTA: [(c) => c.storageQuota, 10 * 2 ** 30, ["1 MiB", 2 ** 20], "much"],
  ACCEPTANCE_TIMEOUT: [(c) => millis(c.acceptanceTimeout), 30_000, ["1 minute", 60_000], "0 seconds"],
  MAX_ACTIVE_TASKS: [(c) => c.maxActiveTasks, 5, ["7", 7], "0"],
  CORE_RUNS: [(c) => c.coreRuns, undefined, ["1", 1], "0"],
  CORE_RUNS_PER_ASSISTANT: [(c) => c.coreRunsPerAssistant, undefined, ["1", 1], "1.5"],
  RETENTION: [(c) => millis(c.retention), 30 * 86_400_000, ["1 day", 86_400_000], "0 days"],
  CLUSTER: [(c) => c.cluster?.port, undefined, ["on", 34431], "maybe"],
  CLUSTER_HOST: [(c) => c.cluster?.host, "127.0.0.1", ["10.0.0.1", "10.0.0.1"], undefined, { CLUSTER: "on" }],
  CLUSTER_PORT: [(c) => c.cluster?.port, 34431, ["1", 1], "-1", { CLUSTER: "on" }],
  DATABASE_CONNECTIONS: [(c) => c.databaseConnections, 10, ["2", 2], "1"],
  OTEL_EXPORTER_OTLP_ENDPOINT: [(c) => c.telemetry?.endpoint, undefined, ["http://c/o/", "http://c/o"], "ftp://c"],
  OTEL_EXPORTER_OTLP_PROTOCOL: [
    (c) => c.telemetry?.protocol,
    "http/protobuf",
    ["http/json", "http/json"],
    "grpc",
    otlp
  ],
  OTEL_EXPORTER_OTLP_HEADERS: [
    ({ telemetry }) => telemetry && Redacted.value(telemetry.headers),
    {},
    ["authorization=Bearer%20one,x-tenant=two", { authorization: "Bearer one", "x-tenant": "two" }],
    "no pair",
    otlp
  ],
  OTEL_EXPORTER_OTLP_TIMEOUT: [(c) => millis(c.telemetry?.timeout), 10_000, ["1", 1], "soon", otlp],
  OTEL_SERVICE_NAME: [
    (c) => c.telemetry?.attributes,
    { "service.name": "a" },
    ["tasks", { "service.name": "tasks" }],
    undefined,
    { ...otlp, OTEL_RESOURCE_ATTRIBUTES: "service.name=a" }
  ],
  OTEL_RESOURCE_ATTRIBUTES: [(c) => c.telemetry?.attributes, {}, ["a=b=c", { a: "b=c" }], "%", otlp],
  OTEL_TRACES_SAMPLER: [
    (c) => c.telemetry?.sampler.name,
    "parentbased_always_on",
    ["traceidratio", "traceidratio"],
    "sometimes",
    otlp
  ],
  OTEL_TRACES_SAMPLER_ARG: [(c) => c.telemetry?.sampler.ratio, 1, ["0.25", 0.25], "2", otlp],
  OTEL_METRIC_EXPORT_INTERVAL: [(c) => millis(c.telemetry?.metricsInterval), 10_000, ["100", 100], "99", otlp],
  LOG_LEVEL: [(c) => c.logLevel, "Info", ["Debug", "Debug"], "loud"],
  NODE_ENV: [(c) => c.isProduction, false, ["test", false], "production"]
}

const bounded = all.flatMap(({ bounds, name, read }) => bounds === undefined ? [] : [{ name, read, bounds }])

it.each(bounded)("$name accepts its bounds and nothing beyond them", ({ bounds: [lowest, highest], name, read }) => {
  const isAccepted = (text: string) => Result.isSuccess(read({ [name]: text }))
  const moved = (text: string, by: number) => text.replace(/\d+/, (number) => String(Number(number) + by))
  assert.deepStrictEqual([lowest, highest].filter(isAccepted), [lowest, highest])
  assert.deepStrictEqual([moved(lowest, -1), moved(highest, 1)].filter(isAccepted), [])
})

const texts = all.flatMap(({ longest, name, read }) => longest === undefined ? [] : [{ name, read, longest }])

it.each(texts)("$name accepts $longest characters and no more", ({ longest, name, read }) => {
  const isAccepted = (length: number) => Result.isSuccess(read({ [name]: "x".repeat(length) }))
  assert.deepStrictEqual([longest, longest + 1].map(isAccepted), [true, false])
})

it("name each variable once", () => {
  assert.lengthOf(new Set(all.map(({ name }) => name)), all.length)
  assert.isEmpty(Object.keys(cases).filter((name) => !all.some((setting) => setting.name === name)))
})

it.effect.each(Object.entries(cases))(
  "%s",
  ([name, [of, absent, [text, value], invalid, others]]) =>
    Effect.gen(function*() {
      const load = (more: object) => AppConfig.load({ DATA_DIR, ...others, ...more })
      assert.deepStrictEqual(of(yield* load({})), absent)
      assert.deepStrictEqual(of(yield* load({ [name]: text })), value)
      if (invalid === undefined) return
      const { message } = yield* Effect.flip(load({ [name]: invalid }))
      // All problems of the tokens' keys have one name.
      assert.match(message, new RegExp(name === "NODE_ENV" ? "NODE_ENV is production" : `${name}|^  JWT: `, "m"))
      if (name.startsWith("OTEL")) assert.notInclude(message, invalid)
    })
)
