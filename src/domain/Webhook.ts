/**
 * A webhook delivery: the changes that cause one, and the schedule of its attempts. The schedule has no state besides
 * the number of attempts made, which is persisted, so any node can continue a delivery that another node began.
 */
import { Duration, Effect, Pull, Random, Schedule, Schema } from "effect"
import * as Limits from "./Limits.ts"
import { isTaskId, isTerminal, TaskId, TaskStatus } from "./Task.ts"
import { Timestamp } from "./Timestamp.ts"

/** Whether a change to this status is delivered by webhook. */
export const sendsWebhook = (status: TaskStatus): boolean => isTerminal(status) || status === "interrupted"

/** Identifies a delivery by the task and the revision that it reports. */
export interface DeliveryKey {
  readonly taskId: TaskId
  readonly revision: number
}

/** The public id of a delivery, sent as `webhook-id`. */
export const deliveryId = ({ revision, taskId }: DeliveryKey): string => `${taskId}-${revision}`

/** Parses the public id of a delivery; undefined when the text is not one. */
export const parseDeliveryId = (text: string): DeliveryKey | undefined => {
  const [, taskId, revision] = /^(.{36})-(\d{1,9})$/.exec(text) ?? []
  return isTaskId(taskId) ? { taskId, revision: Number(revision) } : undefined
}

/** The origin that a delivery goes to. Concurrency is limited per origin. */
export const originOf = (url: string): string => new URL(url).origin

export const AttemptError = Schema.Literals([
  /** Webhooks may not go to this host or address. */
  "address_refused",
  "name_not_resolved",
  "connection_failed",
  "tls_failed",
  "timed_out",
  /** The response was not valid HTTP. */
  "broken_answer",
  "redirected",
  "not_2xx",
  /** The node that made the attempt stopped before it knew the outcome. */
  "lost",
  /** A fault of this service prevented the attempt. */
  "not_sent"
])
export type AttemptError = typeof AttemptError.Type

/** Any 2xx is a success (null). A redirect is a failure and is not followed. */
export const errorOfStatus = (status: number): AttemptError | null => {
  if (status >= 200 && status < 300) return null
  return status >= 300 && status < 400 ? "redirected" : "not_2xx"
}

const mebibytes = Limits.webhookBytes / 1024 ** 2

/** Advice for a status of a receiver; undefined where only the receiver knows. */
export const hintOf = (status: number | null): string | undefined =>
  status !== 413 ?
    undefined :
    `The receiver takes no body of this size. Raise the limit of its framework, and of the proxy in front of it, to ${mebibytes} MiB, `
    + "and redeliver the webhook."

/** One POST of a delivery. */
export const DeliveryAttempt = Schema.Struct({
  /** From 1. */
  number: Schema.Int,
  startedAt: Timestamp,
  /** Milliseconds; null while the attempt is in flight, or when it was lost. */
  duration: Schema.NullOr(Schema.Int),
  responseStatus: Schema.NullOr(Schema.Int),
  error: Schema.NullOr(AttemptError)
})
export type DeliveryAttempt = typeof DeliveryAttempt.Type

export const DeliveryState = Schema.Literals(["pending", "delivered", "failed"])
export type DeliveryState = typeof DeliveryState.Type

/** A row of the delivery log, with its `DeliveryKey`. */
export const Delivery = Schema.Struct({
  taskId: TaskId,
  revision: Schema.Int,
  status: TaskStatus,
  state: DeliveryState,
  origin: Schema.String,
  createdAt: Timestamp,
  /** Null when no attempt is scheduled, or one is in flight. */
  nextAttemptAt: Schema.NullOr(Timestamp),
  attempts: Schema.Array(DeliveryAttempt)
})
export type Delivery = typeof Delivery.Type

/** The delays between the attempts of a delivery, from the end of one to the begin of the next. */
export type Delays = Schedule.Schedule<Duration.Duration>

/** The delays between the 5 attempts: 10, 30, 60 and 120 s. */
const schedule: Delays = Schedule.duration("10 seconds").pipe(
  Schedule.concat(Schedule.duration("30 seconds")),
  Schedule.concat(Schedule.duration("60 seconds")),
  Schedule.concat(Schedule.duration("120 seconds"))
)

/**
 * Adds 1 to 5 % jitter, so that a recovered target does not receive every retry together. The minimum of 1 % keeps a
 * delay from being shorter when the clocks of two nodes differ by milliseconds.
 */
const spread = (by: Delays) =>
  Schedule.modifyDelay(
    by,
    ({ duration }) => Effect.map(Random.next, (share) => Duration.times(duration, 1.01 + share / 25))
  )

/** Replays a fresh schedule up to the given number of attempts; undefined when the schedule has ended. */
const delayAfter = Effect.fnUntraced(function*(by: Delays, attempts: number) {
  const step = yield* Schedule.toStep(by)
  let delay: Duration.Duration | undefined
  for (let attempt = 1; attempt <= attempts; attempt++) {
    delay = yield* step(0, undefined).pipe(
      Effect.map(([, next]): Duration.Duration | undefined => next),
      Pull.catchDone(() => Effect.undefined)
    )
  }
  return delay
})

/** The delay from the end of attempt `attempts` to the next one; undefined when that was the last. */
export const nextDelay = (attempts: number, by: Delays = schedule): Effect.Effect<Duration.Duration | undefined> =>
  delayAfter(spread(by), attempts)

/** The delays without jitter, in order. */
export const delaysOf = Effect.fnUntraced(function*(by: Delays) {
  const found: Array<Duration.Duration> = []
  for (;;) {
    const delay = yield* delayAfter(by, found.length + 1)
    if (delay === undefined) return found
    found.push(delay)
  }
})

export const delays: Effect.Effect<ReadonlyArray<Duration.Duration>> = delaysOf(schedule)

export class DeliveryNotFound extends Schema.TaggedError<DeliveryNotFound>()("DeliveryNotFound", {}) {
  override get message() {
    return "There is no such delivery."
  }
}

/** The user has used up the redeliveries of the last minute. */
export class TooManyRedeliveries extends Schema.TaggedError<TooManyRedeliveries>()("TooManyRedeliveries", {}) {
  override get message() {
    return `Too many redeliveries. The maximum is ${Limits.redeliveries} in a burst, then one each second.`
  }
}

/** The user may not redeliver this delivery again. */
export class DeliveryExhausted extends Schema.TaggedError<DeliveryExhausted>()("DeliveryExhausted", {}) {
  override get message() {
    return `The webhook was sent ${Limits.maxWebhookAttempts} times, which is the maximum.`
  }
}

/** A success deletes the secret of a delivery, so another attempt can only be signed if the secret is given again. */
export class DeliveryNeedsSecret extends Schema.TaggedError<DeliveryNeedsSecret>()("DeliveryNeedsSecret", {}) {
  override get message() {
    return "The webhook was delivered, which deleted its secret. Send callback_secret to sign and send it again."
  }
}
