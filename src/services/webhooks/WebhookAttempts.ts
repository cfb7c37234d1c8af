/**
 * Makes the attempts, each in one fiber that suspends once: it signs, posts, and reports the outcome. One worker ends the posts
 * that reach their timeout, because a timer and a race for each would cost more than the rest of the attempt.
 */
import { Cause, Clock, Duration, Effect, Exit, type Fiber, LogLevel, Option, type Redacted, Semaphore } from "effect"
import { encode } from "../../domain/OpaqueJson.ts"
import { fromNanos, monotonicMillisOf, plus } from "../../domain/Timestamp.ts"
import { type AttemptError, errorOfStatus, nextDelay } from "../../domain/Webhook.ts"
import { type AttemptOutcome, type ClaimedDelivery, WebhookStore } from "../store/WebhookStore.ts"
import * as Metrics from "../telemetry/Metrics.ts"
import { Settings } from "../timing/Settings.ts"
import * as Worker from "../timing/Worker.ts"
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

const logAttempt = ({ attempt, isLast, origin, taskId }: ClaimedDelivery, error: AttemptError | null) => {
  const level = error === null ? "Debug" : isLast ? "Warn" : "Info"
  return Effect.annotateLogs(Effect.logWithLevel(level)(`webhook attempt ${attempt}: ${error ?? "delivered"}`), {
    taskId,
    origin
  })
}

/** A post in flight. The deadline is in milliseconds of the monotonic clock. */
interface Post {
  readonly fiber: Fiber.Fiber<unknown, unknown>
  readonly deadline: number
  isTimedOut: boolean
}

/** The posts in flight, and a worker that interrupts those that reach the timeout. */
const makePosts = Effect.fnUntraced(function*(timeout: Duration.Duration, millis: () => number) {
  // In the order of their deadlines, because all have the same timeout.
  const posts = new Set<Post>()
  const interruptOverdue = Effect.sync(() => {
    const present = millis()
    for (const post of posts) {
      if (post.deadline > present) return
      posts.delete(post)
      post.isTimedOut = true
      post.fiber.interruptUnsafe()
    }
  })
  // A post that begins during the pause reaches its deadline after it.
  const untilNext = Effect.sync(() => {
    // A timer of a fraction of a millisecond would end before the deadline.
    for (const { deadline } of posts) return Duration.millis(Math.ceil(deadline - millis()))
    return timeout
  })
  yield* Worker.make({ name: "the timeout of webhooks", runOnce: interruptOverdue, interval: untilNext })
  return {
    begin: (fiber: Fiber.Fiber<unknown, unknown>): Post => {
      const post = { fiber, deadline: millis() + Duration.toMillis(timeout), isTimedOut: false }
      posts.add(post)
      return post
    },
    end: (post: Post) => void posts.delete(post)
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
  const isLoggingSuccess = yield* LogLevel.isEnabled("Debug")
  const present = () => fromNanos(clock.currentTimeNanosUnsafe())
  const millis = () => monotonicMillisOf(clock)
  const posts = yield* makePosts((yield* Settings).webhookTimeout, millis)

  /** Large bodies are read one at a time, because a body takes several times its size while it is read. */
  const reading = yield* Semaphore.make(1)
  const readBody = (delivery: ClaimedDelivery) =>
    reading.withPermit(
      store.body(delivery).pipe(Effect.flatMap(Effect.fromOption), Effect.map(encode))
    ).pipe(Effect.timeout(readTimeout))

  const end = (
    delivery: ClaimedDelivery,
    begun: number,
    response: Response,
    onOutcome: (outcome: AttemptOutcome) => void
  ): Effect.Effect<void> => {
    const { attempt, isLast, revision, taskId } = delivery
    const endedAt = present()
    const duration = millis() - begun
    Metrics.webhookAttempts.record(duration / 1000, response.error ?? "delivered")
    const report = (delay: Duration.Duration | undefined) => {
      const nextAttemptAt = delay === undefined ? null : plus(endedAt, delay)
      onOutcome({ taskId, revision, attempt, endedAt, duration: Math.round(duration), ...response, nextAttemptAt })
    }
    if (response.error !== null && !isLast) {
      return Effect.andThen(logAttempt(delivery, response.error), Effect.map(nextDelay(attempt), report))
    }
    report(undefined)
    return response.error === null && !isLoggingSuccess ? Effect.void : logAttempt(delivery, response.error)
  }

  return (delivery: ClaimedDelivery, onOutcome: (outcome: AttemptOutcome) => void) =>
    Effect.withFiber((fiber) => {
      const startedAt = present()
      const begun = millis()
      let post: Post | undefined
      const send = (body: Uint8Array, secret: Redacted.Redacted | undefined) => {
        const headers = headersOf(hmac, delivery, startedAt, body, secret)
        post = posts.begin(fiber)
        return sender.post(delivery.url, headers, body)
      }
      const sent = Effect.suspend(() => {
        Metrics.webhookLateness.record(Math.max(0, startedAt - delivery.dueAt) / 1_000_000)
        if (delivery.isAfterLost) Metrics.webhooksAbandoned.add(1)
        const secret = delivery.secret === null ? Effect.undefined : secrets.open(delivery.secret)
        return Effect.flatMap(secret, (secret) =>
          delivery.body === null
            ? Effect.flatMap(readBody(delivery), (body) => send(body, secret))
            : send(encode(delivery.body), secret))
      })
      return Effect.flatMap(Effect.exit(Effect.interruptible(sent)), (ended) => {
        if (post !== undefined) posts.end(post)
        const exit = Exit.isFailure(ended) && post?.isTimedOut === true ? timedOut : ended
        if (Exit.hasInterrupts(exit)) return exit
        const response = Exit.isSuccess(exit) ? responseOf(exit.value) : failed(errorOf(exit.cause))
        return Effect.andThen(end(delivery, begun, response, onOutcome), exit)
      })
    })
})
