/**
 * Sends pending webhooks from a bounded set of fibers, one per attempt. Claiming a delivery counts the attempt before
 * it is sent. The claim is a lease: if the node dies, another node claims the delivery when the lease expires.
 * `OriginLimiter` limits the attempts in flight per origin, so that a slow origin does not delay the others.
 */
import { type Cause, Context, Duration, Effect, FiberSet, Latch, Layer, Queue, Semaphore } from "effect"
import { encode } from "../../domain/OpaqueJson.ts"
import type { StoreUnavailable } from "../../domain/StoreUnavailable.ts"
import { monotonicMillis, now, plus, type Timestamp } from "../../domain/Timestamp.ts"
import { type AttemptError, delays, deliveryId, errorOfStatus, nextDelay } from "../../domain/Webhook.ts"
import { WebhooksPending } from "../store/WebhooksPending.ts"
import { type AttemptOutcome, type ClaimedDelivery, type ClaimRequest, WebhookStore } from "../store/WebhookStore.ts"
import * as Metrics from "../telemetry/Metrics.ts"
import * as TaskTraces from "../telemetry/TaskTraces.ts"
import { logFault, retryForever } from "../timing/Retry.ts"
import { Settings } from "../timing/Settings.ts"
import * as TimerQueue from "../timing/TimerQueue.ts"
import * as Worker from "../timing/Worker.ts"
import { Secrets } from "../tokens/Secrets.ts"
import { LargeDeliveries } from "./LargeDeliveries.ts"
import { OriginLimiter } from "./OriginLimiter.ts"
import { type DeliveryError, WebhookSender } from "./WebhookSender.ts"
import { headersOf, HmacSha256 } from "./WebhookSignatures.ts"

/** Attempts in flight on this node. A target that hangs holds a permit for the whole timeout. */
const bounds = { total: 1024, reserved: 256, smallest: 8, largest: 64 }
const claimBatch = 128
const outcomeBatch = 256

/** Added to the timeout for the node's own work, before an attempt counts as lost. */
const grace = Duration.seconds(5)
/** Timeout of the read of a large body, which is part of the node's own work. */
const readTimeout = Duration.seconds(3)
const drainTimeout = Duration.seconds(5)

/** Minimum delay of a large delivery for which there is no room. */
const largeDelay = Duration.seconds(1)
/** Time between two of them, so that a long backlog is not claimed again every second. */
const largeSpacing = Duration.millis(30)
/** Maximum delay: room may be free sooner than a long backlog suggests. */
const longestLargeDelay = Duration.minutes(1)

/**
 * Whether an origin took all the permits that the limiter left it. A claim examines a limited number of rows, so further
 * deliveries of that origin may have crowded out those of others.
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
  static readonly layer = Layer.effect(WebhookDispatcher, Effect.suspend(() => make))
}

type Response = Pick<AttemptOutcome, "responseStatus" | "error">

const failed = (error: AttemptError): Response => ({ responseStatus: null, error })
const timedOut = Effect.succeed(failed("timed_out"))

const responseOf = (status: number): Response => ({ responseStatus: status, error: errorOfStatus(status) })

const responseOfFailure = (reason: DeliveryError | StoreUnavailable | Cause.NoSuchElementError | Cause.TimeoutError) =>
  Effect.succeed(failed(reason._tag === "DeliveryError" ? reason.error : "not_sent"))

const responseOfDefect = (defect: unknown) =>
  Effect.as(Effect.logError("webhook attempt failed by a defect", defect), failed("not_sent"))

const logAttempt = ({ attempt, isLast, origin, taskId }: ClaimedDelivery, error: AttemptError | null) => {
  const level = error === null ? "Debug" : isLast ? "Warn" : "Info"
  return Effect.annotateLogs(Effect.logWithLevel(level)(`webhook attempt ${attempt}: ${error ?? "delivered"}`), {
    taskId,
    origin
  })
}

/** Makes one attempt, and returns its outcome. Nothing but an interruption makes it fail. */
const makeAttempts = Effect.gen(function*() {
  const store = yield* WebhookStore
  const sender = yield* WebhookSender
  const hmac = yield* HmacSha256
  const secrets = yield* Secrets
  const { webhookTimeout } = yield* Settings

  /** Large bodies are read one at a time, because a body takes several times its size while it is read. */
  const reading = yield* Semaphore.make(1)
  const readBody = (delivery: ClaimedDelivery) =>
    reading.withPermit(
      store.body(delivery).pipe(Effect.flatMap(Effect.fromOption), Effect.map(encode))
    ).pipe(Effect.timeout(readTimeout))

  const respond = Effect.fnUntraced(
    function*(delivery: ClaimedDelivery, startedAt: Timestamp) {
      const body = delivery.body === null ? yield* readBody(delivery) : encode(delivery.body)
      const secret = delivery.secret === null ? undefined : yield* secrets.open(delivery.secret)
      const headers = headersOf(hmac, delivery, startedAt, body, secret)
      return yield* sender.post(delivery.url, headers, body).pipe(
        Effect.map(responseOf),
        Effect.timeoutOrElse({ duration: webhookTimeout, orElse: () => timedOut })
      )
    },
    Effect.catch(responseOfFailure),
    Effect.catchDefect(responseOfDefect)
  )

  return Effect.fnUntraced(function*(delivery: ClaimedDelivery) {
    const { attempt, dueAt, isAfterLost, isLast, revision, taskId } = delivery
    const startedAt = yield* now
    const begun = yield* monotonicMillis
    Metrics.webhookLateness.record(Math.max(0, startedAt - dueAt) / 1_000_000)
    if (isAfterLost) Metrics.webhooksAbandoned.add(1)
    const response = yield* respond(delivery, startedAt)
    const endedAt = yield* now
    const duration = (yield* monotonicMillis) - begun
    Metrics.webhookAttempts.record(duration / 1000, response.error ?? "delivered")
    yield* logAttempt(delivery, response.error)
    const delay = response.error === null || isLast ? undefined : yield* nextDelay(attempt)
    const nextAttemptAt = delay === undefined ? null : plus(endedAt, delay)
    return { taskId, revision, attempt, endedAt, duration: Math.round(duration), ...response, nextAttemptAt }
  })
})

/** Records outcomes in batches. `scheduled` receives each outcome that has a next attempt. */
const makeRecorder = Effect.fnUntraced(function*(scheduled: (id: string, at: Timestamp) => void) {
  const store = yield* WebhookStore
  const outcomes = yield* Queue.unbounded<AttemptOutcome>()
  let unrecorded = 0
  const areRecorded = Latch.makeUnsafe(true)
  yield* Effect.addFinalizer(() =>
    Effect.flatMap(Queue.clear(outcomes), (left) => left.length === 0 ? Effect.void : store.recordOutcomes(left)).pipe(
      Effect.catchCause(logFault("the outcomes of webhook attempts could not be recorded"))
    )
  )
  const recordSome = Effect.gen(function*() {
    const batch = yield* Queue.takeBetween(outcomes, 1, outcomeBatch)
    yield* retryForever(Effect.uninterruptible(store.recordOutcomes(batch)))
    unrecorded -= batch.length
    if (unrecorded === 0) areRecorded.openUnsafe()
    for (const outcome of batch) {
      if (outcome.nextAttemptAt !== null) scheduled(deliveryId(outcome), outcome.nextAttemptAt)
    }
  })
  yield* Effect.forkScoped(Effect.forever(recordSome))
  return {
    add: (outcome: AttemptOutcome) => {
      unrecorded += 1
      areRecorded.closeUnsafe()
      Queue.offerUnsafe(outcomes, outcome)
    },
    drain: areRecorded.await
  }
})

/** Releases claims without counting an attempt. The deliveries become due later, spaced for each origin. */
const makePostpone = Effect.gen(function*() {
  const store = yield* WebhookStore
  const lastOf = new Map<string, Timestamp>()
  return Effect.fnUntraced(function*(delivery: ClaimedDelivery) {
    const at = yield* now
    const soonest = plus(at, largeDelay)
    const latest = plus(at, longestLargeDelay)
    const next = plus(lastOf.get(delivery.origin) ?? at, largeSpacing)
    const due = next < soonest ? soonest : next > latest ? latest : next
    // Moved to the end, so that the entries are in the order of their use and old ones are found first.
    lastOf.delete(delivery.origin)
    lastOf.set(delivery.origin, due)
    for (const [origin, last] of lastOf) {
      if (last > soonest) break
      lastOf.delete(origin)
    }
    yield* retryForever(store.postpone(delivery, due))
  })
})

const make = Effect.gen(function*() {
  const store = yield* WebhookStore
  const webhooksPending = yield* WebhooksPending
  const { sweepInterval, webhookTimeout } = yield* Settings
  const attemptTime = Duration.sum(webhookTimeout, grace)
  const leases = [...(yield* delays), Duration.zero].map((delay) => Duration.sum(attemptTime, delay))
  const limiter = new OriginLimiter(bounds)
  const timers = yield* TimerQueue.make<string>(() => Effect.asVoid(webhooksPending.open))
  const recorder = yield* makeRecorder(timers.set)
  const attemptOnce = yield* makeAttempts
  const large = new LargeDeliveries()
  const postpone = yield* makePostpone

  /** Returns a permit, and claims again if deliveries may have waited for it. */
  const release = (origin: string, hasResponded: boolean) => {
    if (limiter.permits === 0 || limiter.permitsOf(origin) === 0 || limiter.permitsOfOthers === 0) {
      webhooksPending.openUnsafe()
    }
    limiter.release(origin, hasResponded)
  }

  const fibers = yield* FiberSet.make()
  const fork = yield* FiberSet.runtime(fibers)()

  const start = (delivery: ClaimedDelivery) => {
    const isLarge = delivery.body === null
    limiter.acquire(delivery.origin)
    const attributes = { "webhook.attempt": delivery.attempt, "webhook.origin": delivery.origin }
    const inTrace = TaskTraces.traced(TaskTraces.names.webhook, delivery.taskId, { kind: "client", attributes })
    let hasResponded = false
    const attempt = Effect.map(attemptOnce(delivery), (outcome) => {
      hasResponded = outcome.responseStatus !== null
      recorder.add(outcome)
    })
    const end = Effect.sync(() => {
      if (isLarge) large.leave(delivery.origin)
      release(delivery.origin, hasResponded)
    })
    fork(inTrace(Effect.ensuring(attempt, end)))
  }

  const claimSome = Effect.gen(function*() {
    const limit = Math.min(claimBatch, limiter.permits)
    if (limit <= 0) return
    const permits = limiter.claimable
    const claimed = yield* store.claim({ at: yield* now, limit, leases, ...permits })
    const refused = claimed.filter(({ body, origin }) => body === null && !large.enter(origin))
    for (const delivery of claimed) if (!refused.includes(delivery)) start(delivery)
    // In a fiber of its own, because an outage must not block the claims or the shutdown.
    if (refused.length > 0) fork(Effect.forEach(refused, postpone, { concurrency: 8, discard: true }))
    const mayHaveMore = claimed.length === limit || hasUsedUp(claimed, permits)
    if (mayHaveMore) webhooksPending.openUnsafe()
  })
  const claims = yield* Worker.make({
    name: "the claim of webhooks",
    runOnce: Effect.uninterruptible(claimSome),
    interval: sweepInterval,
    wake: webhooksPending
  })

  return WebhookDispatcher.of({
    drain: claims.drain.pipe(
      Effect.andThen(FiberSet.awaitEmpty(fibers)),
      Effect.andThen(recorder.drain),
      Effect.timeoutOption(drainTimeout),
      Effect.asVoid
    )
  })
})
