/** Concurrent operators drain one node and take it in, and disconnect. */
import { PgClient } from "@effect/sql-pg"
import { assert, layer } from "@effect/vitest"
import { Context, Deferred, Effect, Fiber, Layer, Logger, Option, Redacted } from "effect"
import { SqlRunnerStorage } from "effect/cluster"
import * as Cluster from "../../src/runtime/cluster/Cluster.ts"
import { TaskOwnership } from "../../src/services/cluster/TaskOwnership.ts"
import { Proxy } from "../chaos/Proxy.ts"
import * as Database from "../kit/Database.ts"
import { freePort } from "../kit/Service.ts"

const layerNode = Layer.unwrap(
  Effect.map(Effect.promise(freePort), (port) => Cluster.layer({ host: "127.0.0.1", port }))
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
  const client = PgClient.layer({ url, maxConnections: 2 })
  const port = yield* Effect.promise(freePort)
  const context = yield* Layer.build(
    Cluster.layer({ host: "127.0.0.1", port }).pipe(
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
})
