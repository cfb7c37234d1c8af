/** Use cases and actors with the store in memory and a scripted core, under TestClock. */
import { assert } from "@effect/vitest"
import { Duration, Effect, identity, Layer, Queue, Redacted } from "effect"
import { SecureRandom } from "effect/crypto"
import { type CoreEvent, toReport } from "../../src/domain/CoreProtocol.ts"
import { type CoreRefused, CoreUnavailable } from "../../src/domain/DispatchRetry.ts"
import type { Caller } from "../../src/domain/Principal.ts"
import type { RunId, Task, TaskId } from "../../src/domain/Task.ts"
import { type CreateTask, toCreateTask } from "../../src/domain/TaskRequest.ts"
import { now, type Timestamp } from "../../src/domain/Timestamp.ts"
import { type ToolResult, toToolResults } from "../../src/domain/ToolCall.ts"
import * as NodeCrypto from "../../src/runtime/node/NodeCrypto.ts"
import type { TaskActors } from "../../src/services/actors/TaskActors.ts"
import type { TaskSweeper } from "../../src/services/actors/TaskSweeper.ts"
import { TaskOwnership } from "../../src/services/cluster/TaskOwnership.ts"
import { CoreClient, type Run } from "../../src/services/core/CoreClient.ts"
import { Settings } from "../../src/services/settings/Settings.ts"
import { Changes } from "../../src/services/signals/Changes.ts"
import * as RevocationRepositoryMemory from "../../src/services/store/revocations/RevocationRepositoryMemory.ts"
import { TaskStore } from "../../src/services/store/tasks/TaskStore.ts"
import * as TaskStoreMemory from "../../src/services/store/tasks/TaskStoreMemory.ts"
import { WebhookStore } from "../../src/services/store/webhooks/WebhookStore.ts"
import * as TaskEngine from "../../src/services/TaskEngine.ts"
import { Tasks } from "../../src/services/tasks/Tasks.ts"
import { Secrets } from "../../src/services/tokens/Secrets.ts"
import { type DeliveryError, WebhookSender } from "../../src/services/webhooks/WebhookSender.ts"

/** A POST that a webhook target has received. */
export interface Post {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
  readonly at: Timestamp
}

export interface CoreScript {
  readonly onStart: (run: Run, attempt: number) => Effect.Effect<void, CoreUnavailable | CoreRefused>
  /** The seconds of silence that the core declares. */
  readonly silence?: number | undefined
  /** Long by default, so that no sweep repairs what an actor should do. */
  readonly sweepInterval?: Duration.Duration
  /** Whether the core knows the run that it is told to stop; it does by default. */
  readonly onStop?: (runId: RunId) => Effect.Effect<boolean, CoreUnavailable | CoreRefused>
  /** The status with which the webhook target responds. */
  readonly onPost?: (post: Post) => Effect.Effect<number, DeliveryError>
  /** Wrap the store, to inject faults. */
  readonly withStore?: (store: TaskStore["Service"]) => TaskStore["Service"]
  readonly withWebhooks?: (webhooks: WebhookStore["Service"]) => WebhookStore["Service"]
  readonly layerOwnership?: Layer.Layer<TaskOwnership>
}

/** Without the thread pool, because TestClock does not wait for its results. */
const layerSecrets = Layer.succeed(Secrets, {
  seal: (purpose, text) => Effect.sync(() => `${purpose}:${Redacted.value(text)}`),
  open: (purpose, sealed) =>
    Effect.sync(() => {
      const prefix = `${purpose}:`
      assert.isTrue(sealed.startsWith(prefix), sealed)
      return Redacted.make(sealed.slice(prefix.length))
    })
})

export const callerOf = (sub: string): Caller => ({
  principal: { sub, tokenId: `jti:${sub}`, issuedAt: 1_700_000_000 },
  token: Redacted.make(`token of ${sub}`),
  expiresAt: 1_800_000_000
})

export const question: CreateTask = toCreateTask({ assistant_id: 1, input: [{ type: "text", text: "Why?" }] })

type TaskService = Tasks["Service"]

/** Reports an event as the core would. */
export const reportTo = (tasks: TaskService, event: CoreEvent) => tasks.report(toReport(event))

/** Submits results as the client of the task would. */
export const answerTo = (tasks: TaskService, caller: Caller, task: Task, results: ReadonlyArray<ToolResult>) =>
  tasks.submitToolResults(caller, task, toToolResults(results))

export const makeTestTasks = Effect.fnUntraced(function*(script: CoreScript) {
  const starts = yield* Queue.unbounded<Run>()
  const stops = yield* Queue.unbounded<{ readonly runId: RunId; readonly reason: string }>()
  const posts = yield* Queue.unbounded<Post>()
  const attempts = new Map<RunId, number>()
  const layerCore = Layer.succeed(CoreClient, {
    unreachable: () => Effect.succeed(undefined),
    start: (run) =>
      Effect.suspend(() => {
        const attempt = (attempts.get(run.runId) ?? 0) + 1
        attempts.set(run.runId, attempt)
        return Effect.andThen(Queue.offer(starts, run), Effect.as(script.onStart(run, attempt), script.silence))
      }),
    stop: (runId, reason) =>
      Effect.andThen(Queue.offer(stops, { runId, reason }), script.onStop?.(runId) ?? Effect.succeed(true))
  })
  const layerSender = Layer.succeed(WebhookSender, {
    post: Effect.fnUntraced(function*(url, headers, body) {
      const post: Post = { url, headers, body: new TextDecoder().decode(body), at: yield* now }
      yield* Queue.offer(posts, post)
      return yield* script.onPost?.(post) ?? Effect.succeed(204)
    })
  })
  const layerSettings = Settings.layer({ sweepInterval: script.sweepInterval ?? Duration.minutes(1) })
  const layerStore = Layer.mergeAll(
    Layer.effect(WebhookStore, Effect.map(WebhookStore, script.withWebhooks ?? identity)),
    Layer.effect(TaskStore, Effect.map(TaskStore, script.withStore ?? identity))
  ).pipe(
    Layer.provideMerge(TaskStoreMemory.layer),
    Layer.provideMerge(Changes.layer)
  )
  const layer = TaskEngine.layer.pipe(
    Layer.provideMerge(layerStore),
    Layer.provideMerge([RevocationRepositoryMemory.layer, script.layerOwnership ?? TaskOwnership.layerAlone]),
    Layer.provide([layerCore, layerSender, layerSettings, layerSecrets, NodeCrypto.layerHmac]),
    Layer.provide(SecureRandom.layerWebCrypto)
  )
  return { layer, posts, starts, stops }
})

/** Runs a test against the service with a core and a store that follow `script`. */
export const withCore = <A, E>(
  script: CoreScript,
  body: (
    core: Effect.Success<ReturnType<typeof makeTestTasks>>
  ) => Effect.Effect<A, E, Tasks | TaskActors | Changes | TaskSweeper | TaskStore>
) => Effect.flatMap(makeTestTasks(script), (core) => body(core).pipe(Effect.provide(Layer.fresh(core.layer))))

export const accepts = () => Effect.void

export const unavailable = (retryAfter: Duration.Duration | null = null) =>
  Effect.fail(new CoreUnavailable({ reason: "status 503", retryAfter }))

/** The default user. */
export const caller = callerOf("ann")

/** The status and error of a task of `caller`. */
export const statusOf = Effect.fnUntraced(function*(uuid: TaskId) {
  const tasks = yield* Tasks
  const { error, status } = yield* tasks.get(caller.principal, uuid)
  return error === null ? status : `${status}: ${error}`
})

let eventNumber = 0
/** The common fields of a run's events, with a unique event id. */
export const envelope = (run: Run) => ({ task_id: run.taskId, run_id: run.runId, event_id: `event-${++eventNumber}` })

export const turn = { output: [], messages: [], metadata: {} }
export const toolCall = { id: "c1", name: "look", arguments: {} }

/** A task of `caller` that was dispatched, with its run. */
export const startedTask = Effect.fnUntraced(function*(starts: Queue.Dequeue<Run>) {
  const tasks = yield* Tasks
  const { uuid } = yield* tasks.create(caller, question)
  return { tasks, uuid, run: yield* Queue.take(starts) }
})

/** An interrupted task of `caller`, with its run and the core's report. */
export const interruptedTask = Effect.fnUntraced(function*(starts: Queue.Dequeue<Run>) {
  const { run, tasks, uuid } = yield* startedTask(starts)
  const interrupt = { ...envelope(run), type: "interrupted", tool_calls: [toolCall] } as const
  yield* reportTo(tasks, interrupt)
  return { run, interrupt, tasks, task: yield* tasks.get(caller.principal, uuid) }
})
