/**
 * Makes the attempts, each in one fiber that suspends once: it signs, posts, and reports the outcome. One worker ends the posts
 * that reach their timeout, because a timer and a race for each would cost more than the rest of the attempt.
 */
import { Cause, Clock, Duration, Effect, Exit, Function, LogLevel, Option, type Redacted, Semaphore } from "effect"
import { encode } from "../../domain/json/OpaqueJson.ts"
import { fromNanos, monotonicMillisOf, plus } from "../../domain/Timestamp.ts"
import { type AttemptError, errorOfStatus, hintOf, nextDelay } from "../../domain/Webhook.ts"
import { Settings } from "../settings/Settings.ts"
import { type AttemptOutcome, type ClaimedDelivery, WebhookStore } from "../store/webhooks/WebhookStore.ts"
import * as Metrics from "../telemetry/Metrics.ts"
import * as Timers from "../timing/Timers.ts"
import { Secrets } from "../tokens/Secrets.ts"
import { DeliveryError, WebhookSender } from "./WebhookSender.ts"
import { headersOf, HmacSha256 } from "./WebhookSignatures.ts"

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
const makeEnd = Effect.gen(function*() {
  const clock = yield* Clock.Clock
  const isLoggingSuccess = yield* LogLevel.isEnabled("Debug")
  return (
    delivery: ClaimedDelivery,
    begun: number,
    response: Response,
    onOutcome: (outcome: AttemptOutcome) => void
  ): Effect.Effect<void> => {
    const { attempt, isLast, origin, revision, taskId } = delivery
    const endedAt = fromNanos(clock.currentTimeNanosUnsafe())
    const duration = monotonicMillisOf(clock) - begun
    Metrics.webhookAttempts.record(duration / 1000, response.error ?? "delivered")
    const report = (delay: Duration.Duration | undefined) => {
      const nextAttemptAt = delay === undefined ? null : plus(endedAt, delay)
      const made = { attempt, endedAt, duration: Math.round(duration), ...response, nextAttemptAt }
      onOutcome({ taskId, revision, origin, ...made })
    }
    if (response.error !== null && !isLast) {
      return Effect.andThen(logAttempt(delivery, response), Effect.map(nextDelay(attempt), report))
    }
    report(undefined)
    return response.error === null && !isLoggingSuccess ? Effect.void : logAttempt(delivery, response)
  }
})

/**
 * Returns the effect of one attempt, for an uninterruptible fiber of its own, which only the post can be interrupted in. It fails
 * like the post. `onOutcome` is not called after an interruption or a defect of this module.
 */
export const make = Effect.gen(function*() {
  const store = yield* WebhookStore
  const sender = yield* WebhookSender
  const hmac = yield* HmacSha256
  const secrets = yield* Secrets
  const clock = yield* Clock.Clock
  const end = yield* makeEnd
  const timeout = Duration.toMillis((yield* Settings).webhookTimeout)
  const posts = yield* Timers.makeTimeouts("the timeout of webhooks")

  /** Large bodies are read one at a time, because a body takes several times its size while it is read. */
  const reading = yield* Semaphore.make(1)
  const readBody = (delivery: ClaimedDelivery) =>
    reading.withPermit(
      store.body(delivery).pipe(Effect.flatMap(Effect.fromOption), Effect.map(encode))
    ).pipe(Effect.timeout(readTimeout))

  return (delivery: ClaimedDelivery, onOutcome: (outcome: AttemptOutcome) => void) =>
    Effect.withFiber((fiber) => {
      const startedAt = fromNanos(clock.currentTimeNanosUnsafe())
      const begun = monotonicMillisOf(clock)
      let isTimedOut = false
      let endPost = Function.constVoid
      const send = (body: Uint8Array, secret: Redacted.Redacted | undefined) => {
        const headers = headersOf(hmac, delivery, startedAt, body, secret)
        endPost = posts.begin(timeout, () => {
          isTimedOut = true
          fiber.interruptUnsafe()
        })
        return sender.post(delivery.url, headers, body)
      }
      const sent = Effect.suspend(() => {
        Metrics.webhookLateness.record(Math.max(0, startedAt - delivery.dueAt) / 1_000_000)
        if (delivery.isAfterLost) Metrics.webhooksAbandoned.add(1)
        const secret = delivery.secret === null ? Effect.undefined : secrets.open("callback-secret", delivery.secret)
        return Effect.flatMap(secret, (secret) =>
          delivery.body === null
            ? Effect.flatMap(readBody(delivery), (body) => send(body, secret))
            : send(encode(delivery.body), secret))
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
