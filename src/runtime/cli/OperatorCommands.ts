/** Commands for operators: serve, migrate, token, revoke, doctor. */
import { Config, Console, Duration, Effect, Layer, Option, Predicate, Redacted, Schema } from "effect"
import { Command, Flag } from "effect/cli"
import { FetchHttpClient, HttpClient, HttpClientRequest } from "effect/http"
import * as Banner from "../Banner.ts"
import { rootCauseMessage } from "../ErrorMessages.ts"
import * as InternalToken from "./InternalToken.ts"
import { failed, print, root, signingSecret } from "./Root.ts"

/** Imports a module that only one command needs, so that the other commands start quickly. */
const load = <A>(module: () => Promise<A>) => Effect.promise(module)

const serveAlone = Effect.fnUntraced(
  function*(part: "core" | "backend", environment: NodeJS.ProcessEnv) {
    const AppConfig = yield* load(() => import("../config/AppConfig.ts"))
    const Builtin = yield* load(() => import("../builtin/Builtin.ts"))
    const Watchdog = yield* load(() => import("../node/Watchdog.ts"))
    const config = yield* AppConfig.load(environment, part)
    yield* Console.log(`Built-in ${part} listening on http://${config.host}:${config.port}`)
    const layerWatchdog = Watchdog.layer(config.watchdogTimeout, config.isProduction)
    return yield* Layer.launch(Layer.merge(Builtin.layerAlone(part, config), layerWatchdog))
  },
  Effect.mapError((error) => failed(rootCauseMessage(error)))
)

const serve = Command.make(
  "serve",
  {
    only: Flag.Literals("only", ["core", "backend"]).pipe(
      Flag.withDescription("Run only the built-in processing core or assistant backend"),
      Flag.optional
    ),
    testClock: Flag.Boolean("test-clock").pipe(
      Flag.withDescription("Run in memory, with a clock and a core that client tests control over HTTP"),
      Flag.withDefault(false)
    ),
    host: Flag.String("host").pipe(
      Flag.withDescription("Address to listen on (HOST; default: 127.0.0.1)"),
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
      (error) => failed(`The service cannot listen: ${rootCauseMessage(error)}`)
    )
  })
).pipe(Command.withDescription("Run the service, configured by environment variables"))

const migrate = Command.make(
  "migrate",
  {},
  Effect.fnUntraced(function*() {
    const App = yield* load(() => import("../App.ts"))
    const AppConfig = yield* load(() => import("../config/AppConfig.ts"))
    const PooledRandom = yield* load(() => import("../node/PooledRandom.ts"))
    yield* AppConfig.load(process.env).pipe(
      Effect.flatMap((config) =>
        Effect.scoped(Layer.build(Layer.provide(App.layerDatabase(config), PooledRandom.layer)))
      ),
      Effect.mapError((error) => failed(rootCauseMessage(error)))
    )
    yield* print({ migrated: true }, () => "The schema is current.")
  })
).pipe(Command.withDescription("Migrate the database schema, as \"serve\" does when it starts"))

const token = Command.make(
  "token",
  {
    sub: Flag.String("sub").pipe(
      Flag.withDescription("User of the token (default: developer)"),
      Flag.withDefault("developer")
    ),
    validFor: Flag.String("valid-for").pipe(
      Flag.withDescription("Lifetime of the token (default: '30 days')"),
      Flag.withSchema(Schema.DurationFromString),
      Flag.withDefault(Duration.days(30))
    ),
    jti: Flag.String("jti").pipe(Flag.withDescription("Token id, with which it can be revoked"), Flag.optional)
  },
  Effect.fnUntraced(function*({ jti, sub, validFor }) {
    const secret = yield* signingSecret
    if (Option.isNone(secret)) {
      return yield* failed("No signing key: set JWT_SECRET, or start the service once to generate a development key")
    }
    const minted = yield* Banner.mint(secret.value, { sub, validFor, jti: Option.getOrUndefined(jti) })
    return yield* print({ token: minted, sub }, ({ token }) => token)
  })
).pipe(Command.withDescription("Mint a development JWT"))

const revoke = Command.make(
  "revoke",
  {
    jti: Flag.String("jti").pipe(Flag.withDescription("Revoke the token with this id"), Flag.optional),
    jwt: Flag.Redacted("jwt").pipe(Flag.withDescription("Revoke this token"), Flag.optional),
    sub: Flag.String("sub").pipe(Flag.withDescription("Revoke all tokens of this user"), Flag.optional),
    issuedBefore: Flag.String("issued-before").pipe(
      Flag.withDescription("With --sub: revoke only tokens issued before this ISO 8601 timestamp (default: now)"),
      Flag.optional
    ),
    internalToken: InternalToken.flag
  },
  Effect.fnUntraced(function*({ internalToken, issuedBefore, jti, jwt, sub }) {
    const { url } = yield* root
    const credential = yield* InternalToken.find(internalToken)
    const body = {
      jti: Option.getOrUndefined(jti),
      token: Option.getOrUndefined(Option.map(jwt, Redacted.value)),
      sub: Option.getOrUndefined(sub),
      issued_before: Option.getOrUndefined(issuedBefore)
    }
    const http = yield* HttpClient.HttpClient
    const response = yield* HttpClientRequest.post(`${url}/internal/tokens/revoke`).pipe(
      HttpClientRequest.bearerToken(credential),
      HttpClientRequest.bodyJsonUnsafe(body),
      http.execute,
      Effect.mapError(() => failed(`The service at ${url} could not be reached`))
    )
    if (response.status !== 204) {
      const message = yield* response.json.pipe(
        Effect.map((answer) => Predicate.hasProperty(answer, "message") ? String(answer.message) : undefined),
        Effect.orElseSucceed(() => undefined)
      )
      return yield* failed(message ?? `The service answered ${response.status}`)
    }
    return yield* print({ revoked: true }, () => "Revoked.")
  }, Effect.provide(FetchHttpClient.layer))
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
).pipe(
  Command.withDescription("Check settings, database, core, backend, service and clocks")
)

export const commands = [serve, migrate, token, revoke, doctor] as const
