/** Commands for who runs the service: serve, migrate, token, revoke, doctor, conformance, demo. */
import { Config, Duration, Effect, Layer, Option, Predicate, Redacted, References, Schema } from "effect"
import { Command, Flag } from "effect/cli"
import { SecureRandom } from "effect/crypto"
import { Transport } from "../../http/client/promise/Transport.ts"
import * as Banner from "../Banner.ts"
import * as Addresses from "../config/Addresses.ts"
import type { CaseReport } from "../conformance/CoreConformance.ts"

import * as ErrorMessages from "../ErrorMessages.ts"
import { nodeProblem } from "../Version.ts"
import { boolean, int, optionalInt, optionalText, text } from "./Flags.ts"
import {
  asFailure,
  described,
  environment,
  failed,
  findInternalToken,
  findToken,
  internalToken,
  internalUrl,
  mintToken,
  note,
  print,
  root,
  signingSecret
} from "./Root.ts"

/** Imports a module that only one command needs, so that the other commands start quickly. An old Node cannot import some. */
const load = <A>(module: () => Promise<A>) => {
  const problem = nodeProblem(process.versions.node)
  return problem === undefined ? Effect.promise(module) : Effect.fail(failed(problem))
}

const checkTimeout = Duration.seconds(2)

const serveAlone = Effect.fnUntraced(function*(part: "core" | "backend", variables: NodeJS.ProcessEnv) {
  const AppConfig = yield* load(() => import("../config/AppConfig.ts"))
  const Builtin = yield* load(() => import("../builtin/Builtin.ts"))
  const Logs = yield* load(() => import("../telemetry/Logs.ts"))
  const { Proxies } = yield* load(() => import("../node/Proxies.ts"))
  const launch = Effect.flatMap(AppConfig.load(variables, part), (config) => {
    const layerReady = Effect.annotateLogs(Effect.logInfo("ready"), {
      part,
      address: Addresses.localUrl(config.host, config.port)
    }).pipe(
      Layer.effectDiscard,
      Layer.provide(Builtin.layerAlone(part, config))
    )
    return Banner.logLifetime(Layer.launch(layerReady), config).pipe(
      Effect.provideService(References.MinimumLogLevel, config.logLevel),
      Effect.provideService(Proxies, config.proxies)
    )
  })
  return yield* Logs.provide(launch, variables)
})

const serve = Command.make(
  "serve",
  {
    only: Flag.Literals("only", ["core", "backend"]).pipe(
      Flag.withDescription("Run only the built-in processing core or assistant backend"),
      Flag.optional
    ),
    embedded: boolean(
      "embedded",
      "Run everything in one process to try it, as in development, also in the image: data and secrets in DATA_DIR"
    ),
    testClock: boolean("test-clock", "Run in memory, with a clock and a core that client tests control over HTTP"),
    host: text("host", "Address to listen on (HOST; default: 127.0.0.1)").pipe(
      Flag.withFallbackConfig(Config.String("HOST")),
      Flag.withDefault("127.0.0.1")
    ),
    port: Flag.Int("port").pipe(
      Flag.withDescription("Port to listen on (PORT; default: 3000)"),
      Flag.withFallbackConfig(Config.Int("PORT")),
      Flag.withDefault(3000)
    ),
    workers: Flag.Int("workers").pipe(
      Flag.withDescription("Processes that serve the port together, as a cluster of their own (WORKERS; default: 1)"),
      Flag.withFallbackConfig(Config.Int("WORKERS")),
      Flag.withDefault(1)
    )
  },
  Effect.fnUntraced(function*({ embedded, host, only, port, testClock, workers }) {
    const own = { ...process.env, HOST: host, PORT: String(port), WORKERS: String(workers) }
    const publicUrl = (yield* environment)["PUBLIC_URL"] ?? `http://localhost:${port}`
    const variables = embedded ? { ...own, NODE_ENV: "development", PUBLIC_URL: publicUrl } : own
    if (Option.isSome(only)) return yield* serveAlone(only.value, variables)
    if (!testClock) return yield* (yield* load(() => import("../Main.ts"))).run(variables)
    const TestClockServer = yield* load(() => import("../testing/TestClockServer.ts"))
    return yield* Effect.mapError(
      Layer.launch(TestClockServer.layer({ host, port })),
      (error) => failed(`The service cannot listen: ${ErrorMessages.cannotListen(error, "PORT")}`)
    )
  })
).pipe(described("Run the service, configured by environment variables", "serve --port 8080"))

const migrate = Command.make(
  "migrate",
  {},
  Effect.fnUntraced(function*() {
    const App = yield* load(() => import("../App.ts"))
    const AppConfig = yield* load(() => import("../config/AppConfig.ts"))
    yield* Effect.flatMap(AppConfig.load(process.env), App.migrate)
    yield* print({ migrated: true }, () => "The schema is current.")
  })
).pipe(
  Command.withDescription("Migrate the database schema, as \"serve\" does when it starts"),
  Command.withExamples([{ command: "DATABASE_URL=postgres://localhost/tasks async-task-service migrate" }])
)

/** A service that runs here with another key refuses what this shell mints. Without one nothing is said. */
const warnOfOtherKey = Effect.fnUntraced(function*(token: string) {
  const { url } = yield* root
  const refusal = yield* Effect.tryPromise(() =>
    fetch(`${url}/api/tasks?per_page=1`, {
      headers: { authorization: `Bearer ${token}` },
      signal: AbortSignal.timeout(Duration.toMillis(checkTimeout))
    }).then((response) => response.status === 401 ? response.json() : undefined)
  ).pipe(Effect.orElseSucceed(() => undefined))
  if (!Predicate.hasProperty(refusal, "message")) return
  const key = (yield* environment)["JWT_SECRET"] === undefined ? "the key in DATA_DIR" : "JWT_SECRET"
  yield* note(
    `Warning: the service at ${
      Addresses.shown(url)
    } refuses this token, which is signed with ${key}. ${refusal.message}\n`
      + "Give this command the JWT_SECRET, JWT_ISSUER, JWT_AUDIENCE and JWT_ALGORITHMS of the service."
  )
})

const mintAs = (name: string) =>
  Command.make(
    name,
    {
      sub: text("sub", "User of the token (default: developer)").pipe(Flag.withDefault("developer")),
      validFor: text("valid-for", "Lifetime of the token (default: '30 days')").pipe(
        Flag.withSchema(Schema.DurationFromString),
        Flag.withDefault(Duration.days(30))
      ),
      jti: optionalText("jti", "Token id, with which it can be revoked")
    },
    Effect.fnUntraced(function*({ jti, sub, validFor }) {
      if (Option.isNone(yield* signingSecret)) {
        return yield* failed("No signing key: set JWT_SECRET, or start the service once to generate a development key")
      }
      const minted = yield* mintToken({ sub, validFor, jti: Option.getOrUndefined(jti) })
      yield* warnOfOtherKey(minted)
      return yield* print({ token: minted, sub }, ({ token }) => token)
    })
  )

const token = mintAs("token").pipe(
  described(
    "Mint a JWT with the first JWT_SECRET: for scripts, and to try the service",
    "token --sub alice --valid-for '1 hour'"
  ),
  Command.withSubcommands([mintAs("mint").pipe(described("The same", "token mint --sub alice"))])
)

const revoke = Command.make(
  "revoke",
  {
    jti: optionalText("jti", "Revoke the token with this id"),
    jwt: Flag.Redacted("jwt").pipe(Flag.withDescription("Revoke this token"), Flag.optional),
    sub: optionalText("sub", "Revoke all tokens of this user"),
    issuedBefore: optionalText(
      "issued-before",
      "With --sub: revoke only tokens issued before this ISO 8601 timestamp (default: now)"
    ),
    internalToken
  },
  Effect.fnUntraced(function*({ internalToken, issuedBefore, jti, jwt, sub }) {
    const url = yield* internalUrl
    const credential = yield* findInternalToken(internalToken)
    const body = {
      jti: Option.getOrUndefined(jti),
      token: Option.getOrUndefined(Option.map(jwt, Redacted.value)),
      sub: Option.getOrUndefined(sub),
      issued_before: Option.getOrUndefined(issuedBefore)
    }
    yield* Effect.tryPromise({
      try: (signal) =>
        new Transport({ baseUrl: url, token: Redacted.value(credential) }).send({
          method: "POST",
          path: "/internal/tokens/revoke",
          body: JSON.stringify(body),
          headers: { "content-type": "application/json" },
          signal
        }),
      catch: asFailure
    })
    return yield* print({ revoked: true }, () => "Revoked.")
  })
).pipe(
  Command.withDescription("Revoke a token, or all tokens of a user"),
  Command.withExamples([{
    command: "async-task-service revoke --sub alice",
    description: "Revoke all tokens of the user alice"
  }])
)

const doctor = Command.make(
  "doctor",
  { internalToken },
  ({ internalToken }) => Effect.flatMap(load(() => import("./Doctor.ts")), ({ examine }) => examine(internalToken))
).pipe(described("Check settings, database, keys, core, backend, service and clocks", "doctor"))

const secret = (name: string, description: string) =>
  Flag.Redacted(name).pipe(Flag.withDescription(description), Flag.withDefault(Redacted.make("")))

const conformanceOfCore = Command.make(
  "core",
  {
    coreToken: secret("core-token", "CORE_TOKEN, which the core requires"),
    eventToken: secret("event-token", "The token that the core sends with its events"),
    userToken: secret("user-token", "Sent to the core as user_token"),
    assistant: int("assistant", "Id of an assistant that completes its runs", 1),
    toolsAssistant: optionalInt("tools-assistant", "Id of an assistant that calls the client tools it is given"),
    port: int("events-port", "Port on which events are received; 0 takes a free one", 0),
    host: Flag.String("events-host").pipe(
      Flag.withDescription("Name of this machine for the core"),
      Flag.withDefault("127.0.0.1")
    )
  },
  Effect.fnUntraced(function*({ coreToken, eventToken, toolsAssistant, userToken, ...given }) {
    const { json, url } = yield* root
    const CoreConformance = yield* Effect.promise(() => import("../conformance/CoreConformance.ts"))
    const core = {
      ...given,
      url: url.replace(/(?<!\/)\/+$/, ""),
      coreToken: Redacted.value(coreToken),
      eventToken: Redacted.value(eventToken),
      userToken: Redacted.value(userToken),
      toolsAssistant: Option.getOrUndefined(toolsAssistant)
    }
    const { FetchHttpClient } = yield* Effect.promise(() => import("effect/http"))
    const report = ({ message, milliseconds, name, outcome }: CaseReport) =>
      note(`${outcome.padEnd(7)}  ${name}${message === null ? "" : `: ${message}`}  (${milliseconds} ms)`)
    const cases = yield* CoreConformance.run(core, json ? () => Effect.void : report).pipe(
      Effect.provide([FetchHttpClient.layer, SecureRandom.layerWebCrypto])
    )
    const count = (outcome: string) => cases.filter((found) => found.outcome === outcome).length
    const summary = { url: core.url, passed: count("passed"), failed: count("failed"), skipped: count("skipped") }
    yield* print(
      { ...summary, cases },
      () => `${summary.passed} passed, ${summary.failed} failed, ${summary.skipped} skipped`
    )
    if (summary.failed > 0) return yield* failed(`${summary.failed} of ${cases.length} cases failed`)
  })
).pipe(
  described(
    "Test whether a processing core conforms to the protocol, as the service would call it",
    "conformance core --url http://127.0.0.1:3001 --core-token $A --event-token $B"
  )
)

const conformance = Command.make("conformance").pipe(
  Command.withSubcommands([conformanceOfCore]),
  described(
    "Test whether a processing core conforms to the protocol",
    "conformance core --url http://127.0.0.1:3001 --core-token $A --event-token $B"
  )
)

const demo = Command.make(
  "demo",
  {
    running: boolean(
      "running",
      "Use the service at --url instead of a temporary one; it must be able to send webhooks to this machine"
    )
  },
  Effect.fnUntraced(function*({ running }) {
    const { token, url } = yield* root
    const Demo = yield* Effect.promise(() => import("./Demo.ts"))
    yield* Demo.run(running ? { url, token: yield* findToken(token) } : undefined)
  })
).pipe(
  Command.withDescription("Demonstrate upload, create, progress, tool calls, webhooks and cancel"),
  Command.withExamples([{ command: "async-task-service demo", description: "With a temporary service" }])
)

export const commands = [serve, migrate, token, revoke, doctor, conformance, demo] as const
