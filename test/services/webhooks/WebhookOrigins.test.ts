import { assert, describe, it } from "@effect/vitest"
import { Effect, Queue } from "effect"
import { TestClock } from "effect/testing"
import { StoreUnavailable } from "../../../src/domain/StoreUnavailable.ts"
import type { TaskId } from "../../../src/domain/Task.ts"
import { Sizes, sizes } from "../../../src/services/limits/Memory.ts"
import { Webhooks } from "../../../src/services/webhooks/Webhooks.ts"
import { DeliveryError } from "../../../src/services/webhooks/WebhookSender.ts"
import { callerOf } from "../../kit/TestTasks.ts"
import { ann, complete, stateOf, withTarget } from "../../kit/WebhookTasks.ts"

describe("a responding origin", () => {
  it.effect("receives all pending deliveries in bursts, without waiting for the next poll", () =>
    withTarget(() => Effect.succeed(200), (core) =>
      Effect.gen(function*() {
        const webhooks = yield* Webhooks
        const uuids: Array<TaskId> = []
        for (let n = 0; n < 300; n++) uuids.push(yield* complete(core, {}, callerOf(`u${n}`)))
        yield* TestClock.adjust("1 second")
        yield* Queue.takeN(core.posts, 300)
        // The origin is proven now, and idle.
        for (const [n, uuid] of uuids.entries()) {
          const [delivery] = yield* webhooks.ofTask(callerOf(`u${n}`).principal, uuid)
          assert.strictEqual(delivery?.state, "delivered")
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
            yield* complete(core, { callbackUrl: `https://hangs-${n % 300}.example/` }, callerOf(`u${n}`))
          }
          for (let n = 0; n < 50; n++) {
            yield* complete(core, { callbackUrl: "https://dead.example" }, callerOf(`d${n}`))
          }
          yield* TestClock.adjust("1 second")
          yield* Queue.takeAll(core.posts)
          yield* complete(core, { callbackUrl: "https://well.example/" })
          // An unknown origin waits at most for the first timeouts.
          yield* TestClock.adjust("16 seconds")
          yield* Queue.takeAll(core.posts)
          for (let n = 0; n < 20; n++) {
            yield* complete(core, { callbackUrl: "https://well.example/" }, callerOf(`w${n}`))
            yield* TestClock.adjust("1 millis")
          }
          const posts = yield* Queue.takeAll(core.posts)
          assert.strictEqual(posts.filter((post) => post.url === "https://well.example/").length, 20)
        })
    )
  })

  it.effect("does not delay new origins of other users, when 150 of one user hang", () =>
    withTarget(
      ({ url }) => url.includes("hangs") ? Effect.never : Effect.succeed(200),
      (core) =>
        Effect.gen(function*() {
          for (let n = 0; n < 1500; n++) {
            yield* complete(core, { callbackUrl: `https://hangs-${n % 150}.example/` }, callerOf("eve"))
          }
          yield* TestClock.adjust("1 second")
          yield* Queue.clear(core.posts)
          for (let n = 0; n < 30; n++) {
            yield* complete(core, { callbackUrl: `https://well-${n}.example/` }, callerOf(`u${n % 3}`))
            yield* TestClock.adjust("100 millis")
          }
          const posts = yield* Queue.clear(core.posts)
          assert.lengthOf(posts.filter(({ url }) => url.includes("well")), 30)
        })
    ))

  it.effect("does not delay the others when eight hang that had responded before", () => {
    let isHanging = false
    return withTarget(
      ({ url }) => isHanging && url.includes("hangs") ? Effect.never : Effect.succeed(200),
      (core) =>
        Effect.gen(function*() {
          const completeAll = Effect.fnUntraced(function*(count: number, callbackUrl: string) {
            for (let n = 0; n < count; n++) yield* complete(core, { callbackUrl }, callerOf(`${callbackUrl} ${n}`))
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
          const completeLarge = (callbackUrl: string, user: string) =>
            complete(core, { callbackUrl }, callerOf(user), text)
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
    ).pipe(
      // For six of them, and two of one origin.
      Effect.provideService(Sizes, {
        ...sizes,
        deliveries: { budget: "core", total: 6 * 101_000, perHolder: 2 * 101_000 }
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
            uuids.push(yield* complete(core, { callbackUrl: `https://large-${n}.example/` }, ann, "x".repeat(100_000)))
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
