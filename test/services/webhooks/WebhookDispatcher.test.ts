import { assert, describe, it } from "@effect/vitest"
import { Cause, Duration, Effect, Exit, Logger, Queue, Tracer } from "effect"
import { TestClock } from "effect/testing"
import { StoreUnavailable } from "../../../src/domain/StoreUnavailable.ts"
import type { TaskId } from "../../../src/domain/Task.ts"
import { deliveryId } from "../../../src/domain/Webhook.ts"
import * as Metrics from "../../../src/services/telemetry/Metrics.ts"
import { WebhookDispatcher } from "../../../src/services/webhooks/WebhookDispatcher.ts"
import { Webhooks } from "../../../src/services/webhooks/Webhooks.ts"
import { callerOf, type Post } from "../../kit/TestTasks.ts"
import { ann, complete, stateOf, withTarget } from "../../kit/WebhookTasks.ts"

const redeliver = (uuid: TaskId) =>
  Effect.gen(function*() {
    const webhooks = yield* Webhooks
    const [delivery] = yield* webhooks.ofTask(ann.principal, uuid)
    return yield* webhooks.redeliver(ann.principal, uuid, deliveryId(delivery!), undefined)
  })

describe("a webhook", () => {
  it.effect("is attempted five times with the same bytes, 10, 30, 60 and 120 s after the end of the previous attempt", () =>
    withTarget(() => Effect.delay(Effect.succeed(500), "3 seconds"), (core) =>
      Effect.gen(function*() {
        const uuid = yield* complete(core)
        yield* TestClock.adjust("10 minutes")
        const posts = yield* Queue.takeAll(core.posts)
        assert.strictEqual(posts.length, 5)
        const gaps = posts.slice(1).map(({ at }, index) => (at - (posts[index] as Post).at) / 1_000_000 - 3)
        for (const [index, base] of [10, 30, 60, 120].entries()) {
          assert.isAtLeast(gaps[index]!, base)
          assert.isAtMost(gaps[index]!, base * 1.2)
        }
        assert.strictEqual(new Set(posts.map(({ body }) => body)).size, 1)
        assert.strictEqual(new Set(posts.map(({ headers }) => headers["webhook-id"])).size, 1)
        assert.strictEqual(new Set(posts.map(({ headers }) => headers["webhook-timestamp"])).size, 5)
        assert.strictEqual(yield* stateOf(uuid), "failed")
      })))

  it.effect("times out when its target hangs, and ends at the first success", () => {
    let made = 0
    return withTarget(
      () => Effect.suspend(() => ++made === 1 ? Effect.never : Effect.succeed(299)),
      (core) =>
        Effect.gen(function*() {
          const uuid = yield* complete(core)
          yield* TestClock.adjust("10 minutes")
          assert.strictEqual(yield* Queue.size(core.posts), 2)
          const webhooks = yield* Webhooks
          const [delivery] = yield* webhooks.ofTask(ann.principal, uuid)
          assert.deepStrictEqual(
            delivery?.attempts.map(({ duration, error, responseStatus }) => [duration, responseStatus, error]),
            [[15_000, null, "timed_out"], [0, 299, null]]
          )
        })
    )
  })

  it.effect("is not delivered by a redirect or a defect", () => {
    let made = 0
    return withTarget(
      () =>
        Effect.suspend(() =>
          ++made === 1 ? Effect.succeed(302) : made === 2 ? Effect.die("broken") : Effect.succeed(200)
        ),
      (core) =>
        Effect.gen(function*() {
          const uuid = yield* complete(core)
          yield* TestClock.adjust("10 minutes")
          const webhooks = yield* Webhooks
          const [delivery] = yield* webhooks.ofTask(ann.principal, uuid)
          assert.deepStrictEqual(delivery?.attempts.map(({ error }) => error), ["redirected", "not_sent", null])
        })
    )
  })
})

describe("a webhook in an unknown format", () => {
  it.effect("fails after its attempts, without a request", () =>
    withTarget(
      () => assert.fail("sent"),
      (core) =>
        Effect.gen(function*() {
          const uuid = yield* complete(core, { callbackFormat: "unknown" })
          yield* TestClock.adjust("12 hours")
          const [delivery] = yield* (yield* Webhooks).ofTask(ann.principal, uuid)
          assert.strictEqual(delivery?.state, "failed")
          assert.lengthOf(delivery!.attempts, 5)
          for (const { error } of delivery!.attempts) assert.strictEqual(error, "not_sent")
        })
    ))
})

describe("an attempt that fails by a defect", () => {
  for (const field of ["isAfterLost", "isLast"] as const) {
    it.effect(`releases its permit when ${field} cannot be read`, () => {
      let broken = 20
      return withTarget(() => Effect.succeed(200), (core) =>
        Effect.gen(function*() {
          for (let n = 0; n < 20; n++) yield* complete(core, {}, callerOf(`u${n}`))
          yield* TestClock.adjust("1 second")
          const uuid = yield* complete(core)
          yield* TestClock.adjust("1 second")
          assert.strictEqual(yield* stateOf(uuid), "delivered")
        }), {
        withWebhooks: (webhooks) => ({
          ...webhooks,
          claim: (request) =>
            Effect.map(webhooks.claim(request), ({ deliveries, ...rest }) => ({
              deliveries: deliveries.map((delivery) => {
                if (broken-- <= 0) return delivery
                return Object.defineProperty({ ...delivery }, field, { get: () => assert.fail("broken") })
              }),
              ...rest
            }))
        })
      })
    })
  }
})

it.effect("the span of an attempt that times out ends with an error that names the timeout", () => {
  const spans: Array<Tracer.Span> = []
  const tracer = Tracer.make({
    span: (options) => {
      const span = new Tracer.NativeSpan(options)
      if (span.name === "webhook attempt") spans.push(span)
      return span
    }
  })
  return withTarget(() => Effect.never, (core) =>
    Effect.gen(function*() {
      yield* complete(core)
      yield* TestClock.adjust("20 seconds")
      const [status] = spans.map(({ status }) => status)
      const exit = status?._tag === "Ended" ? status.exit : Exit.void
      assert.isFalse(Exit.hasInterrupts(exit))
      assert.include(Exit.isFailure(exit) ? Cause.pretty(exit.cause) : "", "timed_out")
    })).pipe(Effect.withTracer(tracer))
})

it.effect("a delivery whose attempts are all lost fails with a warning and counts each of them", () => {
  const logged: Array<unknown> = []
  const logger = Logger.make(({ logLevel, message }) => logLevel === "Warn" && logged.push(message))
  return withTarget(() => Effect.succeed(200), (core) =>
    Effect.gen(function*() {
      const before = Metrics.webhooksAbandoned.count()
      const uuid = yield* complete(core)
      yield* TestClock.adjust("10 minutes")
      assert.strictEqual(yield* stateOf(uuid), "failed")
      assert.deepStrictEqual(logged, [["webhook attempt 5: lost"]])
      assert.strictEqual(Metrics.webhooksAbandoned.count() - before, 5)
    }), { withWebhooks: (webhooks) => ({ ...webhooks, recordOutcomes: () => Effect.void }) }).pipe(
      Effect.provide(Logger.layer([logger]))
    )
})

describe("an outage of the store that is longer than the lease of a last attempt", () => {
  // The pauses of retries end at different moments after it.
  for (const seconds of [99, 99.5, 100, 100.5]) {
    it.effect(`of ${seconds} s does not report an attempt as lost whose outcome is recorded after it`, () => {
      const logged: Array<unknown> = []
      const logger = Logger.make(({ logLevel, message }) => logLevel === "Warn" && logged.push(message))
      let status = 500
      let isAway = false
      const unlessAway = <A>(effect: Effect.Effect<A, StoreUnavailable>) =>
        Effect.suspend(() => isAway ? Effect.fail(new StoreUnavailable({ cause: "connection lost" })) : effect)
      return withTarget(() => Effect.delay(Effect.sync(() => status), "3 seconds"), (core) =>
        Effect.gen(function*() {
          const uuid = yield* complete(core)
          yield* TestClock.adjust("10 minutes")
          assert.strictEqual(yield* stateOf(uuid), "failed")
          logged.length = 0
          const before = Metrics.webhooksAbandoned.count()
          status = 200
          yield* redeliver(uuid)
          yield* TestClock.adjust("1 second")
          isAway = true
          yield* TestClock.adjust(Duration.seconds(seconds))
          isAway = false
          yield* TestClock.adjust("1 minute")
          assert.strictEqual(yield* stateOf(uuid), "delivered")
          assert.deepStrictEqual(logged, [])
          assert.strictEqual(Metrics.webhooksAbandoned.count(), before)
        }), {
        withWebhooks: (webhooks) => ({
          ...webhooks,
          claim: (request) => unlessAway(webhooks.claim(request)),
          endLost: (at) => unlessAway(webhooks.endLost(at)),
          recordOutcomes: (outcomes) => unlessAway(webhooks.recordOutcomes(outcomes))
        })
      }).pipe(Effect.provide(Logger.layer([logger])))
    })
  }
})

it.effect("an outage of the store that is longer than a lease repeats no attempt whose outcome is recorded after it", () => {
  let isAway = false
  const unlessAway = <A>(effect: Effect.Effect<A, StoreUnavailable>) =>
    Effect.suspend(() => isAway ? Effect.fail(new StoreUnavailable({ cause: "connection lost" })) : effect)
  return withTarget(() => Effect.delay(Effect.succeed(200), "3 seconds"), (core) =>
    Effect.gen(function*() {
      for (const seconds of [50, 50.5, 51, 51.5]) {
        const before = Metrics.webhooksAbandoned.count()
        const uuid = yield* complete(core)
        yield* TestClock.adjust("1 second")
        isAway = true
        yield* TestClock.adjust(Duration.seconds(seconds))
        isAway = false
        yield* TestClock.adjust("1 minute")
        assert.strictEqual(yield* stateOf(uuid), "delivered")
        assert.lengthOf(yield* Queue.clear(core.posts), 1)
        assert.strictEqual(Metrics.webhooksAbandoned.count(), before)
      }
    }), {
    withWebhooks: (webhooks) => ({
      ...webhooks,
      claim: (request) => unlessAway(webhooks.claim(request)),
      endLost: (at) => unlessAway(webhooks.endLost(at)),
      recordOutcomes: (outcomes) => unlessAway(webhooks.recordOutcomes(outcomes))
    })
  })
})

describe("the delivery log", () => {
  it.effect("lets the user redeliver a failed webhook, and a delivered one only with its secret", () => {
    let made = 0
    return withTarget(() => Effect.sync(() => made++ < 5 ? 500 : 204), (core) =>
      Effect.gen(function*() {
        const uuid = yield* complete(core)
        yield* TestClock.adjust(Duration.minutes(10))
        assert.strictEqual(yield* stateOf(uuid), "failed")
        yield* redeliver(uuid)
        yield* Queue.takeN(core.posts, 6)
        yield* TestClock.adjust("1 second")
        assert.strictEqual(yield* stateOf(uuid), "delivered")
        assert.strictEqual((yield* Effect.flip(redeliver(uuid)))._tag, "DeliveryNeedsSecret")
      }))
  })
})

describe("a draining node", () => {
  it.effect("begins no more attempts and waits for those in flight", () =>
    withTarget(() => Effect.delay(Effect.succeed(200), "2 seconds"), (core) =>
      Effect.gen(function*() {
        const dispatcher = yield* WebhookDispatcher
        const uuid = yield* complete(core)
        yield* Queue.take(core.posts)
        const drained = yield* Effect.forkChild(dispatcher.drain)
        yield* complete(core)
        yield* TestClock.adjust("1 second")
        assert.isUndefined(drained.pollUnsafe())
        yield* TestClock.adjust("1 second")
        assert.isDefined(drained.pollUnsafe())
        assert.strictEqual(yield* stateOf(uuid), "delivered")
        yield* TestClock.adjust("10 minutes")
        assert.strictEqual(yield* Queue.size(core.posts), 0)
      })))
})
