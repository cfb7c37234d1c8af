/**
 * Sends the deliveries of endpoints by the dispatcher of webhooks, within limits of their own: an endpoint that hangs delays no `callback_url`.
 * Also keeps the log and the backlog within their bounds.
 */
import { Array as Arr, Context, Duration, Effect, Exit, Latch, Layer, Redacted } from "effect"
import { encode, fromText } from "../../domain/json/OpaqueJson.ts"
import type { StoreUnavailable } from "../../domain/StoreUnavailable.ts"
import {
  format as formatMoment,
  monotonicMillis,
  now,
  plus,
  type Timestamp,
  unixSeconds
} from "../../domain/Timestamp.ts"
import { delaysOf, type DeliveryAttempt, errorOfStatus, nextDelay } from "../../domain/Webhook.ts"
import { standardKey, standardPrefix } from "../../domain/WebhookSignature.ts"
import { Settings } from "../settings/Settings.ts"
import { Changes } from "../signals/Changes.ts"
import * as ScanFloor from "../timing/ScanFloor.ts"
import * as Worker from "../timing/Worker.ts"
import { Secrets } from "../tokens/Secrets.ts"
import type { Outbox } from "../webhooks/WebhookAttempts.ts"
import { dispatch } from "../webhooks/WebhookDispatcher.ts"
import { HmacSha256 } from "../webhooks/WebhookHeaders.ts"
import { WebhookSender } from "../webhooks/WebhookSender.ts"
import {
  delays,
  DisabledReason,
  eventId,
  eventStatuses,
  keptWhileDisabled,
  limits,
  type SealedSecrets,
  secretPurpose,
  typeOf
} from "./Endpoint.ts"
import * as Metrics from "./EndpointMetrics.ts"
import { type Disabled, type EndpointDelivery, EndpointsStore, type Sample } from "./EndpointsStore.ts"

/** Attempts in flight on this node; see `AttemptLimiter`. */
const bounds = { total: 256, reserved: 128, smallest: 8, largest: 64 }

/** Opened secrets that are kept: two of each endpoint that there may be. */
const keptSecrets = 200
/** Rows that a statement of the upkeep reads or changes. */
const pageRows = 1000
/** The backlog is counted for at most a tenth of the time. */
const pauseOfCount = 9

export interface Options {
  /** `source` of CloudEvents: what identifies this service. */
  readonly source: string
  readonly retention: Duration.Duration
  /** Bytes of pending bodies. */
  readonly backlog: number
  /** The longest pause between two rounds of upkeep. */
  readonly upkeepInterval: Duration.Duration
}

export class EndpointOutbox extends Context.Service<EndpointOutbox, {
  /** A delivery that is due since a moment may have been committed, or an event to read; by default since any. */
  readonly wake: (since?: Timestamp) => void
  /** Makes endpoints go on that were enabled. */
  readonly resume: Effect.Effect<void, StoreUnavailable>
  /** Completes at the next `wake`. */
  readonly next: () => Effect.Effect<void>
  /** One attempt to send a sample, now. */
  readonly send: (
    secrets: SealedSecrets,
    url: string,
    sample: Sample | Omit<Sample, "attempt">
  ) => Effect.Effect<DeliveryAttempt>
}>()("async-task-service/services/endpoints/EndpointOutbox") {
  static readonly layer = (options: Options) => Layer.effect(EndpointOutbox, make(options))
}

/** Returns a function that returns the headers of an attempt. Both secrets sign while the old one does. */
const makeHeadersOf = Effect.fnUntraced(function*(source: string) {
  const secrets = yield* Secrets
  const hmac = yield* HmacSha256
  const opened = new Map<string, Uint8Array>()

  const keyOf = Effect.fnUntraced(function*(sealed: string) {
    const known = opened.get(sealed)
    if (known !== undefined) return known
    const key = standardKey(Redacted.value(yield* secrets.open(secretPurpose, sealed)))
    if (opened.size >= keptSecrets) opened.clear()
    opened.set(sealed, key)
    return key
  })

  return Effect.fnUntraced(function*(
    { format, happenedAt, oldSecret, oldSecretUntil, revision, secret, status, taskId }:
      & Pick<EndpointDelivery, "format" | "happenedAt" | "revision" | "status" | "taskId">
      & SealedSecrets,
    at: Timestamp,
    body: Uint8Array
  ) {
    const id = eventId({ taskId, revision })
    const second = String(unixSeconds(at))
    const isOldValid = oldSecret !== null && oldSecretUntil !== null && at < oldSecretUntil
    const sign = (sealed: string) =>
      Effect.map(keyOf(sealed), (key) => `v1,${hmac(key, [standardPrefix(id, second), body], "base64")}`)
    const signatures = [yield* sign(secret)]
    // One that cannot be opened any more, because its key is gone, keeps nothing from being sent.
    if (isOldValid) {
      signatures.push(...yield* Effect.catchDefect(Effect.map(sign(oldSecret), Arr.of), () => Effect.succeed([])))
    }
    const headers: Readonly<Record<string, string>> = {
      "content-type": "application/json",
      "user-agent": "async-task-service",
      "webhook-id": id,
      "webhook-timestamp": second,
      "webhook-signature": signatures.join(" ")
    }
    return format !== "cloudevents" ? headers : {
      ...headers,
      "ce-specversion": "1.0",
      "ce-id": id,
      "ce-source": source,
      "ce-type": typeOf(status),
      "ce-subject": taskId,
      "ce-time": formatMoment(happenedAt)
    }
  })
})

const logDisabled = ({ id, reason, url }: Disabled) => {
  Metrics.disabled.add(1, reason)
  const why = reason === "gone" ? "its receiver responded with 410" : "no attempt succeeded for 72 hours"
  return Effect.annotateLogs(
    Effect.logWarning(
      `a webhook endpoint was disabled: ${why}. PATCH it with {"disabled": false} when its receiver works`
    ),
    { endpoint: id, url: url === null ? null : new URL(url).origin }
  )
}

/** Repeats a deletion until it finds less than it may. */
const repeatFull = <E>(deletion: Effect.Effect<number, E>) =>
  Effect.gen(function*() {
    let sum = 0
    for (;;) {
      const count = yield* deletion
      sum += count
      if (count < pageRows) return sum
    }
  })

/** The id of the key that sealed a secret. */
const keyIdOf = (sealed: string) => sealed.split(".")[1]

/** Seals each secret again that the first key has not sealed, so that the others can be removed: endpoints do not end like tasks. */
const makeReseal = Effect.gen(function*() {
  const store = yield* EndpointsStore
  const secrets = yield* Secrets
  return Effect.gen(function*() {
    const present = keyIdOf(yield* secrets.seal(secretPurpose, Redacted.make("")))
    for (const { id, oldSecret, secret } of yield* store.list(null, limits.endpoints)) {
      for (const sealed of oldSecret === null ? [secret] : [secret, oldSecret]) {
        if (keyIdOf(sealed) === present) continue
        yield* secrets.open(secretPurpose, sealed).pipe(
          Effect.flatMap((opened) => secrets.seal(secretPurpose, opened)),
          Effect.flatMap((resealed) => store.replaceSecret(sealed, resealed)),
          Effect.catchDefect((cause) =>
            Effect.logError(
              `the secret of the webhook endpoint ${id} cannot be opened: rotate it, or bring its ENCRYPTION_KEY back`,
              cause
            )
          )
        )
      }
    }
  })
})

/** `onCount` gets the number of endpoints. */
const makeUpkeep = Effect.fnUntraced(function*(
  { backlog, retention }: Options,
  resume: EndpointOutbox["Service"]["resume"],
  onCount: (count: number) => void
) {
  const store = yield* EndpointsStore

  const report = Effect.fnUntraced(function*(at: Timestamp) {
    const counts = new Map<string, number>()
    let oldest: number = at
    const health = yield* store.health
    onCount(health.length)
    for (const { disabledReason, failingSince, oldestDue } of health) {
      const state = disabledReason ?? (failingSince === null ? "enabled" : "failing")
      counts.set(state, (counts.get(state) ?? 0) + 1)
      oldest = Math.min(oldest, oldestDue ?? at)
    }
    for (const state of ["enabled", "failing", ...DisabledReason.literals]) {
      Metrics.endpoints.set(counts.get(state) ?? 0, state)
    }
    Metrics.overdue.set((at - oldest) / 1_000_000)
  })

  const drop = Effect.fnUntraced(
    function*<E>(reason: "backlog" | "too_old", why: string, dropping: Effect.Effect<number, E>) {
      const count = yield* dropping
      if (count === 0) return
      Metrics.dropped.add(count, reason)
      yield* Effect.logWarning(`${count} deliveries to webhook endpoints were given up: ${why}`)
    }
  )

  let countFrom = -Infinity
  const dropBacklog = Effect.gen(function*() {
    const begun = yield* monotonicMillis
    if (begun < countFrom) return 0
    const count = yield* store.dropBacklog(backlog, pageRows)
    const ended = yield* monotonicMillis
    countFrom = ended + pauseOfCount * (ended - begun)
    return count
  })

  const reseal = yield* makeReseal
  let isResealed = false

  return Effect.gen(function*() {
    const at = yield* now
    const before = (age: Duration.Duration) => plus(at, Duration.negate(age))
    const steps = [
      report(at),
      resume,
      drop(
        "too_old",
        "their endpoint was disabled or unread for 7 days",
        store.dropOld(before(keptWhileDisabled), pageRows)
      ),
      drop(
        "backlog",
        `what is pending had more than ${backlog} bytes (WEBHOOK_ENDPOINT_BACKLOG)`,
        dropBacklog
      ),
      repeatFull(store.deleteBefore(before(retention), pageRows)),
      isResealed ? Effect.void : Effect.tap(reseal, () => Effect.sync(() => void (isResealed = true)))
    ]
    // One that fails keeps no other from its work.
    const exits = yield* Effect.forEach(steps, (step) => Effect.exit(Effect.asVoid(step)))
    yield* Exit.asVoidAll(exits)
  })
})

const make = Effect.fnUntraced(function*(options: Options) {
  const store = yield* EndpointsStore
  const sender = yield* WebhookSender
  const changes = yield* Changes
  const { webhookTimeout } = yield* Settings
  const headersOf = yield* makeHeadersOf(options.source)

  const pending = Latch.makeUnsafe()
  const floor = ScanFloor.make()
  let signal = Latch.makeUnsafe()
  /** False while there are no endpoints: then no event of a task makes a delivery. Another node may have added the first one since. */
  let hasEndpoints = true
  const wake = (since = ScanFloor.lowest) => {
    floor.lower(since)
    store.outbox.committed(since)
    pending.openUnsafe()
    const before = signal
    signal = Latch.makeUnsafe()
    before.openUnsafe()
  }
  yield* changes.relay((_, head) => {
    if (!hasEndpoints || (head !== undefined && !eventStatuses.includes(head.status))) return
    wake(head?.lastEventAt ?? undefined)
  })

  const outbox: Outbox<EndpointDelivery> = {
    name: "endpoints",
    store: {
      ...store.outbox,
      recordOutcomes: (outcomes) =>
        Effect.flatMap(
          store.outbox.recordOutcomes(outcomes),
          (disabled) => Effect.forEach(disabled, logDisabled, { discard: true })
        )
    },
    headersOf,
    nextDelay: ({ attempt, attemptsBefore }) => nextDelay(attempt - attemptsBefore, delays),
    delays: yield* delaysOf(delays),
    metrics: { attempted: Metrics.attempts.record, late: Metrics.lateness.record, abandoned: Metrics.abandoned.add }
  }
  const resume = Effect.tap(store.resume(pageRows), () => Effect.sync(() => wake()))
  const { drain } = yield* dispatch(outbox, bounds, { pending, floor })
  yield* Effect.addFinalizer(() => drain)

  const interval = Duration.clamp(Duration.divideUnsafe(options.retention, 10), {
    minimum: Duration.seconds(1),
    maximum: options.upkeepInterval
  })
  yield* Worker.make({
    name: "the upkeep of webhook endpoints",
    interval,
    runOnce: yield* makeUpkeep(options, resume, (count) => hasEndpoints = count > 0)
  })

  return EndpointOutbox.of({
    wake: (since) => {
      hasEndpoints = true
      wake(since)
    },
    resume,
    next: () => signal.await,
    send: Effect.fnUntraced(function*(secrets, url, sample) {
      const startedAt = yield* now
      const begun = yield* monotonicMillis
      const body = encode(fromText(sample.body))
      const headers = yield* headersOf({ ...sample, ...secrets }, startedAt, body)
      const outcome = yield* sender.post(url, headers, body).pipe(
        Effect.map((status) => ({ responseStatus: status, error: errorOfStatus(status) })),
        Effect.timeoutOrElse({
          duration: webhookTimeout,
          orElse: () => Effect.succeed({ responseStatus: null, error: "timed_out" as const })
        }),
        Effect.catch(({ error }) => Effect.succeed({ responseStatus: null, error }))
      )
      return { number: 1, startedAt, duration: Math.round((yield* monotonicMillis) - begun), ...outcome }
    })
  })
})
