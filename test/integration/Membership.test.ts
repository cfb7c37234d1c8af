/** Concurrent operators drain one node and take it in, and disconnect. */
import { assert, layer } from "@effect/vitest"
import { Context, Deferred, Effect, Fiber, Layer, Logger, Option, Redacted } from "effect"
import { SqlRunnerStorage } from "effect/cluster"
import * as TaskShard from "../../src/domain/TaskShard.ts"
import * as Cluster from "../../src/runtime/cluster/Cluster.ts"
import * as ClusterClient from "../../src/runtime/cluster/ClusterClient.ts"
import { TaskOwnership } from "../../src/services/cluster/TaskOwnership.ts"
import { StoreHealth } from "../../src/services/store/StoreHealth.ts"
import { Proxy } from "../chaos/Proxy.ts"
import * as Database from "../kit/Database.ts"
import { freePort } from "../kit/Service.ts"

const layerNode = Layer.unwrap(
  Effect.map(Effect.promise(freePort), (port) => Cluster.layer({ host: "127.0.0.1", port }, 3000))
).pipe(
  Layer.provide(SqlRunnerStorage.layerMigrations({})),
  Layer.provide(Database.layerClient),
  Layer.provide(Database.layerUrl)
)

const untilOwner = Effect.fnUntraced(function*(ownership: TaskOwnership["Service"]) {
  while (ownership.isDrained() || ownership.shards()?.length === 0) yield* ownership.changed
})

layer(layerNode, { excludeTestServices: true, timeout: 20_000 })("the membership of a node", (it) => {
  it.effect("is restored by being taken in although the operator disconnects", () =>
    Effect.gen(function*() {
      const ownership = yield* TaskOwnership
      yield* untilOwner(ownership)
      const rejoining = yield* Effect.forkChild(ownership.takeIn, { startImmediately: true })
      yield* Fiber.interrupt(rejoining)
      yield* untilOwner(ownership)
    }))

  it.effect("follows the last of several concurrent requests", () =>
    Effect.gen(function*() {
      const ownership = yield* TaskOwnership
      yield* untilOwner(ownership)
      const left = yield* Deferred.make<void>()
      const first = yield* Effect.forkChild(ownership.takeIn, { startImmediately: true })
      const second = yield* Effect.forkChild(Effect.andThen(ownership.drain, Deferred.succeed(left, undefined)), {
        startImmediately: true
      })
      yield* Deferred.await(left)
      assert.isTrue(ownership.isDrained())
      yield* Fiber.joinAll([first, second])
      assert.isTrue(ownership.isDrained())
      yield* ownership.takeIn
      yield* untilOwner(ownership)
    }))
})

/** A node whose connection to the database can be cut. */
const makeDistant = Effect.gen(function*() {
  const { proxy, url } = yield* Proxy.scoped(Redacted.value(yield* Database.DatabaseUrl))
  const client = ClusterClient.layer({ url, maxConnections: 2 })
  const port = yield* Effect.promise(freePort)
  const context = yield* Layer.build(
    Cluster.layer({ host: "127.0.0.1", port }, 3000).pipe(
      Layer.provide(SqlRunnerStorage.layerMigrations({})),
      Layer.provide(client)
    )
  )
  return { proxy, ownership: Context.get(context, TaskOwnership) }
})

layer(Database.layerUrl, { excludeTestServices: true, timeout: 20_000 })("a node without its database", (it) => {
  it.effect("rejoins the cluster when the database is back", () =>
    Effect.gen(function*() {
      const { ownership, proxy } = yield* makeDistant
      yield* untilOwner(ownership)
      proxy.weather = "losing replies"
      proxy.cut()
      const rejoining = yield* Effect.forkChild(ownership.takeIn, { startImmediately: true })
      assert.isTrue(Option.isNone(yield* Effect.timeoutOption(Fiber.join(rejoining), "5 seconds")))
      proxy.weather = "fair"
      yield* untilOwner(ownership)
      // Effect Cluster logs each attempt.
    }).pipe(Effect.provide(Logger.layer([]))))

  it.effect("has its shards again soon after all its connections became half-open", () =>
    Effect.gen(function*() {
      const { ownership, proxy } = yield* makeDistant
      const shards = () => ownership.shards()?.length
      yield* untilOwner(ownership)
      while (shards() !== TaskShard.count) yield* ownership.changed
      proxy.silence()
      while (shards() === TaskShard.count) yield* ownership.changed
      const lostAt = performance.now()
      while (shards() !== TaskShard.count) yield* ownership.changed
      assert.isBelow(performance.now() - lostAt, 15_000)
    }).pipe(Effect.provide(Logger.layer([]))))
})

/** A node that finds its database as far away as `distance` says. */
const makeMoved = Effect.fnUntraced(function*(distance: { milliseconds: number }, onLog: (message: string) => void) {
  const port = yield* Effect.promise(freePort)
  const context = yield* Layer.build(
    Cluster.layer({ host: "127.0.0.1", port }, 3000).pipe(
      Layer.provide(SqlRunnerStorage.layerMigrations({})),
      Layer.provide(Database.layerClient),
      Layer.provide(Layer.succeed(StoreHealth, { problem: () => null, roundTrip: () => distance.milliseconds })),
      Layer.provide(Logger.layer([Logger.make(({ message }) => onLog(String(message)))]))
    )
  )
  return Context.get(context, TaskOwnership)
})

layer(Database.layerUrl, { excludeTestServices: true, timeout: 30_000 })("a node whose database moves away", (it) => {
  it.effect("rejoins the cluster, once", () =>
    Effect.gen(function*() {
      const distance = { milliseconds: 0 }
      const warned: Array<string> = []
      const ownership = yield* makeMoved(distance, (message) => {
        if (message.includes("far away")) warned.push(message)
      })
      yield* untilOwner(ownership)
      distance.milliseconds = 500
      while (warned.length === 0 || ownership.isDrained()) yield* Effect.sleep("50 millis")
      yield* untilOwner(ownership)
      yield* Effect.sleep("3 seconds")
      assert.deepStrictEqual(warned, ["The database is far away now: shards get a lease of 20s"])
    }))

  it.effect("stays drained if it is drained in that moment", () =>
    Effect.gen(function*() {
      const distance = { milliseconds: 0 }
      const drained = yield* Deferred.make<void>()
      const ownership: TaskOwnership["Service"] = yield* makeMoved(distance, (message) => {
        if (!message.includes("far away")) return
        Effect.runFork(Effect.andThen(ownership.drain, Deferred.succeed(drained, undefined)))
      })
      yield* untilOwner(ownership)
      distance.milliseconds = 500
      yield* Deferred.await(drained)
      // Long enough for the next check.
      yield* Effect.sleep("3 seconds")
      assert.isTrue(ownership.isDrained())
    }))
})
