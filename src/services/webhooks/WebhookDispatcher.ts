/**
 * Sends pending webhooks from a bounded set of fibers, one per attempt. Claiming a delivery counts the attempt before
 * it is sent. The claim is a lease: if the node dies, another node claims the delivery when the lease expires.
 * `AttemptLimiter` limits the attempts in flight per origin and user, so that a slow origin does not delay the others.
 */
import { Cause, Context, Duration, Effect, Exit, type Fiber, FiberSet, Latch, Layer, Queue } from "effect"
import { monotonicMillis, now, plus, Timestamp } from "../../domain/Timestamp.ts"
import { delays, deliveryId } from "../../domain/Webhook.ts"
import { Counts } from "../limits/Counts.ts"
import { Settings } from "../settings/Settings.ts"
import { Changes } from "../signals/Changes.ts"
import { PendingWork } from "../store/PendingWork.ts"
import { type AttemptOutcome, type ClaimedDelivery, WebhookStore } from "../store/webhooks/WebhookStore.ts"
import * as Metrics from "../telemetry/Metrics.ts"
import * as TaskTraces from "../telemetry/TaskTraces.ts"
import { logFault, retryForever } from "../timing/Retry.ts"
import * as ScanFloor from "../timing/ScanFloor.ts"
import * as Timers from "../timing/Timers.ts"
import * as Worker from "../timing/Worker.ts"
import { AttemptLimiter } from "./AttemptLimiter.ts"
import * as WebhookAttempts from "./WebhookAttempts.ts"

/**
 * Attempts in flight on this node. A target that hangs holds a permit for the whole timeout. Two thirds of `reserved` less one batch
 * are the largest window, which a proven origin therefore finds however many unproven ones hang.
 */
const bounds = { total: 1024, reserved: 256, smallest: 8, largest: 128 }
/** Half of the largest window, so that one half is in flight while the next deliveries are claimed. */
const claimBatch = 64
const outcomeBatch = 256

/** Added to the timeout for the node's own work, before an attempt counts as lost. Longer than a pause of `retryForever`. */
const grace = Duration.seconds(5)
const drainTimeout = Duration.seconds(5)

/** Large bodies in memory: each takes its size until its target has responded. An origin that hangs leaves room for others. */
const maxLarge = 6
const maxLargePerOrigin = 2
/** Minimum delay of a large delivery for which there is no room. */
const largeDelay = Duration.seconds(1)
/** Time between two of them, so that a long backlog is not claimed again every second. */
const largeSpacing = Duration.millis(30)
/** Maximum delay: room may be free sooner than a long backlog suggests. */
const longestLargeDelay = Duration.minutes(1)

export class WebhookDispatcher extends Context.Service<WebhookDispatcher, {
  /** Begins no more attempts, and waits at most 5 s for those in flight. */
  readonly drain: Effect.Effect<void>
}>()("async-task-service/services/webhooks/WebhookDispatcher") {
  static readonly layer = Layer.effect(WebhookDispatcher, Effect.suspend(() => make))
}

/**
 * The moment until which attempts may count as lost. Until `grace` after a failure of the store it is long ago, because outcomes from an
 * outage are recorded only when the pause of their retry has ended.
 */
const makeLostBefore = () => {
  let failedAt = -Infinity
  return {
    observe: <A, E>(call: Effect.Effect<A, E>): Effect.Effect<A, E> =>
      Effect.tapCause(call, () => Effect.map(monotonicMillis, (at) => void (failedAt = at))),
    moment: Effect.flatMap(
      monotonicMillis,
      (at) => at >= failedAt + Duration.toMillis(grace) ? now : Effect.succeed(Timestamp.make(0))
    )
  }
}

type LostBefore = ReturnType<typeof makeLostBefore>

/** Records outcomes in batches. `scheduled` receives each outcome that has a next attempt. */
const makeRecorder = Effect.fnUntraced(
  function*(lostBefore: LostBefore, scheduled: (id: string, at: Timestamp) => void) {
    const store = yield* WebhookStore
    const outcomes = yield* Queue.unbounded<AttemptOutcome>()
    let unrecorded = 0
    const areRecorded = Latch.makeUnsafe(true)
    yield* Effect.addFinalizer(() =>
      Effect.flatMap(Queue.clear(outcomes), (left) => left.length === 0 ? Effect.void : store.recordOutcomes(left))
        .pipe(
          Effect.catchCause(logFault("the outcomes of webhook attempts could not be recorded"))
        )
    )
    const recordSome = Effect.gen(function*() {
      const batch = yield* Queue.takeBetween(outcomes, 1, outcomeBatch)
      yield* retryForever(lostBefore.observe(Effect.uninterruptible(store.recordOutcomes(batch))))
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
  }
)

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

/** Ends the deliveries whose last attempt was lost. No other attempt reports them. */
const makeEndLost = Effect.fnUntraced(function*(lostBefore: LostBefore) {
  const store = yield* WebhookStore
  return Effect.gen(function*() {
    // The call is made even if it ends none, to see whether the store responds.
    const lost = yield* lostBefore.observe(store.endLost(yield* lostBefore.moment))
    Metrics.webhooksAbandoned.add(lost.length)
    for (const { attempt, origin, taskId } of lost) {
      yield* Effect.annotateLogs(Effect.logWarning(`webhook attempt ${attempt}: lost`), { taskId, origin })
    }
  })
})

/** The large bodies in memory. */
const makeLarge = () => {
  const byOrigin = new Counts()
  let total = 0
  return {
    /** Returns whether there is room for one more. */
    enter: (origin: string): boolean => {
      if (total >= maxLarge || byOrigin.of(origin) >= maxLargePerOrigin) return false
      byOrigin.add(origin)
      total++
      return true
    },
    leave: (origin: string): void => {
      byOrigin.remove(origin)
      total--
    }
  }
}

type Fork = (effect: Effect.Effect<unknown, unknown>) => Fiber.Fiber<unknown, unknown>

/** Makes the attempts in fibers of their own, within the limits of origins and of large bodies. */
const makeAttempts = Effect.fnUntraced(
  function*(fork: Fork, limiter: AttemptLimiter, large: ReturnType<typeof makeLarge>, lostBefore: LostBefore) {
    const { webhooks: { pending: wake } } = yield* Changes
    const timers = yield* Timers.make<string>(() => Effect.asVoid(wake.open))
    const recorder = yield* makeRecorder(lostBefore, timers.set)
    const attempt = yield* WebhookAttempts.make

    const start = (delivery: ClaimedDelivery) => {
      const release = limiter.acquire(delivery)
      const attributes = { "webhook.attempt": delivery.attempt, "webhook.origin": delivery.origin }
      const options = { kind: "client", attributes } as const
      let hasResponded = false
      const made = attempt(delivery, (outcome) => {
        hasResponded = outcome.responseStatus !== null
        recorder.add(outcome)
      })
      const traced = TaskTraces.traced(TaskTraces.names.webhook, delivery.taskId, options)(made)
      // An observer runs however the fiber ends.
      fork(Effect.uninterruptible(traced)).addObserver((exit) => {
        if (delivery.body === null) large.leave(delivery.origin)
        if (release(hasResponded)) wake.openUnsafe()
        if (Exit.isFailure(exit) && Cause.hasDies(exit.cause)) {
          fork(Effect.logError("webhook attempt failed by a defect", exit.cause))
        }
      })
    }

    return { start, drain: recorder.drain }
  }
)

const make = Effect.gen(function*() {
  const store = yield* WebhookStore
  const { webhooks: { floor, pending: wake } } = yield* Changes
  const { sweepInterval, webhookTimeout } = yield* Settings
  const attemptTime = Duration.sum(webhookTimeout, grace)
  const leases = [...(yield* delays), Duration.zero].map((delay) => Duration.sum(attemptTime, delay))
  const limiter = new AttemptLimiter(bounds)
  const large = makeLarge()
  const postpone = yield* makePostpone
  const fibers = yield* FiberSet.make<unknown, unknown>()
  const fork = yield* FiberSet.runtime(fibers)()
  const lostBefore = makeLostBefore()
  const attempts = yield* makeAttempts(fork, limiter, large, lostBefore)

  const claimSome = Effect.gen(function*() {
    const limit = Math.min(claimBatch, limiter.permits)
    if (limit <= 0) return
    limiter.forgetIdle()
    const at = yield* now
    const from = yield* floor.from(at)
    const lost = yield* lostBefore.moment
    const request = { at, from, lostBefore: lost, limit, leases, permits: limiter.claimable }
    const { deliveries, hasMore, oldest } = yield* lostBefore.observe(store.claim(request))
    // Attempts that may not count as lost yet are not found.
    if (lost >= at) {
      if (oldest !== null) yield* floor.raise(oldest)
      else if (from === ScanFloor.lowest) yield* floor.raise((yield* store.oldestDue(at)) ?? at)
    }
    const refused = deliveries.filter(({ body, origin }) => body === null && !large.enter(origin))
    for (const delivery of deliveries) if (!refused.includes(delivery)) attempts.start(delivery)
    // In a fiber of its own, because an outage must not block the claims or the shutdown.
    if (refused.length > 0) fork(Effect.forEach(refused, postpone, { concurrency: 8, discard: true }))
    if (hasMore) wake.openUnsafe()
  })
  const pendingWork = yield* PendingWork
  const claims = yield* Worker.make({
    name: "the claim of webhooks",
    runOnce: Effect.uninterruptible(claimSome),
    interval: sweepInterval,
    demand: pendingWork.of("webhooks"),
    wake
  })

  yield* Worker.make({
    name: "the end of lost webhooks",
    runOnce: Effect.uninterruptible(yield* makeEndLost(lostBefore)),
    interval: sweepInterval,
    demand: pendingWork.of("webhooks")
  })

  return WebhookDispatcher.of({
    drain: claims.drain.pipe(
      Effect.andThen(FiberSet.awaitEmpty(fibers)),
      Effect.andThen(attempts.drain),
      Effect.timeoutOption(drainTimeout),
      Effect.asVoid
    )
  })
})
