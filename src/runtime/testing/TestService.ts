/**
 * The whole service in one process, with stores in memory and without a port. It runs on the caller's `Clock`, so with
 * TestClock a test decides when time limits, retry delays and retention elapse.
 */
import { Clock, Context, Duration, Effect, Layer, Redacted, type Scope } from "effect"
import { SecureRandom } from "effect/crypto"
import { FetchHttpClient, HttpEffect, HttpRouter, HttpServer, type HttpServerRequest } from "effect/http"
import * as jose from "jose"
import { createSecretKey } from "node:crypto"
import { TaskService } from "../../http/client/EffectTaskClient.ts"
import { Extensions } from "../../http/ExtensionRoutes.ts"
import * as Authorization from "../../http/handlers/Authorization.ts"
import * as RpcAuthorization from "../../http/handlers/rpc/RpcAuthorization.ts"
import * as Server from "../../http/Server.ts"
import { TaskOwnership } from "../../services/cluster/TaskOwnership.ts"
import { TaskLinks, TurnReport } from "../../services/Extensions.ts"
import { Readiness } from "../../services/operations/Readiness.ts"
import { Settings } from "../../services/settings/Settings.ts"
import { Changes } from "../../services/signals/Changes.ts"
import { MemoryTables } from "../../services/store/MemoryTables.ts"
import * as RevocationRepositoryMemory from "../../services/store/revocations/RevocationRepositoryMemory.ts"
import * as TaskStoreMemory from "../../services/store/tasks/TaskStoreMemory.ts"
import * as TaskEngine from "../../services/TaskEngine.ts"
import { Intervals } from "../../services/timing/Intervals.ts"
import { Secrets } from "../../services/tokens/Secrets.ts"
import { TokenVerifier } from "../../services/tokens/TokenVerifier.ts"
import { modules } from "../extensions.ts"
import * as NodeCrypto from "../node/NodeCrypto.ts"
import * as TestBackend from "./TestBackend.ts"
import { TestCore } from "./TestCore.ts"
import { TestWebhooks } from "./TestWebhooks.ts"
import { webhooksSent } from "./webhooksSent.ts"

/** The base URL by default. Nothing listens there: use the service's `fetch`. */
const unusedUrl = "http://service.test"

export const internalToken = "the-internal-token"
const jwtSecret = "this secret signs the tokens of the test kit"

export interface TestServiceOptions {
  /** Maximum number of active tasks of a user. Default: 5. */
  readonly maxActiveTasks?: number
  /** Default: 30 seconds. */
  readonly acceptanceTimeout?: Duration.Input
  /** The most runs that the core is given at a time. Default: no limit. */
  readonly coreRuns?: number
  /** The same for the runs of one assistant. Default: no limit. */
  readonly coreRunsPerAssistant?: number
  /** How long ended tasks are kept. Default: 30 days. */
  readonly retention?: Duration.Input
  /** Base URL of a server that passes its requests to `fetch`, if there is one. */
  readonly listensAt?: string
}

const layerSettings = (
  { acceptanceTimeout, coreRuns, coreRunsPerAssistant, maxActiveTasks, retention }: TestServiceOptions
) =>
  Settings.layer({
    coreRuns,
    coreRunsPerAssistant,
    maxActiveTasks: maxActiveTasks ?? Settings.defaults.maxActiveTasks,
    acceptanceTimeout: Duration.fromInputUnsafe(acceptanceTimeout ?? Settings.defaults.acceptanceTimeout),
    retention: Duration.fromInputUnsafe(retention ?? Settings.defaults.retention),
    sweepInterval: Duration.days(1)
  })

/** Long intervals, as of the sweep: there are no other nodes to poll for, and a test has little to clean up. */
const layerIntervals = Layer.succeed(Intervals, {
  watchRepair: Duration.days(1),
  revocationSync: Duration.days(1),
  revocationPrune: Duration.days(1),
  retention: Duration.hours(1)
})

/** No encryption: nothing is stored outside of memory. */
const layerSecrets = Layer.succeed(Secrets, {
  seal: (_, text) => Effect.succeed(Redacted.value(text)),
  open: (_, sealed) => Effect.succeed(Redacted.make(sealed))
})

const layerTokens = TokenVerifier.layer({
  keys: [{ key: createSecretKey(jwtSecret, "utf8"), algorithms: ["HS256"] }],
  algorithms: ["HS256"],
  issuer: undefined,
  audience: undefined
}).pipe(Layer.provide(FetchHttpClient.layer))

const loadExtensions = Effect.promise(() =>
  Promise.all(modules.flatMap(({ testing }) => testing === undefined ? [] : [testing()]))
)

const layerTurnReport = Layer.effect(
  TurnReport,
  Effect.map(
    loadExtensions,
    (loaded) => loaded.find(({ extension }) => extension.turnReport !== undefined)?.extension.turnReport
  )
)

/** The services behind the routes. */
const layerEngine = (options: TestServiceOptions) =>
  TestCore.layer.pipe(
    Layer.provideMerge(Layer.orDie(TaskEngine.layer)),
    Layer.provide(TestCore.layerClient),
    Layer.provide(TestCore.layerJournal),
    Layer.provideMerge(TaskStoreMemory.layer),
    Layer.provideMerge([RevocationRepositoryMemory.layer, Changes.layer, TaskOwnership.layerAlone]),
    Layer.provideMerge([NodeCrypto.layerHmac, TestWebhooks.layerSender]),
    Layer.provide([layerTurnReport, layerSecrets, layerSettings(options), layerIntervals]),
    Layer.provideMerge(TestWebhooks.layer),
    Layer.provideMerge(SecureRandom.layerWebCrypto)
  )

const serviceTokens = {
  internalTokens: [Redacted.make(internalToken)],
  internalTokenNames: ["token-1"],
  coreEventTokens: [Redacted.make(internalToken)],
  readTokens: []
}

const layerRoutes = (options: TestServiceOptions) =>
  Layer.unwrap(Effect.map(loadExtensions, (loaded) => {
    const extensions = loaded.map(({ extension }) => extension)
    return Server.layer([], Layer.mergeAll(Layer.empty, ...extensions.map(({ layer }) => layer))).pipe(
      Layer.provide([layerSecrets, layerSettings(options), layerIntervals]),
      Layer.provide([
        layerTurnReport,
        Layer.effect(TaskLinks, Effect.all(extensions.flatMap(({ taskLink = [] }) => taskLink))),
        Layer.succeed(Extensions, extensions.map(({ routes }) => routes))
      ])
    )
  })).pipe(
    Layer.provide([Authorization.layerUsers, RpcAuthorization.layer(serviceTokens)]),
    Layer.provide(Authorization.layerInternal(serviceTokens)),
    Layer.provide([layerTokens, Layer.succeed(Readiness, { checks: Effect.succeed([]) })]),
    Layer.provideMerge(HttpServer.layerServices)
  )

/** Mints a JWT of a user, valid for ten years from the clock's current time. */
const token = (sub: string, claims: Readonly<Record<string, unknown>> = {}) =>
  Effect.flatMap(Clock.currentTimeMillis, (now) => {
    const seconds = Math.floor(now / 1000)
    return Effect.promise(() =>
      new jose.SignJWT({ iat: seconds, exp: seconds + 10 * 365 * 86_400, ...claims, sub })
        .setProtectedHeader({ alg: "HS256", typ: "JWT" })
        .sign(new TextEncoder().encode(jwtSecret))
    )
  })

/**
 * Reads the body and announces its length, as a socket's `fetch` does. Without a length, calls of RPC reserve the memory of the
 * largest one; and Node's `FormData` body rejects unhandled when a response comes before its end.
 */
const withLength = (request: Request) => {
  if (request.body === null || request.headers.has("content-length")) return Promise.resolve(request)
  return request.arrayBuffer().then((body) => {
    const headers = new Headers(request.headers)
    headers.set("content-length", String(body.byteLength))
    return new Request(request, { method: request.method, body, headers })
  })
}

const make = Effect.fnUntraced(function*(options: TestServiceOptions) {
  const { listensAt: url = unusedUrl } = options
  const core = yield* TestCore
  const webhooks = yield* TestWebhooks
  const changes = yield* Changes
  const backend = TestBackend.make(url)
  // Ends long polls and event streams: the clock for which they wait stops.
  yield* Effect.addFinalizer(() => changes.drain)
  const app = yield* HttpRouter.toHttpEffect(Layer.provide(layerRoutes(options), backend.layer)).pipe(
    Effect.provideService(HttpRouter.RouterConfig, Server.routerConfig)
  )
  const handler = HttpEffect.toWebHandlerWith<never, HttpServerRequest.HttpServerRequest | Scope.Scope>(
    yield* Effect.context()
  )(app)
  const settled = Effect.provideService(webhooksSent, MemoryTables, yield* MemoryTables)
  const settle = Effect.runPromiseWith(yield* Effect.context())
  /** A `POST` resolves after the first attempts of its webhooks, as the events of the core do. */
  const fetch: typeof globalThis.fetch = (input, init) => {
    const request = new Request(input, init)
    const downloaded = backend.download(new URL(request.url))
    if (downloaded !== undefined) return Promise.resolve(downloaded)
    const response = withLength(request).then(handler)
    return request.method === "POST" ? response.then((found) => settle(Effect.as(settled, found))) : response
  }
  return { url, core, webhooks, fetch, token, internalToken, settled }
})

export class TestService extends Context.Service<TestService, Effect.Success<ReturnType<typeof make>>>()(
  "async-task-service/runtime/testing/TestService"
) {
  static readonly layer = (options: TestServiceOptions = {}) =>
    Layer.effect(TestService, make(options)).pipe(Layer.provide(layerEngine(options)))

  /** The Effect client for a user. */
  static readonly layerClient = (sub: string) =>
    Layer.unwrap(
      Effect.map(TestService, ({ fetch, token, url }) =>
        TaskService.layer({ baseUrl: url, token: Effect.map(token(sub), Redacted.make) }).pipe(
          Layer.provide(Layer.fresh(FetchHttpClient.layer)),
          Layer.provide(Layer.succeed(FetchHttpClient.Fetch, fetch))
        ))
    )
}
