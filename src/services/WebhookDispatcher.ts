/**
 * Sends the webhooks that are owed: a bounded set of fibers, one an attempt. An attempt is counted by its claim, before it
 * is sent; a node that dies leaves a row that any other claims once the attempt counts as lost. `OriginWindows` keeps the
 * origins from delaying each other.
 */
import { Context, Duration, Effect, FiberSet, Layer, Queue } from "effect"
import { monotonicMillis, now, plus, type Timestamp } from "../domain/Timestamp.ts"
import { type AttemptError, delays, deliveryId, errorOfStatus, nextDelay } from "../domain/Webhook.ts"
import * as Alarms from "./Alarms.ts"
import * as Metrics from "./Metrics.ts"
import { OriginWindows } from "./OriginWindows.ts"
import { logFault, persistently } from "./Persistently.ts"
import { Secrets } from "./Secrets.ts"
import { Settings } from "./Settings.ts"
import { TaskNotifications } from "./TaskNotifications.ts"
import * as TaskTraces from "./TaskTraces.ts"
import { WebhookSender } from "./WebhookSender.ts"
import { WebhookSignatures } from "./WebhookSignatures.ts"
import { type AttemptOutcome, type ClaimedDelivery, type ClaimRequest, WebhookStore } from "./WebhookStore.ts"

/** A target that hangs holds a place for the whole time-out. */
const bounds = { total: 1024, reserved: 256, smallest: 8, largest: 64 }
const claimBatch = 128
const settleBatch = 256

/** Beyond its time-out an attempt is given this for what the node itself has to do, before it counts as lost. */
const grace = Duration.seconds(5)
const drainPatience = Duration.seconds(5)

const encoder = new TextEncoder()

/** Whether an origin took all the places that it was offered: it may have more to send, and may have hidden others. */
const hasUsedUp = (
  claimed: ReadonlyArray<ClaimedDelivery>,
  { places, placesOfOthers }: Pick<ClaimRequest, "places" | "placesOfOthers">
) => {
  const taken = new Map<string, number>()
  for (const { origin } of claimed) taken.set(origin, (taken.get(origin) ?? 0) + 1)
  return [...taken].some(([origin, count]) => count >= (places.get(origin) ?? placesOfOthers))
}

export class WebhookDispatcher extends Context.Service<WebhookDispatcher, {
  /** Begins no more attempts, and waits a while for those under way. */
  readonly drain: Effect.Effect<void>
}>()("async-task-service/services/WebhookDispatcher") {
  static readonly layer = Layer.effect(
    WebhookDispatcher,
    Effect.gen(function*() {
      const store = yield* WebhookStore
      const sender = yield* WebhookSender
      const signatures = yield* WebhookSignatures
      const secrets = yield* Secrets
      const { webhookOwed } = yield* TaskNotifications
      const { sweepInterval, webhookTimeout } = yield* Settings
      const leases = [...(yield* delays), Duration.zero].map((delay) =>
        Duration.sum(Duration.sum(webhookTimeout, grace), delay)
      )
      const windows = new OriginWindows(bounds)
      let isDraining = false

      const outcomes = yield* Queue.unbounded<AttemptOutcome>()
      let unsettled = 0
      yield* Effect.addFinalizer(() =>
        Effect.flatMap(Queue.clear(outcomes), (left) => left.length === 0 ? Effect.void : store.settle(left))
      )
      const alarms = yield* Alarms.make<string>(() => Effect.asVoid(webhookOwed.open))

      const settleSome = Effect.gen(function*() {
        const batch = yield* Queue.takeBetween(outcomes, 1, settleBatch)
        yield* persistently(Effect.uninterruptible(store.settle(batch)))
        unsettled -= batch.length
        for (const outcome of batch) {
          if (outcome.nextAttemptAt !== null) alarms.set(deliveryId(outcome), outcome.nextAttemptAt)
        }
      })

      /** Where others wait for the place that becomes free, they are looked for. */
      const leave = (origin: string, answered: boolean) => {
        if (windows.places === 0 || windows.placesOf(origin) === 0 || windows.placesOfOthers === 0) {
          webhookOwed.openUnsafe()
        }
        windows.leave(origin, answered)
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
        if (delivery.isAfterLost) Metrics.webhooksLost.add(1)
        const failed = (error: AttemptError) => ({ responseStatus: null, error })
        const outcome = yield* post(delivery, startedAt).pipe(
          Effect.map((status) => ({ responseStatus: status, error: errorOfStatus(status) })),
          Effect.catchTag("NoAnswer", ({ error }) => Effect.succeed(failed(error))),
          Effect.catchTag("NoSuchElementError", () => Effect.succeed(failed("not_sent"))),
          Effect.catchDefect((defect) =>
            Effect.as(Effect.logError("a webhook could not be sent", defect), failed("not_sent"))
          ),
          Effect.timeoutOrElse({ duration: webhookTimeout, orElse: () => Effect.succeed(failed("timed_out")) })
        )
        leave(delivery.origin, outcome.responseStatus !== null)
        const endedAt = yield* now
        const duration = (yield* monotonicMillis) - begun
        Metrics.webhookAttempts.record(duration / 1000, outcome.error ?? "delivered")
        const delay = outcome.error === null || delivery.isLast ? undefined : yield* nextDelay(delivery.attempt)
        const { attempt, revision, taskId } = delivery
        unsettled += 1
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
        windows.enter(delivery.origin)
        const attributes = { "webhook.attempt": delivery.attempt, "webhook.origin": delivery.origin }
        const inTrace = TaskTraces.traced(TaskTraces.names.webhook, delivery.taskId, { kind: "client", attributes })
        return FiberSet.run(fibers, inTrace(attempt(delivery)))
      }

      const claimSome = Effect.gen(function*() {
        const limit = Math.min(claimBatch, windows.places)
        if (limit <= 0 || isDraining) return false
        const offered = windows.claimable
        const claimed = yield* store.claim({ at: yield* now, limit, leases, ...offered })
        yield* Effect.forEach(claimed, start, { discard: true })
        return claimed.length === limit || hasUsedUp(claimed, offered)
      })

      const pass = Effect.gen(function*() {
        yield* webhookOwed.close
        yield* Effect.repeat(Effect.uninterruptible(claimSome), { while: (mayHaveMore) => mayHaveMore }).pipe(
          Effect.catchCause(logFault("webhooks are held up"))
        )
        yield* Effect.timeoutOption(webhookOwed.await, sweepInterval)
      })

      yield* Effect.forkScoped(Effect.forever(settleSome))
      yield* Effect.forkScoped(Effect.forever(pass))

      return WebhookDispatcher.of({
        drain: Effect.gen(function*() {
          isDraining = true
          yield* FiberSet.awaitEmpty(fibers)
          yield* Effect.repeat(Effect.yieldNow, { while: () => unsettled > 0 })
        }).pipe(Effect.timeoutOption(drainPatience), Effect.asVoid)
      })
    })
  )
}
