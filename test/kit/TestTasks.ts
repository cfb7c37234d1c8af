/** The use cases and actors over the store in memory and a core that does what the test says, all under TestClock. */
import { NodeCrypto } from "@effect/platform-node"
import { Duration, Effect, identity, Layer, Queue, Redacted } from "effect"
import { SecureRandom } from "effect/crypto"
import type { CoreRefused, CoreUnavailable } from "../../src/domain/HandOver.ts"
import * as Limits from "../../src/domain/Limits.ts"
import type { Caller } from "../../src/domain/Principal.ts"
import type { RunId } from "../../src/domain/Task.ts"
import type { CreateTaskBody } from "../../src/domain/TaskRequest.ts"
import { now, type Timestamp } from "../../src/domain/Timestamp.ts"
import { CoreClient, type Run } from "../../src/services/CoreClient.ts"
import * as RevocationRepositoryMemory from "../../src/services/RevocationRepositoryMemory.ts"
import { Secrets } from "../../src/services/Secrets.ts"
import { Settings } from "../../src/services/Settings.ts"
import * as TaskEngine from "../../src/services/TaskEngine.ts"
import { TaskNotifications } from "../../src/services/TaskNotifications.ts"
import { TaskRepository } from "../../src/services/TaskRepository.ts"
import * as TaskRepositoryMemory from "../../src/services/TaskRepositoryMemory.ts"
import { type NoAnswer, WebhookSender } from "../../src/services/WebhookSender.ts"

/** A POST that a webhook target has received. */
export interface Post {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
  readonly at: Timestamp
}

export interface CoreScript {
  readonly onStart: (run: Run, attempt: number) => Effect.Effect<void, CoreUnavailable | CoreRefused>
  readonly onStop?: (runId: RunId) => Effect.Effect<void, CoreUnavailable | CoreRefused>
  /** A webhook target: the status that it answers with. */
  readonly onPost?: (post: Post) => Effect.Effect<number, NoAnswer>
  /** Puts faults before the store. */
  readonly withStore?: (store: TaskRepository["Service"]) => TaskRepository["Service"]
}

/** Without the thread pool, whose answers TestClock does not wait for. */
const layerSecrets = Layer.succeed(Secrets, {
  seal: (text) => Effect.sync(() => `sealed:${Redacted.value(text)}`),
  open: (sealed) => Effect.sync(() => Redacted.make(sealed.replace(/^sealed:/, "")))
})

export const callerOf = (sub: string): Caller => ({
  principal: { sub, tokenId: `jti:${sub}`, issuedAt: 1_700_000_000 },
  token: Redacted.make(`token of ${sub}`),
  expiresAt: 1_800_000_000
})

export const question: CreateTaskBody = { assistant_id: 1, input: [{ type: "text", text: "Why?" }] }

export const makeTestTasks = Effect.fnUntraced(function*(script: CoreScript) {
  const starts = yield* Queue.unbounded<Run>()
  const stops = yield* Queue.unbounded<{ readonly runId: RunId; readonly reason: string }>()
  const posts = yield* Queue.unbounded<Post>()
  const attempts = new Map<RunId, number>()
  const layerCore = Layer.succeed(CoreClient, {
    start: (run) =>
      Effect.suspend(() => {
        const attempt = (attempts.get(run.runId) ?? 0) + 1
        attempts.set(run.runId, attempt)
        return Effect.andThen(Queue.offer(starts, run), script.onStart(run, attempt))
      }),
    stop: (runId, reason) =>
      Effect.andThen(Queue.offer(stops, { runId, reason }), script.onStop?.(runId) ?? Effect.void)
  })
  const layerSender = Layer.succeed(WebhookSender, {
    post: Effect.fnUntraced(function*(url, headers, body) {
      const post: Post = { url, headers, body: new TextDecoder().decode(body), at: yield* now }
      yield* Queue.offer(posts, post)
      return yield* script.onPost?.(post) ?? Effect.succeed(204)
    })
  })
  const layerSettings = Layer.succeed(Settings, {
    maxActiveTasks: Limits.maxActiveTasks,
    acceptanceTimeout: Limits.acceptanceTimeout,
    retention: Limits.retention,
    webhookTimeout: Limits.webhookTimeout,
    sweepInterval: Duration.minutes(1)
  })
  const layerStore = Layer.effect(TaskRepository, Effect.map(TaskRepository, script.withStore ?? identity)).pipe(
    Layer.provideMerge(TaskRepositoryMemory.layer),
    Layer.provideMerge(TaskNotifications.layer)
  )
  const layer = TaskEngine.layer.pipe(
    Layer.provideMerge(layerStore),
    Layer.provideMerge(RevocationRepositoryMemory.layer),
    Layer.provide([layerCore, layerSender, layerSettings, layerSecrets, NodeCrypto.layerMac]),
    Layer.provide(SecureRandom.layerWebCrypto)
  )
  return { layer, posts, starts, stops }
})
