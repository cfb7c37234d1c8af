import { assert, describe, it } from "@effect/vitest"
import { Cause, Duration, Effect, Exit, Layer, Logger, Queue, Tracer } from "effect"
import { TestClock } from "effect/testing"
import { StoreUnavailable } from "../../../src/domain/StoreUnavailable.ts"
import type { TaskId } from "../../../src/domain/Task.ts"
import { deliveryId } from "../../../src/domain/Webhook.ts"
import { Tasks } from "../../../src/services/Tasks.ts"
import * as Metrics from "../../../src/services/telemetry/Metrics.ts"
import { Webhooks } from "../../../src/services/Webhooks.ts"
import { WebhookDispatcher } from "../../../src/services/webhooks/WebhookDispatcher.ts"
import { DeliveryError } from "../../../src/services/webhooks/WebhookSender.ts"
import { callerOf, type CoreScript, makeTestTasks, type Post, question, reportTo } from "../../kit/TestTasks.ts"

const ann = callerOf("ann")
const secret = "a secret of the tests"
const url = "https://target.example/hook"

type Core = Effect.Success<ReturnType<typeof makeTestTasks>>

const withTarget = <A, E>(
  onPost: NonNullable<CoreScript["onPost"]>,
  body: (core: Core) => Effect.Effect<A, E, Tasks | Webhooks | WebhookDispatcher>,
  faults: Pick<CoreScript, "withWebhooks"> = {}
) =>
  Effect.flatMap(
    makeTestTasks({ onStart: () => Effect.void, onPost, ...faults }),
    (core) => body(core).pipe(Effect.provide(Layer.fresh(core.layer)))
  )

let eventNumber = 0

/** Creates a task and lets the core complete it. */
const complete = Effect.fnUntraced(function*(core: Core, more: object = {}, caller = ann, text = "é") {
  const tasks = yield* Tasks
  const { uuid } = yield* tasks.create(caller, { ...question, callback_url: url, callback_secret: secret, ...more })
  const run = yield* Queue.take(core.starts)
  const turn = { output: [{ type: "text", text }], messages: [], metadata: {} }
  yield* reportTo(tasks, { task_id: uuid, run_id: run.runId, event_id: `e${++eventNumber}`, type: "completed", turn })
  return uuid
})

const stateOf = (uuid: TaskId) =>
  Effect.flatMap(Webhooks, (webhooks) => webhooks.ofTask(ann.principal, uuid)).pipe(
    Effect.map(([delivery]) => delivery?.state)
  )

describe("a webhook", () => {
  it.effect("is unsigned without a secret and not sent without a callback URL", () =>
    withTarget(() => Effect.succeed(200), (core) =>
      Effect.gen(function*() {
        yield* complete(core, { callback_url: null })
        yield* complete(core, { callback_secret: null })
        const post = yield* Queue.take(core.posts)
        assert.notProperty(post.headers, "x-signature")
        assert.notProperty(post.headers, "webhook-signature")
        yield* TestClock.adjust("1 hour")
        assert.strictEqual(yield* Queue.size(core.posts), 0)
      })))

  it.effect("is attempted five times with the same bytes, 10, 30, 60 and 120 s after the end of the previous attempt", () =>
    withTarget(() => Effect.delay(Effect.succeed(500), "3 seconds"), (core) =>
      Effect.gen(function*() {
        const uuid = yield* complete(core)
        yield* TestClock.adjust("1 hour")
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
          yield* TestClock.adjust("1 hour")
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
          yield* TestClock.adjust("1 hour")
          const webhooks = yield* Webhooks
          const [delivery] = yield* webhooks.ofTask(ann.principal, uuid)
          assert.deepStrictEqual(delivery?.attempts.map(({ error }) => error), ["redirected", "not_sent", null])
        })
    )
  })
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
            Effect.map(webhooks.claim(request), ({ deliveries, hasMore }) => ({
              deliveries: deliveries.map((delivery) => {
                if (broken-- <= 0) return delivery
                return Object.defineProperty({ ...delivery }, field, { get: () => assert.fail("broken") })
              }),
              hasMore
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

describe("a responding origin", () => {
  it.effect("receives all pending deliveries in bursts, without waiting for the next poll", () =>
    withTarget(() => Effect.succeed(200), (core) =>
      Effect.gen(function*() {
        const webhooks = yield* Webhooks
        for (let n = 0; n < 300; n++) yield* complete(core, {}, callerOf(`u${n}`))
        yield* TestClock.adjust("1 second")
        yield* Queue.takeN(core.posts, 300)
        // The origin is proven now, and idle.
        for (const delivery of yield* webhooks.find({ limit: 300 })) {
          yield* webhooks.redeliverAny(deliveryId(delivery)).pipe(Effect.flip)
        }
        for (let n = 0; n < 300; n++) yield* complete(core, {}, callerOf(`v${n}`))
        yield* Queue.takeN(core.posts, 300)
      })))

  it.effect("receives at most 128 at a time, however many are due", () => {
    let inFlight = 0
    let most = 0
    const respond = Effect.sync(() => {
      most = Math.max(most, ++inFlight)
    }).pipe(Effect.andThen(Effect.delay(Effect.sync(() => (inFlight -= 1, 200)), "1 second")))
    return withTarget(() => respond, (core) =>
      Effect.gen(function*() {
        for (let n = 0; n < 600; n++) yield* complete(core, {}, callerOf(`u${n}`))
        yield* TestClock.adjust("15 seconds")
        assert.strictEqual(yield* Queue.size(core.posts), 600)
        assert.strictEqual(most, 128)
      }))
  })
})

describe("a hanging origin", () => {
  it.effect("does not delay the others, however many deliveries and origins hang", () => {
    const refused = new DeliveryError({ error: "connection_failed" })
    return withTarget(
      ({ url }) =>
        url.includes("hangs") ? Effect.never : url.includes("dead") ? Effect.fail(refused) : Effect.succeed(200),
      (core) =>
        Effect.gen(function*() {
          for (let n = 0; n < 1500; n++) {
            yield* complete(core, { callback_url: `https://hangs-${n % 300}.example/` }, callerOf(`u${n}`))
          }
          for (let n = 0; n < 50; n++) {
            yield* complete(core, { callback_url: "https://dead.example" }, callerOf(`d${n}`))
          }
          yield* TestClock.adjust("1 second")
          yield* Queue.takeAll(core.posts)
          yield* complete(core, { callback_url: "https://well.example/" })
          // An unknown origin waits at most for the first timeouts.
          yield* TestClock.adjust("16 seconds")
          yield* Queue.takeAll(core.posts)
          for (let n = 0; n < 20; n++) {
            yield* complete(core, { callback_url: "https://well.example/" }, callerOf(`w${n}`))
            yield* TestClock.adjust("1 millis")
          }
          const posts = yield* Queue.takeAll(core.posts)
          assert.strictEqual(posts.filter((post) => post.url === "https://well.example/").length, 20)
        })
    )
  })

  it.effect("does not delay the others when eight hang that had responded before", () => {
    let isHanging = false
    return withTarget(
      ({ url }) => isHanging && url.includes("hangs") ? Effect.never : Effect.succeed(200),
      (core) =>
        Effect.gen(function*() {
          const completeAll = Effect.fnUntraced(function*(count: number, callback_url: string) {
            for (let n = 0; n < count; n++) yield* complete(core, { callback_url }, callerOf(`${callback_url} ${n}`))
          })
          const hanging = Array.from({ length: 8 }, (_, n) => `https://hangs-${n}.example/`)
          const well = "https://well.example/"
          for (const url of [...hanging, well]) yield* completeAll(10, url)
          yield* TestClock.adjust("1 second")
          isHanging = true
          for (const url of hanging) yield* completeAll(200, url)
          yield* TestClock.adjust("1 second")
          yield* Queue.clear(core.posts)
          yield* completeAll(20, well)
          yield* TestClock.adjust("1 second")
          const posts = yield* Queue.clear(core.posts)
          assert.strictEqual(posts.filter(({ url }) => url === well).length, 20)
        })
    )
  })

  it.effect("waits while too many large ones are in memory, which does not count as an attempt", () => {
    const text = "x".repeat(100_000)
    let isHanging = true
    return withTarget(
      ({ url }) => isHanging && url.includes("hangs") ? Effect.never : Effect.succeed(200),
      (core) =>
        Effect.gen(function*() {
          const completeLarge = (callback_url: string, user: string) =>
            complete(core, { callback_url }, callerOf(user), text)
          for (let n = 0; n < 4; n++) yield* completeLarge("https://hangs.example/", `h${n}`)
          for (let n = 0; n < 10; n++) yield* completeLarge(`https://hangs-${n}.example/`, `o${n}`)
          yield* TestClock.adjust("10 seconds")
          const held = (yield* Queue.takeAll(core.posts)).map(({ url }) => new URL(url).host)
          assert.isAtMost(held.length, 6)
          assert.isAtMost(held.filter((host) => host === "hangs.example").length, 2)

          isHanging = false
          const uuid = yield* completeLarge("https://well.example/", "ann")
          yield* TestClock.adjust("2 minutes")
          assert.strictEqual(yield* stateOf(uuid), "delivered")
          const [delivery] = yield* Effect.flatMap(Webhooks, (webhooks) => webhooks.ofTask(ann.principal, uuid))
          assert.lengthOf(delivery?.attempts ?? [], 1)
        })
    )
  })

  it.effect("is attempted again after an outage in which its large body could not be read", () => {
    let isAway = true
    return withTarget(
      () => Effect.succeed(200),
      (core) =>
        Effect.gen(function*() {
          const uuids: Array<TaskId> = []
          for (let n = 0; n < 8; n++) {
            uuids.push(yield* complete(core, { callback_url: `https://large-${n}.example/` }, ann, "x".repeat(100_000)))
            yield* TestClock.adjust("1 second")
          }
          assert.strictEqual(yield* Queue.size(core.posts), 0)
          isAway = false
          yield* TestClock.adjust("3 minutes")
          for (const uuid of uuids) assert.strictEqual(yield* stateOf(uuid), "delivered")
        }),
      {
        withWebhooks: (webhooks) => ({
          ...webhooks,
          body: (key) => isAway ? Effect.fail(new StoreUnavailable({ cause: "connection lost" })) : webhooks.body(key)
        })
      }
    )
  })

  it.effect("is not sent when its large body is read too slowly, which is no fault of its target", () =>
    withTarget(
      () => Effect.succeed(200),
      (core) =>
        Effect.gen(function*() {
          const uuid = yield* complete(core, {}, ann, "x".repeat(100_000))
          yield* TestClock.adjust("4 seconds")
          const [delivery] = yield* Effect.flatMap(Webhooks, (webhooks) => webhooks.ofTask(ann.principal, uuid))
          assert.deepStrictEqual(delivery?.attempts.map(({ error }) => error), ["not_sent"])
        }),
      { withWebhooks: (webhooks) => ({ ...webhooks, body: () => Effect.never }) }
    ))
})

describe("the delivery log", () => {
  it.effect("lets an operator redeliver all failed webhooks", () => {
    let made = 0
    return withTarget(() => Effect.sync(() => made++ < 15 ? 500 : 204), (core) =>
      Effect.gen(function*() {
        const webhooks = yield* Webhooks
        for (let n = 0; n < 3; n++) yield* complete(core)
        yield* TestClock.adjust(Duration.minutes(10))
        assert.strictEqual((yield* webhooks.find({ state: "failed", limit: 10 })).length, 3)
        assert.strictEqual(yield* webhooks.redeliverFailed("https://other.example"), 0)
        assert.strictEqual(yield* webhooks.redeliverFailed("https://target.example"), 3)
        yield* Queue.takeN(core.posts, 18)
        yield* TestClock.adjust("1 second")
        assert.strictEqual((yield* webhooks.find({ state: "delivered", limit: 10 })).length, 3)
        const [one] = yield* webhooks.find({ limit: 1 })
        assert.strictEqual((yield* Effect.flip(webhooks.redeliverAny(deliveryId(one!))))._tag, "DeliveryNeedsSecret")
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
        yield* TestClock.adjust("1 hour")
        assert.strictEqual(yield* Queue.size(core.posts), 0)
      })))
})
