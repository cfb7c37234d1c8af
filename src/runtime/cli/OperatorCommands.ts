/** Commands of operators: serve, migrate, token, revoke, doctor. */
import { Config, Console, Duration, Effect, Exit, Layer, Option, Redacted, Schema } from "effect"
import { Command, Flag } from "effect/cli"
import { FetchHttpClient, HttpClient, HttpClientRequest } from "effect/http"
import * as Banner from "../Banner.ts"
import { innermost } from "../Endings.ts"
import * as InternalToken from "./InternalToken.ts"
import { failed, keptSecret, print, root } from "./Root.ts"

/** What only one command needs is loaded by it, so that the others start quickly. */
const load = <A>(module: () => Promise<A>) => Effect.promise(module)

const serveAlone = Effect.fnUntraced(
  function*(part: "core" | "backend", environment: NodeJS.ProcessEnv) {
    const AppConfig = yield* load(() => import("../AppConfig.ts"))
    const Builtin = yield* load(() => import("../builtin/Builtin.ts"))
    const Watchdog = yield* load(() => import("../Watchdog.ts"))
    const config = yield* AppConfig.load(environment, part)
    yield* Console.log(`The built-in ${part}: http://${config.host}:${config.port}`)
    const layerWatchdog = Watchdog.layer(config.watchdogTimeout, config.isProduction)
    return yield* Layer.launch(Layer.merge(Builtin.layerAlone(part, config), layerWatchdog))
  },
  Effect.mapError((error) => failed(innermost(error)))
)

const serve = Command.make(
  "serve",
  {
    only: Flag.Literals("only", ["core", "backend"]).pipe(
      Flag.withDescription("The built-in processing core or assistant backend alone, without the service"),
      Flag.optional
    ),
    testClock: Flag.Boolean("test-clock").pipe(
      Flag.withDescription("For tests of clients: in memory, with a clock and a core that are driven over HTTP"),
      Flag.withDefault(false)
    ),
    host: Flag.String("host").pipe(
      Flag.withDescription("Where to listen (HOST)"),
      Flag.withFallbackConfig(Config.String("HOST")),
      Flag.withDefault("127.0.0.1")
    ),
    port: Flag.Int("port").pipe(
      Flag.withDescription("The port (PORT)"),
      Flag.withFallbackConfig(Config.Int("PORT")),
      Flag.withDefault(3000)
    )
  },
  Effect.fnUntraced(function*({ host, only, port, testClock }) {
    const environment = { ...process.env, HOST: host, PORT: String(port) }
    if (Option.isSome(only)) return yield* serveAlone(only.value, environment)
    if (!testClock) return yield* (yield* load(() => import("../Main.ts"))).explained(environment)
    const TimeServer = yield* load(() => import("../testing/TimeServer.ts"))
    return yield* Effect.mapError(
      Layer.launch(TimeServer.layer({ host, port })),
      (error) => failed(`The service cannot listen: ${innermost(error)}`)
    )
  })
).pipe(Command.withDescription("Run the service; its other settings come from the environment"))

const migrate = Command.make(
  "migrate",
  {},
  Effect.fnUntraced(function*() {
    const App = yield* load(() => import("../App.ts"))
    const AppConfig = yield* load(() => import("../AppConfig.ts"))
    const PooledRandom = yield* load(() => import("../PooledRandom.ts"))
    yield* AppConfig.load(process.env).pipe(
      Effect.flatMap((config) =>
        Effect.scoped(Layer.build(Layer.provide(App.layerDatabase(config), PooledRandom.layer)))
      ),
      Effect.mapError((error) => failed(innermost(error)))
    )
    yield* print({ migrated: true }, () => "The schema is current.")
  })
).pipe(Command.withDescription("Bring the database's schema up to date, as a start would"))

const token = Command.make(
  "token",
  {
    sub: Flag.String("sub").pipe(Flag.withDescription("The user; developer without it"), Flag.withDefault("developer")),
    validFor: Flag.String("valid-for").pipe(
      Flag.withDescription("How long it holds; '30 days' without it"),
      Flag.withSchema(Schema.DurationFromString),
      Flag.withDefault(Duration.days(30))
    ),
    jti: Flag.String("jti").pipe(Flag.withDescription("Its id, to revoke it by"), Flag.optional)
  },
  Effect.fnUntraced(function*({ jti, sub, validFor }) {
    const given = process.env["JWT_SECRET"]
    const secret = given ? Option.some(Redacted.make(given)) : yield* keptSecret("jwt-secret")
    if (Option.isNone(secret)) {
      return yield* failed(
        "There is no key to sign with: set JWT_SECRET, or start the service once without a key of its own"
      )
    }
    const minted = yield* Banner.mint(secret.value, { sub, validFor, jti: Option.getOrUndefined(jti) })
    return yield* print({ token: minted, sub }, (answer) => answer.token)
  })
).pipe(Command.withDescription("Mint a development JWT"))

const revoke = Command.make(
  "revoke",
  {
    jti: Flag.String("jti").pipe(Flag.withDescription("The token with this id"), Flag.optional),
    jwt: Flag.Redacted("jwt").pipe(Flag.withDescription("This very token"), Flag.optional),
    sub: Flag.String("sub").pipe(Flag.withDescription("All tokens of this user"), Flag.optional),
    issuedBefore: Flag.String("issued-before").pipe(
      Flag.withDescription("With --sub: only those issued before this ISO 8601 moment; now without it"),
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
      const text = yield* Effect.orElseSucceed(response.text, () => "")
      const words = Exit.getSuccess(Effect.runSyncExit(Effect.try(() => String(JSON.parse(text).message))))
      return yield* failed(Option.getOrElse(words, () => `The service answered ${response.status}`))
    }
    return yield* print({ revoked: true }, () => "Revoked.")
  }, Effect.provide(FetchHttpClient.layer))
).pipe(
  Command.withDescription("Revoke a token, or all tokens of a user"),
  Command.withExamples([{
    command: "async-task-service revoke --sub alice",
    description: "Every token that alice has"
  }])
)

const doctor = Command.make(
  "doctor",
  { internalToken: InternalToken.flag },
  ({ internalToken }) => Effect.flatMap(load(() => import("./Doctor.ts")), ({ examine }) => examine(internalToken))
).pipe(
  Command.withDescription("Check settings, database, core, backend, the running service and the clocks")
)

export const commands = [serve, migrate, token, revoke, doctor] as const
