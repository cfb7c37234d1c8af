/**
 * Sends pending webhooks from a bounded set of fibers, one per attempt. Claiming a delivery counts the attempt before
 * it is sent. The claim is a lease: if the node dies, another node claims the delivery when the lease expires.
 * `AttemptLimiter` limits the attempts in flight per origin and user, so that a slow origin does not delay the others.
 */
import { Cause, Context, Duration, Effect, Exit, type Fiber, FiberSet, Latch, Layer, Option, Queue } from "effect"
import { monotonicMillis, now, plus, Timestamp } from "../../domain/Timestamp.ts"
import { delays, deliveryId, nextDelay } from "../../domain/Webhook.ts"
import * as FairPermits from "../limits/FairPermits.ts"
import { Memory, Sizes } from "../limits/Memory.ts"
import { Settings } from "../settings/Settings.ts"
import { Changes } from "../signals/Changes.ts"
import { PendingWork } from "../store/PendingWork.ts"
import { type AttemptOutcome, type ClaimedDelivery, WebhookStore } from "../store/webhooks/WebhookStore.ts"
import * as Metrics from "../telemetry/Metrics.ts"
import * as TaskTraces from "../telemetry/TaskTraces.ts"
import { logFault, retryForever, retryOutage } from "../timing/Retry.ts"
import * as ScanFloor from "../timing/ScanFloor.ts"
import * as Timers from "../timing/Timers.ts"
import * as Worker from "../timing/Worker.ts"
import { Secrets } from "../tokens/Secrets.ts"
import { AttemptLimiter, type Bounds } from "./AttemptLimiter.ts"
import * as WebhookAttempts from "./WebhookAttempts.ts"
import { headersOf, HmacSha256 } from "./WebhookHeaders.ts"

type Outbox<D extends ClaimedDelivery> = WebhookAttempts.Outbox<D>

/**
 * Attempts in flight on this node. A target that hangs holds a permit for the whole timeout. Two thirds of `reserved` less one batch
 * are the largest window, which a proven origin therefore finds however many unproven ones hang.
 */
const bounds = { total: 1024, reserved: 256, smallest: 8, largest: 128 }
/** Half of the largest window, so that one half is in flight while the next deliveries are claimed. */
const claimBatch = 64
const outcomeBatch = 256
/** Of an outcome alone that fails by a defect: a deadlock ends by itself. */
const outcomeTries = 3
const outcomeRetry = Duration.millis(100)

/** Added to the timeout for the node's own work, before an attempt counts as lost. Longer than a pause of `retryForever`. */
const grace = Duration.seconds(5)
const drainTimeout = Duration.seconds(5)

/** The longest that a large delivery waits for memory; part of its lease. */
const memoryWait = Duration.seconds(3)
/** After which it is claimed again if that was in vain. */
const memoryRetry = Duration.seconds(5)

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
  function*<D extends ClaimedDelivery>(
    { store }: Outbox<D>,
    lostBefore: LostBefore,
    scheduled: (id: string, at: Timestamp) => void
  ) {
    const outcomes = yield* Queue.unbounded<AttemptOutcome>()
    let unrecorded = 0
    const areRecorded = Latch.makeUnsafe(true)
    yield* Effect.addFinalizer(() =>
      Effect.flatMap(Queue.clear(outcomes), (left) => left.length === 0 ? Effect.void : store.recordOutcomes(left))
        .pipe(
          Effect.catchCause(logFault("the outcomes of webhook attempts could not be recorded"))
        )
    )
    /** A batch that fails by a defect is halved, so that an outcome that cannot be recorded keeps no other. Its attempt counts as lost. */
    const record = (batch: ReadonlyArray<AttemptOutcome>, left = outcomeTries): Effect.Effect<void> =>
      Effect.catchDefect(
        retryOutage(lostBefore.observe(Effect.uninterruptible(store.recordOutcomes(batch)))),
        (defect) => {
          const half = Math.ceil(batch.length / 2)
          if (batch.length > 1) return Effect.andThen(record(batch.slice(0, half)), record(batch.slice(half)))
          if (left > 1) return Effect.andThen(Effect.sleep(outcomeRetry), record(batch, left - 1))
          const [{ origin, taskId } = {}] = batch
          return Effect.annotateLogs(Effect.logError("the outcome of a webhook attempt cannot be recorded", defect), {
            taskId,
            origin
          })
        }
      )
    const recordSome = Effect.gen(function*() {
      const batch = yield* Queue.takeBetween(outcomes, 1, outcomeBatch)
      yield* record(batch)
      unrecorded -= batch.length
      if (unrecorded === 0) areRecorded.openUnsafe()
      for (const outcome of batch) {
        if (outcome.nextAttemptAt !== null) scheduled(`${outcome.sub} ${deliveryId(outcome)}`, outcome.nextAttemptAt)
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

/** Ends the deliveries whose last attempt was lost. No other attempt reports them. */
const makeEndLost = <D extends ClaimedDelivery>(
  { metrics }: Outbox<D>,
  endLost: WebhookStore["Service"]["endLost"],
  lostBefore: LostBefore
) =>
  Effect.gen(function*() {
    // The call is made even if it ends none, to see whether the store responds.
    const lost = yield* lostBefore.observe(endLost(yield* lostBefore.moment))
    metrics.abandoned(lost.length)
    for (const { attempt, origin, taskId } of lost) {
      yield* Effect.annotateLogs(Effect.logWarning(`webhook attempt ${attempt}: lost`), { taskId, origin })
    }
  })

type Fork = (effect: Effect.Effect<unknown, unknown>) => Fiber.Fiber<unknown, unknown>

/**
 * Returns a function that makes an attempt with a large body within the memory of a node, which the body holds until its target has
 * responded. One origin and one user leave memory for others. Without memory the claim is taken back.
 */
const makeLarge = Effect.fnUntraced(function*<D extends ClaimedDelivery>({ store }: Outbox<D>) {
  const { deliveries } = yield* Memory
  const ofOrigin = FairPermits.make({ total: Infinity, perHolder: (yield* Sizes).deliveries.perHolder })
  return Effect.fnUntraced(function*<A, E>(delivery: D, attempt: Effect.Effect<A, E>) {
    const { bytes, origin, sub } = delivery
    const take = Effect.andThen(ofOrigin.take(origin, bytes), deliveries.take(sub, bytes))
    const isMade = yield* Effect.scoped(
      Effect.flatMap(
        Effect.interruptible(Effect.timeoutOption(take, memoryWait)),
        Option.match({ onNone: () => Effect.succeed(false), onSome: () => Effect.as(attempt, true) })
      )
    )
    if (!isMade) yield* retryForever(store.postpone(delivery, plus(yield* now, memoryRetry)))
  })
})

/** Makes the attempts in fibers of their own, within the limits of origins and of memory. */
const makeAttempts = Effect.fnUntraced(function*<D extends ClaimedDelivery>(
  outbox: Outbox<D>,
  { fork, limiter, lostBefore, wake }: {
    readonly fork: Fork
    readonly limiter: AttemptLimiter
    readonly lostBefore: LostBefore
    readonly wake: Latch.Latch
  }
) {
  const timers = yield* Timers.make<string>(() => Effect.asVoid(wake.open))
  const recorder = yield* makeRecorder(outbox, lostBefore, timers.set)
  const attempt = yield* WebhookAttempts.make(outbox)
  const withMemory = yield* makeLarge(outbox)

  const start = (delivery: D) => {
    const release = limiter.acquire(delivery)
    const attributes = { "webhook.attempt": delivery.attempt, "webhook.origin": delivery.origin }
    const options = { kind: "client", attributes } as const
    /** Undefined until there is an outcome. */
    let hasResponded: boolean | undefined
    const made = attempt(delivery, (outcome) => {
      hasResponded = outcome.responseStatus !== null
      recorder.add(outcome)
    })
    const traced = TaskTraces.traced(TaskTraces.names.webhook, delivery.taskId, options)(made)
    // An observer runs however the fiber ends.
    const within = delivery.body === null ? withMemory(delivery, traced) : Effect.asVoid(traced)
    fork(Effect.uninterruptible(within)).addObserver((exit) => {
      if (release(hasResponded)) wake.openUnsafe()
      if (Exit.isFailure(exit) && Cause.hasDies(exit.cause)) {
        fork(Effect.logError("webhook attempt failed by a defect", exit.cause))
      }
    })
  }

  return { start, drain: recorder.drain }
})

/**
 * Sends the deliveries of an outbox within limits of its own. `wake` is opened when one may have become due, and `floor` is where the next
 * claim begins.
 */
export const dispatch = Effect.fnUntraced(function*<D extends ClaimedDelivery>(
  outbox: Outbox<D>,
  bounds: Bounds,
  { floor, pending: wake }: Pick<Changes["Service"]["webhooks"], "floor" | "pending">
) {
  const { name, store } = outbox
  const { sweepInterval, webhookTimeout } = yield* Settings
  const attemptTime = Duration.sum(Duration.sum(memoryWait, webhookTimeout), grace)
  const leases = [...outbox.delays, Duration.zero].map((delay) => Duration.sum(attemptTime, delay))
  const limiter = new AttemptLimiter(bounds)
  const fibers = yield* FiberSet.make<unknown, unknown>()
  const fork = yield* FiberSet.runtime(fibers)()
  const lostBefore = makeLostBefore()
  const attempts = yield* makeAttempts(outbox, { fork, limiter, lostBefore, wake })

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
    deliveries.forEach(attempts.start)
    if (hasMore) wake.openUnsafe()
  })
  const pendingWork = yield* PendingWork
  const claims = yield* Worker.make({
    name: `the claim of ${name}`,
    runOnce: Effect.uninterruptible(claimSome),
    interval: sweepInterval,
    demand: pendingWork.of(name),
    wake
  })

  if (store.endLost !== undefined) {
    yield* Worker.make({
      name: `the end of lost ${name}`,
      runOnce: Effect.uninterruptible(makeEndLost(outbox, store.endLost, lostBefore)),
      interval: sweepInterval,
      demand: pendingWork.of(name)
    })
  }

  return {
    /** Begins no more attempts, and waits at most 5 s for those in flight. */
    drain: claims.drain.pipe(
      Effect.andThen(FiberSet.awaitEmpty(fibers)),
      Effect.andThen(attempts.drain),
      Effect.timeoutOption(drainTimeout),
      Effect.asVoid
    )
  }
})

const make = Effect.gen(function*() {
  const hmac = yield* HmacSha256
  const secrets = yield* Secrets
  const outbox: Outbox<ClaimedDelivery> = {
    name: "webhooks",
    store: yield* WebhookStore,
    headersOf: (delivery, at, body) =>
      Effect.map(
        delivery.secret === null ? Effect.undefined : secrets.open("callback-secret", delivery.secret),
        (secret) => headersOf(hmac, delivery, at, body, secret)
      ),
    nextDelay: ({ attempt }) => nextDelay(attempt),
    delays: yield* delays,
    metrics: {
      attempted: Metrics.webhookAttempts.record,
      late: Metrics.webhookLateness.record,
      abandoned: Metrics.webhooksAbandoned.add
    }
  }
  return WebhookDispatcher.of(yield* dispatch(outbox, bounds, (yield* Changes).webhooks))
})
