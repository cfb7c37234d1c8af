/** Commands for operators: serve, migrate, token, revoke, doctor. */
import { Config, Duration, Effect, Layer, Option, Redacted, References, Schema } from "effect"
import { Command, Flag } from "effect/cli"
import { Transport } from "../../http/client/promise/Transport.ts"
import * as Banner from "../Banner.ts"
import * as ErrorMessages from "../ErrorMessages.ts"
import { nodeProblem } from "../Version.ts"
import { boolean, optionalText, text } from "./Flags.ts"
import * as InternalToken from "./InternalToken.ts"
import { asFailure, described, failed, internalUrl, print, signingSecret } from "./Root.ts"

/** Imports a module that only one command needs, so that the other commands start quickly. An old Node cannot import some. */
const load = <A>(module: () => Promise<A>) => {
  const problem = nodeProblem(process.versions.node)
  return problem === undefined ? Effect.promise(module) : Effect.fail(failed(problem))
}

const serveAlone = Effect.fnUntraced(function*(part: "core" | "backend", environment: NodeJS.ProcessEnv) {
  const AppConfig = yield* load(() => import("../config/AppConfig.ts"))
  const Builtin = yield* load(() => import("../builtin/Builtin.ts"))
  const Logs = yield* load(() => import("../telemetry/Logs.ts"))
  const Watchdog = yield* load(() => import("../node/Watchdog.ts"))
  const launch = Effect.flatMap(AppConfig.load(environment, part), (config) => {
    const layerReady = Effect.annotateLogs(Effect.logInfo("ready"), { part, address: Banner.localUrl(config) }).pipe(
      Layer.effectDiscard,
      Layer.provide(Builtin.layerAlone(part, config))
    )
    const layerWatchdog = Watchdog.layer(config.watchdogTimeout, config.isProduction)
    return Banner.logLifetime(Layer.launch(Layer.merge(layerReady, layerWatchdog)), config).pipe(
      Effect.provideService(References.MinimumLogLevel, config.logLevel)
    )
  })
  return yield* Logs.provide(launch, environment)
})

const serve = Command.make(
  "serve",
  {
    only: Flag.Literals("only", ["core", "backend"]).pipe(
      Flag.withDescription("Run only the built-in processing core or assistant backend"),
      Flag.optional
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
    )
  },
  Effect.fnUntraced(function*({ host, only, port, testClock }) {
    const environment = { ...process.env, HOST: host, PORT: String(port) }
    if (Option.isSome(only)) return yield* serveAlone(only.value, environment)
    if (!testClock) return yield* (yield* load(() => import("../Main.ts"))).run(environment)
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

const token = Command.make(
  "token",
  {
    sub: text("sub", "User of the token (default: developer)").pipe(Flag.withDefault("developer")),
    validFor: text("valid-for", "Lifetime of the token (default: '30 days')").pipe(
      Flag.withSchema(Schema.DurationFromString),
      Flag.withDefault(Duration.days(30))
    ),
    jti: optionalText("jti", "Token id, with which it can be revoked")
  },
  Effect.fnUntraced(function*({ jti, sub, validFor }) {
    const secret = yield* signingSecret
    if (Option.isNone(secret)) {
      return yield* failed("No signing key: set JWT_SECRET, or start the service once to generate a development key")
    }
    const minted = yield* Banner.mint(secret.value, { sub, validFor, jti: Option.getOrUndefined(jti) })
    return yield* print({ token: minted, sub }, ({ token }) => token)
  })
).pipe(described("Mint a development JWT", "token --sub alice --valid-for '1 hour'"))

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
    internalToken: InternalToken.flag
  },
  Effect.fnUntraced(function*({ internalToken, issuedBefore, jti, jwt, sub }) {
    const url = yield* internalUrl
    const credential = yield* InternalToken.find(internalToken)
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
  { internalToken: InternalToken.flag },
  ({ internalToken }) => Effect.flatMap(load(() => import("./Doctor.ts")), ({ examine }) => examine(internalToken))
).pipe(described("Check settings, database, keys, core, backend, service and clocks", "doctor"))

export const commands = [serve, migrate, token, revoke, doctor] as const
