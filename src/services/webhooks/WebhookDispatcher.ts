/**
 * Sends pending webhooks from a bounded set of fibers, one per attempt. Claiming a delivery counts the attempt before
 * it is sent. The claim is a lease: if the node dies, another node claims the delivery when the lease expires.
 * `OriginLimiter` limits the attempts in flight per origin, so that a slow origin does not delay the others.
 */
import { Context, Duration, Effect, FiberSet, Layer, Queue } from "effect"
import { monotonicMillis, now, plus, type Timestamp } from "../../domain/Timestamp.ts"
import { type AttemptError, delays, deliveryId, errorOfStatus, nextDelay } from "../../domain/Webhook.ts"
import { WebhooksPending } from "../store/WebhooksPending.ts"
import { type AttemptOutcome, type ClaimedDelivery, type ClaimRequest, WebhookStore } from "../store/WebhookStore.ts"
import * as Metrics from "../telemetry/Metrics.ts"
import * as TaskTraces from "../telemetry/TaskTraces.ts"
import { logFault, retryForever } from "../timing/Retry.ts"
import { Settings } from "../timing/Settings.ts"
import * as TimerQueue from "../timing/TimerQueue.ts"
import { Secrets } from "../tokens/Secrets.ts"
import { OriginLimiter } from "./OriginLimiter.ts"
import { WebhookSender } from "./WebhookSender.ts"
import { WebhookSignatures } from "./WebhookSignatures.ts"

/** Attempts in flight on this node. A target that hangs holds a permit for the whole timeout. */
const bounds = { total: 1024, reserved: 256, smallest: 8, largest: 64 }
const claimBatch = 128
const outcomeBatch = 256

/** Added to the timeout for the node's own work, before an attempt counts as lost. */
const grace = Duration.seconds(5)
const drainTimeout = Duration.seconds(5)

const encoder = new TextEncoder()

/**
 * Whether an origin took all the permits that it was offered. Its further deliveries may have filled the rows that the
 * claim examined, and so hidden those of other origins.
 */
const hasUsedUp = (
  claimed: ReadonlyArray<ClaimedDelivery>,
  { permits, permitsOfOthers }: Pick<ClaimRequest, "permits" | "permitsOfOthers">
) => {
  const taken = new Map<string, number>()
  for (const { origin } of claimed) taken.set(origin, (taken.get(origin) ?? 0) + 1)
  return [...taken].some(([origin, count]) => count >= (permits.get(origin) ?? permitsOfOthers))
}

export class WebhookDispatcher extends Context.Service<WebhookDispatcher, {
  /** Begins no more attempts, and waits at most 5 s for those in flight. */
  readonly drain: Effect.Effect<void>
}>()("async-task-service/services/webhooks/WebhookDispatcher") {
  static readonly layer = Layer.effect(
    WebhookDispatcher,
    Effect.gen(function*() {
      const store = yield* WebhookStore
      const sender = yield* WebhookSender
      const signatures = yield* WebhookSignatures
      const secrets = yield* Secrets
      const webhookPending = yield* WebhooksPending
      const { sweepInterval, webhookTimeout } = yield* Settings
      const leases = [...(yield* delays), Duration.zero].map((delay) =>
        Duration.sum(Duration.sum(webhookTimeout, grace), delay)
      )
      const windows = new OriginLimiter(bounds)
      let isDraining = false

      const outcomes = yield* Queue.unbounded<AttemptOutcome>()
      let unrecorded = 0
      yield* Effect.addFinalizer(() =>
        Effect.flatMap(Queue.clear(outcomes), (left) => left.length === 0 ? Effect.void : store.recordOutcomes(left))
          .pipe(Effect.catchCause(logFault("the outcomes of webhook attempts could not be recorded")))
      )
      const alarms = yield* TimerQueue.make<string>(() => Effect.asVoid(webhookPending.open))

      const recordSome = Effect.gen(function*() {
        const batch = yield* Queue.takeBetween(outcomes, 1, outcomeBatch)
        yield* retryForever(Effect.uninterruptible(store.recordOutcomes(batch)))
        unrecorded -= batch.length
        for (const outcome of batch) {
          if (outcome.nextAttemptAt !== null) alarms.set(deliveryId(outcome), outcome.nextAttemptAt)
        }
      })

      /** Wakes the claim loop when deliveries may be waiting for the permit that is returned here. */
      const release = (origin: string, hasResponded: boolean) => {
        if (windows.permits === 0 || windows.permitsOf(origin) === 0 || windows.permitsOfOthers === 0) {
          webhookPending.openUnsafe()
        }
        windows.release(origin, hasResponded)
      }

      const post = Effect.fnUntraced(function*(delivery: ClaimedDelivery, startedAt: Timestamp) {
        const text = delivery.body ?? (yield* Effect.flatMap(store.body(delivery), Effect.fromOption))
        const body = encoder.encode(text)
        const secret = delivery.secret === null ? undefined : yield* secrets.open(delivery.secret)
        const headers = yield* signatures.headersOf(delivery, startedAt, body, secret)
        return yield* sender.post(delivery.url, headers, body)
      })

      const attempt = Effect.fnUntraced(function*(delivery: ClaimedDelivery) {
        const startedAt = yield* now
        const begun = yield* monotonicMillis
        Metrics.webhookLateness.record(Math.max(0, startedAt - delivery.dueAt) / 1_000_000)
        if (delivery.isAfterLost) Metrics.webhooksAbandoned.add(1)
        const failed = (error: AttemptError) => ({ responseStatus: null, error })
        const outcome = yield* post(delivery, startedAt).pipe(
          Effect.map((status) => ({ responseStatus: status, error: errorOfStatus(status) })),
          Effect.catchTag("NoAnswer", ({ error }) => Effect.succeed(failed(error))),
          Effect.catchTag("NoSuchElementError", () => Effect.succeed(failed("not_sent"))),
          Effect.catchDefect((defect) =>
            Effect.as(Effect.logError("webhook attempt failed by a defect", defect), failed("not_sent"))
          ),
          Effect.timeoutOrElse({ duration: webhookTimeout, orElse: () => Effect.succeed(failed("timed_out")) })
        )
        release(delivery.origin, outcome.responseStatus !== null)
        const endedAt = yield* now
        const duration = (yield* monotonicMillis) - begun
        Metrics.webhookAttempts.record(duration / 1000, outcome.error ?? "delivered")
        const delay = outcome.error === null || delivery.isLast ? undefined : yield* nextDelay(delivery.attempt)
        const { attempt, revision, taskId } = delivery
        unrecorded += 1
        yield* Queue.offer(outcomes, {
          taskId,
          revision,
          attempt,
          endedAt,
          duration: Math.round(duration),
          ...outcome,
          nextAttemptAt: delay === undefined ? null : plus(endedAt, delay)
        })
        const level = outcome.error === null ? "Debug" : delivery.isLast ? "Warn" : "Info"
        yield* Effect.logWithLevel(level)(`webhook attempt ${attempt}: ${outcome.error ?? "delivered"}`).pipe(
          Effect.annotateLogs({ taskId, origin: delivery.origin })
        )
      })

      const fibers = yield* FiberSet.make()
      const start = (delivery: ClaimedDelivery) => {
        windows.acquire(delivery.origin)
        const attributes = { "webhook.attempt": delivery.attempt, "webhook.origin": delivery.origin }
        const inTrace = TaskTraces.traced(TaskTraces.names.webhook, delivery.taskId, { kind: "client", attributes })
        return FiberSet.run(fibers, inTrace(attempt(delivery)))
      }

      const claimSome = Effect.gen(function*() {
        const limit = Math.min(claimBatch, windows.permits)
        if (limit <= 0 || isDraining) return false
        const offered = windows.claimable
        const claimed = yield* store.claim({ at: yield* now, limit, leases, ...offered })
        yield* Effect.forEach(claimed, start, { discard: true })
        return claimed.length === limit || hasUsedUp(claimed, offered)
      })

      const pass = Effect.gen(function*() {
        yield* webhookPending.close
        yield* Effect.repeat(Effect.uninterruptible(claimSome), { while: (mayHaveMore) => mayHaveMore }).pipe(
          Effect.catchCause(logFault("webhooks could not be claimed"))
        )
        yield* Effect.timeoutOption(webhookPending.await, sweepInterval)
      })

      yield* Effect.forkScoped(Effect.forever(recordSome))
      yield* Effect.forkScoped(Effect.forever(pass))

      return WebhookDispatcher.of({
        drain: Effect.gen(function*() {
          isDraining = true
          yield* FiberSet.awaitEmpty(fibers)
          yield* Effect.repeat(Effect.yieldNow, { while: () => unrecorded > 0 })
        }).pipe(Effect.timeoutOption(drainTimeout), Effect.asVoid)
      })
    })
  )
}
