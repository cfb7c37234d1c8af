/**
 * Ownership by the shards of Effect Cluster: nodes find each other, notice who is gone and divide the shards through the
 * database alone. Nothing travels between them but pings: what one has to know of another's doing is in the rows, and
 * `TaskNotifications` hints at it.
 */
import { NodeClusterSocket } from "@effect/platform-node"
import type { PgClient } from "@effect/sql-pg"
import {
  Context,
  Duration,
  Effect,
  Exit,
  Fiber,
  FiberHandle,
  Latch,
  Layer,
  Option,
  Schedule,
  Scope,
  Semaphore
} from "effect"
import {
  MessageStorage,
  RunnerAddress,
  RunnerHealth,
  Runners,
  RunnerStorage,
  ShardId,
  Sharding,
  ShardingConfig,
  SocketRunner,
  SqlRunnerStorage
} from "effect/cluster"
import { RpcSerialization } from "effect/rpc"
import type { SqlClient } from "effect/sql"
import * as TaskShard from "../domain/TaskShard.ts"
import * as Metrics from "../services/Metrics.ts"
import { persistently } from "../services/Persistently.ts"
import { TaskOwnership } from "../services/TaskOwnership.ts"

/** Where the other nodes reach this one. */
export interface Address {
  readonly host: string
  readonly port: number
}

/** A node that has not been heard of for as long as this is gone, and the database ends its session and its locks. */
const lease = Duration.seconds(4)

const shardingConfig = (address: RunnerAddress.RunnerAddress) =>
  ShardingConfig.layer({
    runnerAddress: Option.some(address),
    runnerListenAddress: Option.some(address),
    shardsPerGroup: TaskShard.count,
    shardLockExpiration: lease,
    shardLockRefreshInterval: Duration.divideUnsafe(lease, 4),
    refreshAssignmentsInterval: Duration.millis(250),
    runnerHealthCheckInterval: Duration.seconds(1),
    // No messages are stored; it is also the pause after a failure to acquire shards.
    entityMessagePollInterval: Duration.millis(500)
  })

/**
 * No entity has to be stopped before its shard may go, so a node that leaves drops its locks before it is missed. Shards go
 * one after another: each takes two round trips on one session, and a second after it was asked for the session is given up,
 * with the locks of all others.
 */
const layerRunnerStorage = Layer.effect(
  RunnerStorage.RunnerStorage,
  Effect.map(RunnerStorage.RunnerStorage, (storage) => {
    const oneByOne = Semaphore.makeUnsafe(1).withPermits(1)
    return RunnerStorage.RunnerStorage.of({
      ...storage,
      release: (address, shardId) => oneByOne(storage.release(address, shardId)),
      unregister: (address) => Effect.andThen(storage.releaseAll(address), storage.unregister(address))
    })
  })
).pipe(Layer.provide(SqlRunnerStorage.layer))

const layerSharding = (address: RunnerAddress.RunnerAddress) =>
  SocketRunner.layer.pipe(
    Layer.provide(NodeClusterSocket.layerSocketServer),
    Layer.provide(RunnerHealth.layerPing.pipe(Layer.provide(Runners.layerRpc))),
    Layer.provide(NodeClusterSocket.layerClientProtocol),
    Layer.provide([MessageStorage.layerNoop, layerRunnerStorage, RpcSerialization.layerSchemaBinary()]),
    Layer.provide(shardingConfig(address)),
    Layer.fresh
  )

/** There is no event of a shard that comes or goes. */
const lookInterval = Duration.millis(50)
const leavePatience = Duration.seconds(3)

const shardIds = Array.from({ length: TaskShard.count }, (_, shard) => ShardId.make("default", shard + 1))

export const layer = ({ host, port }: Address) =>
  Layer.effect(
    TaskOwnership,
    Effect.gen(function*() {
      const address = RunnerAddress.make(host, port)
      const services = yield* Effect.context<SqlClient.SqlClient | PgClient.PgClient>()
      const changed = Latch.makeUnsafe()
      let membership: { readonly scope: Scope.Closeable; readonly sharding: Sharding.Sharding["Service"] } | undefined
      let mine: ReadonlyArray<TaskShard.TaskShard> = []
      const isHeld = Array.from({ length: TaskShard.count }, () => false)

      const look = Effect.sync(() => {
        const sharding = membership?.sharding
        let hasChanged = false
        for (const [shard, id] of shardIds.entries()) {
          const held = sharding?.hasShardId(id) === true
          if (held !== isHeld[shard]) Metrics.shardMoves.add(1, held ? "gained" : "lost")
          hasChanged ||= held !== isHeld[shard]
          isHeld[shard] = held
        }
        if (!hasChanged) return
        mine = [...isHeld.keys()].filter((shard) => isHeld[shard])
        changed.openUnsafe()
      })

      // What a database that is away holds up, its end of the session does.
      const close = (of: Scope.Closeable) =>
        Effect.flatMap(
          Effect.forkDetach(Scope.close(of, Exit.void)),
          (closed) => Effect.timeoutOption(Fiber.await(closed), leavePatience)
        )

      const enter = Effect.gen(function*() {
        if (membership !== undefined) return
        const ownScope = yield* Scope.make()
        yield* Layer.buildWithScope(layerSharding(address), ownScope).pipe(
          Effect.provideContext(services),
          Effect.onExit((exit) => {
            if (Exit.isFailure(exit)) return close(ownScope)
            membership = { scope: ownScope, sharding: Context.get(exit.value, Sharding.Sharding) }
            return Effect.void
          })
        )
      })

      const exit = Effect.uninterruptible(Effect.gen(function*() {
        if (membership === undefined) return
        const left = membership
        membership = undefined
        yield* look
        yield* close(left.scope)
      }))

      yield* Effect.addFinalizer(() => exit)
      yield* enter
      yield* Effect.forkScoped(Effect.repeat(look, Schedule.spaced(lookInterval)))

      const changes = yield* FiberHandle.make<void, never>()
      const turn = Semaphore.makeUnsafe(1)
      /** One change at a time; a later wish ends an earlier one, and whoever hangs up ends none. */
      const wish = (change: Effect.Effect<void>) =>
        Effect.asVoid(Effect.flatMap(FiberHandle.run(changes, turn.withPermit(change)), Fiber.await))

      return TaskOwnership.of({
        isMine: (id) => isHeld[TaskShard.of(id)] === true,
        shards: () => mine,
        changed: Effect.andThen(changed.await, changed.close),
        leave: wish(exit),
        rejoin: wish(Effect.andThen(exit, persistently(Effect.orDie(enter)))),
        hasLeft: () => membership === undefined
      })
    })
  )
