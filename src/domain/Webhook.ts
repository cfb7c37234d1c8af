/**
 * A webhook delivery: which changes owe one, and when its attempts are made (SPEC "Events", CONTRACT 7). The number of
 * attempts made, which is persisted, is all the state that the schedule has: any node goes on where another stood.
 */
import { Duration, Effect, Pull, Random, Schedule, Schema } from "effect"
import * as Limits from "./Limits.ts"
import { isTerminal, TaskId, type TaskStatus } from "./Task.ts"
import { Timestamp } from "./Timestamp.ts"

/** The statuses that are told by webhook. */
export const owesWebhook = (status: TaskStatus): boolean => isTerminal(status) || status === "interrupted"

/** One change of one task names the delivery that tells it. */
export interface DeliveryKey {
  readonly taskId: TaskId
  readonly revision: number
}

/** The public id of a delivery, and its `webhook-id`. */
export const deliveryId = ({ revision, taskId }: DeliveryKey): string => `${taskId}-${revision}`

/** The delivery that an id names; undefined when it cannot name any. */
export const parseDeliveryId = (text: string): DeliveryKey | undefined => {
  const [, taskId, revision] = /^(.{36})-(\d{1,9})$/.exec(text) ?? []
  return Schema.is(TaskId)(taskId) ? { taskId, revision: Number(revision) } : undefined
}

/** Where deliveries go, for the bounds that each such place has. */
export const originOf = (url: string): string => new URL(url).origin

/** What went wrong with an attempt, as a class. */
export const AttemptError = Schema.Literals([
  /** The name, or the address itself, is not one that webhooks may go to. */
  "address_refused",
  "name_not_resolved",
  "connection_failed",
  "tls_failed",
  "timed_out",
  /** What came back was not HTTP. */
  "broken_answer",
  "redirected",
  "not_2xx",
  /** The node that made the attempt ended before it knew the outcome. */
  "lost",
  /** The service itself could not make the attempt. */
  "not_sent"
])
export type AttemptError = typeof AttemptError.Type

/** SPEC "Events": any 2xx is a success. */
export const errorOfStatus = (status: number): AttemptError | null => {
  if (status >= 200 && status < 300) return null
  return status >= 300 && status < 400 ? "redirected" : "not_2xx"
}

/** One POST. */
export const DeliveryAttempt = Schema.Struct({
  /** From 1. */
  number: Schema.Int,
  startedAt: Timestamp,
  /** Milliseconds; null while it is under way, or lost. */
  duration: Schema.NullOr(Schema.Int),
  responseStatus: Schema.NullOr(Schema.Int),
  error: Schema.NullOr(AttemptError)
})
export type DeliveryAttempt = typeof DeliveryAttempt.Type

export const DeliveryState = Schema.Literals(["pending", "delivered", "failed"])
export type DeliveryState = typeof DeliveryState.Type

/** A line of the ledger. */
export interface Delivery extends DeliveryKey {
  readonly status: TaskStatus
  readonly state: DeliveryState
  readonly origin: string
  readonly createdAt: Timestamp
  /** Null when none is to come, or one is under way. */
  readonly nextAttemptAt: Timestamp | null
  readonly attempts: ReadonlyArray<DeliveryAttempt>
}

/** SPEC "Limits": 5 attempts, the back-off 10, 30, 60 and 120 s. */
export const schedule = Schedule.duration("10 seconds").pipe(
  Schedule.concat(Schedule.duration("30 seconds")),
  Schedule.concat(Schedule.duration("60 seconds")),
  Schedule.concat(Schedule.duration("120 seconds"))
)

/**
 * A hundredth to a twentieth longer: a returning target is not met by all at once, and a delay is never shorter although
 * the clocks of two nodes differ by milliseconds.
 */
const spread = Schedule.modifyDelay(
  schedule,
  ({ duration }) => Effect.map(Random.next, (share) => Duration.times(duration, 1.01 + share / 25))
)

/** Replays a fresh schedule up to the attempts made; undefined when it has ended. */
const delayAfter = Effect.fnUntraced(function*(by: typeof schedule, attempts: number) {
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

/** How long after the end of attempt `attempts` the next one comes; undefined when that was the last. */
export const nextDelay = (attempts: number): Effect.Effect<Duration.Duration | undefined> =>
  delayAfter(spread, attempts)

/** The delays without their spread, in order. */
export const delays: Effect.Effect<ReadonlyArray<Duration.Duration>> = Effect.gen(function*() {
  const found: Array<Duration.Duration> = []
  for (;;) {
    const delay = yield* delayAfter(schedule, found.length + 1)
    if (delay === undefined) return found
    found.push(delay)
  }
})

export class DeliveryNotFound extends Schema.TaggedError<DeliveryNotFound>()("DeliveryNotFound", {}) {
  override get message() {
    return "There is no such delivery."
  }
}

/** The user has requested as many redeliveries as fit into the last minute. */
export class TooManyRedeliveries extends Schema.TaggedError<TooManyRedeliveries>()("TooManyRedeliveries", {}) {
  override get message() {
    return `Too many webhooks are sent again. The maximum is ${Limits.redeliveries} at once, and then one each second.`
  }
}

/** The user may not have it sent once more. */
export class DeliveryExhausted extends Schema.TaggedError<DeliveryExhausted>()("DeliveryExhausted", {}) {
  override get message() {
    return `The webhook was sent ${Limits.webhookAttemptsByHand} times. It is not sent again.`
  }
}

/** It was delivered, and its secret went with that: it can only be signed with the secret given again. */
export class DeliveryNeedsSecret extends Schema.TaggedError<DeliveryNeedsSecret>()("DeliveryNeedsSecret", {}) {
  override get message() {
    return "The webhook was delivered, and its secret was deleted then. Give callback_secret to have it signed and sent again."
  }
}
