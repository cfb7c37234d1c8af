/** The use cases and actors over the store in memory and a core that does what the test says, all under TestClock. */
import { Duration, Effect, identity, Layer, Queue, Redacted } from "effect"
import { SecureRandom } from "effect/crypto"
import type { CoreRefused, CoreUnavailable } from "../../src/domain/HandOver.ts"
import * as Limits from "../../src/domain/Limits.ts"
import type { Caller } from "../../src/domain/Principal.ts"
import type { RunId } from "../../src/domain/Task.ts"
import type { CreateTaskBody } from "../../src/domain/TaskRequest.ts"
import { CoreClient, type Run } from "../../src/services/CoreClient.ts"
import * as RevocationRepositoryMemory from "../../src/services/RevocationRepositoryMemory.ts"
import { Secrets } from "../../src/services/Secrets.ts"
import { Settings } from "../../src/services/Settings.ts"
import * as TaskEngine from "../../src/services/TaskEngine.ts"
import { TaskNotifications } from "../../src/services/TaskNotifications.ts"
import { TaskRepository } from "../../src/services/TaskRepository.ts"
import * as TaskRepositoryMemory from "../../src/services/TaskRepositoryMemory.ts"

export interface CoreScript {
  readonly onStart: (run: Run, attempt: number) => Effect.Effect<void, CoreUnavailable | CoreRefused>
  readonly onStop?: (runId: RunId) => Effect.Effect<void, CoreUnavailable | CoreRefused>
  /** Puts faults before the store. */
  readonly withStore?: (store: TaskRepository["Service"]) => TaskRepository["Service"]
}

export const callerOf = (sub: string): Caller => ({
  principal: { sub, tokenId: `jti:${sub}`, issuedAt: 1_700_000_000 },
  token: Redacted.make(`token of ${sub}`),
  expiresAt: 1_800_000_000
})

export const question: CreateTaskBody = { assistant_id: 1, input: [{ type: "text", text: "Why?" }] }

export const makeTestTasks = Effect.fnUntraced(function*(script: CoreScript) {
  const starts = yield* Queue.unbounded<Run>()
  const stops = yield* Queue.unbounded<{ readonly runId: RunId; readonly reason: string }>()
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
  const layerSettings = Layer.succeed(Settings, {
    maxActiveTasks: Limits.maxActiveTasks,
    acceptanceTimeout: Limits.acceptanceTimeout,
    retention: Limits.retention,
    sweepInterval: Duration.minutes(1)
  })
  const layerStore = Layer.effect(TaskRepository, Effect.map(TaskRepository, script.withStore ?? identity)).pipe(
    Layer.provide(TaskRepositoryMemory.layer),
    Layer.provideMerge(TaskNotifications.layer)
  )
  const layer = TaskEngine.layer.pipe(
    Layer.provideMerge(layerStore),
    Layer.provideMerge(RevocationRepositoryMemory.layer),
    Layer.provide([layerCore, layerSettings]),
    Layer.provide(Secrets.layer([Redacted.make(new Uint8Array(32))])),
    Layer.provide(SecureRandom.layerWebCrypto)
  )
  return { layer, starts, stops }
})
