/**
 * Makes the attempts, each in one fiber that suspends once: it signs, posts, and reports the outcome. One worker ends the posts
 * that reach their timeout, because a timer and a race for each would cost more than the rest of the attempt.
 */
import { Cause, Clock, Duration, Effect, Exit, Function, LogLevel, Option, Semaphore } from "effect"
import { encode, type OpaqueJson } from "../../domain/json/OpaqueJson.ts"
import type { StoreUnavailable } from "../../domain/StoreUnavailable.ts"
import { fromNanos, monotonicMillisOf, plus, type Timestamp } from "../../domain/Timestamp.ts"
import { type AttemptError, errorOfStatus, hintOf } from "../../domain/Webhook.ts"
import { Settings } from "../settings/Settings.ts"
import type {
  AttemptOutcome,
  Claim,
  ClaimedDelivery,
  ClaimRequest,
  LostAttempt
} from "../store/webhooks/WebhookStore.ts"
import * as Timers from "../timing/Timers.ts"
import { DeliveryError, WebhookSender } from "./WebhookSender.ts"

/** Deliveries that one dispatcher sends: those of tasks, or an extension's. `WebhookStore` says what the calls of the store mean. */
export interface Outbox<Delivery extends ClaimedDelivery = ClaimedDelivery> {
  /** In the names of workers, and the kind of its `PendingWork`. */
  readonly name: string
  readonly store: {
    readonly claim: (request: ClaimRequest) => Effect.Effect<Claim<Delivery>, StoreUnavailable>
    readonly oldestDue: (at: Timestamp) => Effect.Effect<Timestamp | null, StoreUnavailable>
    /** Absent where a lost last attempt is followed by another one. */
    readonly endLost?: (at: Timestamp) => Effect.Effect<ReadonlyArray<LostAttempt>, StoreUnavailable>
    readonly body: (delivery: Delivery) => Effect.Effect<Option.Option<OpaqueJson>, StoreUnavailable>
    readonly postpone: (delivery: Delivery, until: Timestamp) => Effect.Effect<void, StoreUnavailable>
    readonly recordOutcomes: (outcomes: ReadonlyArray<AttemptOutcome>) => Effect.Effect<void, StoreUnavailable>
  }
  readonly headersOf: (
    delivery: Delivery,
    at: Timestamp,
    body: Uint8Array
  ) => Effect.Effect<Readonly<Record<string, string>>>
  /** The delay from the end of a failed attempt to the next one; undefined after the last. */
  readonly nextDelay: (delivery: Delivery) => Effect.Effect<Duration.Duration | undefined>
  /** Its delays without jitter: the lease of an attempt ends when the next one would begin. */
  readonly delays: ReadonlyArray<Duration.Duration>
  readonly metrics: {
    readonly attempted: (seconds: number, outcome: string) => void
    /** Seconds from the moment when an attempt was due to its begin. */
    readonly late: (seconds: number) => void
    readonly abandoned: (count: number) => void
  }
}

/** Timeout of the read of a large body, which is part of the node's own work. */
const readTimeout = Duration.seconds(3)

type Response = Pick<AttemptOutcome, "responseStatus" | "error">

const timedOut = Exit.fail(new DeliveryError({ error: "timed_out" }))

const failed = (error: AttemptError): Response => ({ responseStatus: null, error })

const errorOf = (cause: Cause.Cause<unknown>): AttemptError => {
  const error = Option.getOrUndefined(Cause.findErrorOption(cause))
  return error instanceof DeliveryError ? error.error : "not_sent"
}

const responseOf = (status: number): Response => ({ responseStatus: status, error: errorOfStatus(status) })

const logAttempt = ({ attempt, isLast, origin, taskId }: ClaimedDelivery, { error, responseStatus }: Response) => {
  const level = error === null ? "Debug" : isLast ? "Warn" : "Info"
  const status = error === null || responseStatus === null ? "" : ` ${responseStatus}`
  const hint = hintOf(responseStatus)
  const outcome = `${error ?? "delivered"}${status}${hint === undefined ? "" : `. ${hint}`}`
  return Effect.annotateLogs(Effect.logWithLevel(level)(`webhook attempt ${attempt}: ${outcome}`), { taskId, origin })
}

/** Returns a function that measures, logs and reports the end of an attempt that began at the monotonic millisecond `begun`. */
const makeEnd = Effect.fnUntraced(function*<D extends ClaimedDelivery>({ metrics, nextDelay }: Outbox<D>) {
  const clock = yield* Clock.Clock
  const isLoggingSuccess = yield* LogLevel.isEnabled("Debug")
  return (
    delivery: D,
    begun: number,
    response: Response,
    onOutcome: (outcome: AttemptOutcome) => void
  ): Effect.Effect<void> => {
    const { attempt, happenedAt, isLast, origin, revision, sub, taskId } = delivery
    const endedAt = fromNanos(clock.currentTimeNanosUnsafe())
    const duration = monotonicMillisOf(clock) - begun
    metrics.attempted(duration / 1000, response.error ?? "delivered")
    const report = (delay: Duration.Duration | undefined) => {
      const nextAttemptAt = delay === undefined ? null : plus(endedAt, delay)
      const made = { attempt, endedAt, duration: Math.round(duration), ...response, nextAttemptAt }
      onOutcome({ taskId, revision, happenedAt, sub, origin, ...made })
    }
    if (response.error !== null && !isLast) {
      return Effect.andThen(logAttempt(delivery, response), Effect.map(nextDelay(delivery), report))
    }
    report(undefined)
    return response.error === null && !isLoggingSuccess ? Effect.void : logAttempt(delivery, response)
  }
})

/**
 * Returns the effect of one attempt, for an uninterruptible fiber of its own, which only the post can be interrupted in. It fails
 * like the post. `onOutcome` is not called after an interruption or a defect of this module.
 */
export const make = Effect.fnUntraced(function*<D extends ClaimedDelivery>(outbox: Outbox<D>) {
  const { headersOf, metrics, name, store } = outbox
  const sender = yield* WebhookSender
  const clock = yield* Clock.Clock
  const end = yield* makeEnd(outbox)
  const timeout = Duration.toMillis((yield* Settings).webhookTimeout)
  const posts = yield* Timers.makeTimeouts(`the timeout of ${name}`)

  /** Large bodies are read one at a time, because a body takes several times its size while it is read. */
  const reading = yield* Semaphore.make(1)
  const readBody = (delivery: D) =>
    reading.withPermit(
      store.body(delivery).pipe(Effect.flatMap(Effect.fromOption), Effect.map(encode))
    ).pipe(Effect.timeout(readTimeout))

  return (delivery: D, onOutcome: (outcome: AttemptOutcome) => void) =>
    Effect.withFiber((fiber) => {
      const startedAt = fromNanos(clock.currentTimeNanosUnsafe())
      const begun = monotonicMillisOf(clock)
      let isTimedOut = false
      let endPost = Function.constVoid
      const send = (body: Uint8Array) =>
        Effect.flatMap(headersOf(delivery, startedAt, body), (headers) => {
          endPost = posts.begin(timeout, () => {
            isTimedOut = true
            fiber.interruptUnsafe()
          })
          return sender.post(delivery.url, headers, body)
        })
      const sent = Effect.suspend(() => {
        metrics.late(Math.max(0, startedAt - delivery.dueAt) / 1_000_000)
        if (delivery.isAfterLost) metrics.abandoned(1)
        return delivery.body === null ? Effect.flatMap(readBody(delivery), send) : send(encode(delivery.body))
      })
      return Effect.flatMap(Effect.exit(Effect.interruptible(sent)), (ended) => {
        endPost()
        const exit = Exit.isFailure(ended) && isTimedOut ? timedOut : ended
        if (Exit.hasInterrupts(exit)) return exit
        const response = Exit.isSuccess(exit) ? responseOf(exit.value) : failed(errorOf(exit.cause))
        return Effect.andThen(end(delivery, begun, response, onOutcome), exit)
      })
    })
})
