/**
 * The whole service in memory and in process, without a port, under the clock of whoever builds it: every limit, back-off
 * and retention of days passes when a test says so.
 */
import { NodeCrypto } from "@effect/platform-node"
import { Clock, Context, Duration, Effect, Layer, Redacted, type Scope } from "effect"
import { SecureRandom } from "effect/crypto"
import { FetchHttpClient, HttpEffect, HttpRouter, HttpServer, type HttpServerRequest } from "effect/http"
import * as jose from "jose"
import { createSecretKey } from "node:crypto"
import * as Limits from "../../domain/Limits.ts"
import { TaskService } from "../../http/client/TaskService.ts"
import * as Authorization from "../../http/handlers/Authorization.ts"
import * as RpcAuthorization from "../../http/handlers/RpcAuthorization.ts"
import * as Server from "../../http/Server.ts"
import { Intervals } from "../../services/Intervals.ts"
import { Members } from "../../services/Members.ts"
import { Readiness } from "../../services/Readiness.ts"
import * as RecoveryTrialsMemory from "../../services/RecoveryTrialsMemory.ts"
import * as RevocationRepositoryMemory from "../../services/RevocationRepositoryMemory.ts"
import { Secrets } from "../../services/Secrets.ts"
import { Settings } from "../../services/Settings.ts"
import * as TaskEngine from "../../services/TaskEngine.ts"
import { TaskNotifications } from "../../services/TaskNotifications.ts"
import { TaskOwnership } from "../../services/TaskOwnership.ts"
import * as TaskRepositoryMemory from "../../services/TaskRepositoryMemory.ts"
import { TokenVerifier } from "../../services/TokenVerifier.ts"
import * as TestBackend from "./TestBackend.ts"
import { TestCore } from "./TestCore.ts"
import { TestWebhooks } from "./TestWebhooks.ts"

/** Stands for the service's address: `fetch` answers for it, and nothing listens there. */
const nowhere = "http://service.test"

export const internalToken = "the-internal-token"
const jwtSecret = "what signs the tokens of the test kit"

export interface TestServiceOptions {
  /** 5 by default (SPEC "Limits"). */
  readonly maxActiveTasks?: number
  /** 30 seconds by default. */
  readonly acceptanceTimeout?: Duration.Input
  /** 30 days by default. */
  readonly retention?: Duration.Input
  /** Where something listens that hands requests to `fetch`, if there is. */
  readonly listensAt?: string
}

const layerSettings = ({ acceptanceTimeout, maxActiveTasks, retention }: TestServiceOptions) =>
  Layer.succeed(Settings, {
    maxActiveTasks: maxActiveTasks ?? Limits.maxActiveTasks,
    acceptanceTimeout: Duration.fromInputUnsafe(acceptanceTimeout ?? Limits.acceptanceTimeout),
    retention: Duration.fromInputUnsafe(retention ?? Limits.retention),
    webhookTimeout: Limits.webhookTimeout,
    sweepInterval: Duration.hours(1)
  })

/** There is no other node whose doings could be missed, and nothing that an hour would fill. */
const layerAlone = Layer.succeed(Intervals, {
  watchRepair: Duration.hours(1),
  revocationSync: Duration.hours(1),
  revocationPrune: Duration.hours(1),
  retention: Duration.hours(1)
})

/** Nothing of this is ever at rest. */
const layerSecrets = Layer.succeed(Secrets, {
  seal: (text) => Effect.succeed(Redacted.value(text)),
  open: (sealed) => Effect.succeed(Redacted.make(sealed))
})

const layerTokens = TokenVerifier.layer({
  key: createSecretKey(jwtSecret, "utf8"),
  algorithms: ["HS256"],
  issuer: undefined,
  audience: undefined
}).pipe(Layer.provide(FetchHttpClient.layer))

/** Everything behind the routes. */
const layerEngine = (options: TestServiceOptions) =>
  TestCore.layer.pipe(
    Layer.provideMerge(TaskEngine.layer),
    Layer.provide(TestCore.layerClient),
    Layer.provide(TestCore.layerJournal),
    Layer.provideMerge([TaskRepositoryMemory.layer, RecoveryTrialsMemory.layer]),
    Layer.provideMerge([RevocationRepositoryMemory.layer, TaskNotifications.layer, TaskOwnership.layerAlone]),
    Layer.provide([layerSecrets, layerSettings(options), layerAlone, NodeCrypto.layerMac, TestWebhooks.layerSender]),
    Layer.provideMerge(TestWebhooks.layer),
    Layer.provideMerge(SecureRandom.layerWebCrypto)
  )

const layerRoutes = Server.layer([]).pipe(
  Layer.provide([Authorization.layerUsers, RpcAuthorization.layer([Redacted.make(internalToken)])]),
  Layer.provide(Authorization.layerInternal([Redacted.make(internalToken)])),
  Layer.provide([layerTokens, Layer.succeed(Readiness, { checks: Effect.succeed([]) })]),
  Layer.provide(Members.layerAlone({ address: nowhere, version: "test" })),
  Layer.provideMerge(HttpServer.layerServices)
)

/** A JWT of a user, valid for ten years from the clock's present. */
const token = (sub: string, claims: Readonly<Record<string, unknown>> = {}) =>
  Effect.flatMap(Clock.currentTimeMillis, (now) => {
    const seconds = Math.floor(now / 1000)
    return Effect.promise(() =>
      new jose.SignJWT({ iat: seconds, exp: seconds + 10 * 365 * 86_400, ...claims, sub })
        .setProtectedHeader({ alg: "HS256", typ: "JWT" })
        .sign(new TextEncoder().encode(jwtSecret))
    )
  })

const make = Effect.fnUntraced(function*({ listensAt: url = nowhere }: TestServiceOptions) {
  const core = yield* TestCore
  const webhooks = yield* TestWebhooks
  const backend = TestBackend.make(url)
  const app = yield* HttpRouter.toHttpEffect(Layer.provide(layerRoutes, backend.layer)).pipe(
    Effect.provideService(HttpRouter.RouterConfig, Server.routerConfig)
  )
  const handler = HttpEffect.toWebHandlerWith<never, HttpServerRequest.HttpServerRequest | Scope.Scope>(
    yield* Effect.context()
  )(app)
  const fetch = (input: string | URL | Request, init?: RequestInit): Promise<Response> => {
    const request = new Request(input, init)
    const downloaded = backend.download(new URL(request.url))
    return downloaded === undefined ? handler(request) : Promise.resolve(downloaded)
  }
  return { url, core, webhooks, fetch, token, internalToken }
})

export class TestService extends Context.Service<TestService, Effect.Success<ReturnType<typeof make>>>()(
  "async-task-service/runtime/testing/TestService"
) {
  static readonly layer = (options: TestServiceOptions = {}) =>
    Layer.effect(TestService, make(options)).pipe(Layer.provide(layerEngine(options)))

  /** The Effect client of a user. */
  static readonly layerClient = (sub: string) =>
    Layer.unwrap(
      Effect.map(TestService, ({ fetch, token, url }) =>
        TaskService.layer({ baseUrl: url, token: Effect.map(token(sub), Redacted.make) }).pipe(
          Layer.provide(Layer.fresh(FetchHttpClient.layer)),
          Layer.provide(Layer.succeed(FetchHttpClient.Fetch, fetch as typeof globalThis.fetch))
        ))
    )
}
