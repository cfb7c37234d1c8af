/**
 * Ownership by the shards of Effect Cluster. Nodes find each other, detect failed nodes and assign the shards through
 * the database. They exchange only pings: all other information is in the rows, and `Changes`
 * makes the nodes read it sooner.
 */
import type { PgClient } from "@effect/sql-pg"
import {
  Context,
  Duration,
  Effect,
  Equal,
  Exit,
  Fiber,
  FiberHandle,
  Latch,
  Layer,
  Logger,
  Option,
  Schema,
  Scope,
  Semaphore
} from "effect"
import {
  MessageStorage,
  type Runner,
  RunnerAddress,
  RunnerHealth,
  Runners,
  RunnerStorage,
  ShardId,
  Sharding,
  ShardingConfig,
  SqlRunnerStorage
} from "effect/cluster"
import { SqlClient } from "effect/sql"
import * as TaskShard from "../../domain/TaskShard.ts"
import { TaskOwnership } from "../../services/cluster/TaskOwnership.ts"
import * as Metrics from "../../services/telemetry/Metrics.ts"
import { retryForever } from "../../services/timing/Retry.ts"
import * as Worker from "../../services/timing/Worker.ts"
import * as ClusterLog from "./ClusterLog.ts"
import * as ClusterPort from "./ClusterPort.ts"

/** The address of this node for the other nodes. */
export interface Address {
  readonly host: string
  readonly port: number
}

/**
 * The lease of a node. When it expires without a refresh, the database ends the node's session and releases its locks. A distant database
 * needs a longer one: a change of locks takes two round trips, waits for others, and is given up after a quarter of the lease.
 */
const minLease = Duration.seconds(4)
const leaseOf = (roundTrip: Duration.Duration) => Duration.max(minLease, Duration.times(roundTrip, 24))

/** The shorter of two round trips on one connection, where the first one also prepares the statement. */
const measureRoundTrip = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const [[first], [second]] = yield* sql.withTransaction(
    Effect.all([Effect.timed(sql`SELECT 1`), Effect.timed(sql`SELECT 1`)])
  )
  return Duration.min(first, second)
})

/** How often a node checks whether its lease is still long enough. */
const leaseCheckInterval = Duration.seconds(5)
/** How many checks in a row must find it too short before a node gives up shards for a longer one. */
const shortLeases = 3
/** A lease is too short if the database needs one that is this many times as long. */
const leaseTolerance = 2

const shardingConfig = (address: RunnerAddress.RunnerAddress, lease: Duration.Duration) =>
  ShardingConfig.layer({
    runnerAddress: Option.some(address),
    runnerListenAddress: Option.some(address),
    shardsPerGroup: TaskShard.count,
    shardLockExpiration: lease,
    shardLockRefreshInterval: Duration.divideUnsafe(lease, 4),
    refreshAssignmentsInterval: Duration.millis(250),
    // We store no messages, but this is also the pause after a failure to acquire shards.
    entityMessagePollInterval: Duration.millis(500)
  })

const decodeAddresses = Schema.decodeUnknownSync(Schema.Array(Schema.Struct({ address: Schema.String })))

const pingInterval = Duration.millis(250)
/** Minimum time per pinged node, so that the pings of a node do not grow with the cluster. */
const pingSpacing = Duration.millis(25)
/** A node that does not respond in time may be slow or frozen: its lease decides. */
const pingTimeout = Duration.seconds(1)

/** Running nodes write to the database every second. */
const silentSince = "now() - interval '1500 milliseconds'"

/**
 * Returns a function that leaves out the nodes whose process has ended, so that their shards are reassigned before their
 * lease expires: nothing listens on their address, and they do not write to the database. One node that cannot reach
 * another must not leave it out alone, because nodes that know different nodes may leave shards without an owner.
 */
const makeRunning = Effect.fnUntraced(function*(self: RunnerAddress.RunnerAddress) {
  const sql = yield* SqlClient.SqlClient
  let known: ReadonlyArray<Runner.Runner> = []
  let ended: ReadonlyArray<Runner.Runner> = []
  const hasEnded = ({ address }: Runner.Runner) =>
    Effect.isFailure(Effect.timeoutOption(Effect.retry(ClusterPort.ping(address), { times: 1 }), pingTimeout))
  const findSilent = Effect.map(
    sql.unsafe(`SELECT address FROM cluster_runners WHERE last_heartbeat < ${silentSince}`),
    (rows) => new Set(decodeAddresses(rows).map(({ address }) => address))
  )
  const findEnded = Effect.gen(function*() {
    const unreachable = yield* Effect.filter(known, hasEnded, { concurrency: "unbounded" })
    const silent = unreachable.length === 0 ? new Set() : yield* findSilent
    ended = unreachable.filter(({ address: { host, port } }) => silent.has(`${host}:${port}`))
  })
  yield* Worker.make({
    name: "the search for ended nodes",
    runOnce: findEnded,
    interval: Effect.sync(() => Duration.max(pingInterval, Duration.times(pingSpacing, known.length)))
  })
  return <Health>(runners: Array<readonly [Runner.Runner, Health]>) => {
    known = runners.flatMap(([runner]) => Equal.equals(runner.address, self) ? [] : [runner])
    return runners.filter(([runner]) => !ended.some((other) => Equal.equals(other, runner)))
  }
})

/**
 * Knows only running nodes, and releases locks faster than the original. No entity has to stop before its shard is
 * released, so a leaving node releases all locks before it unregisters. Single shards are released one after another: each
 * release takes two round trips on one session, and a release that takes longer than a second abandons the session with the
 * locks of all other shards.
 */
const layerRunnerStorage = (self: RunnerAddress.RunnerAddress) =>
  Layer.effect(
    RunnerStorage.RunnerStorage,
    Effect.gen(function*() {
      const storage = yield* RunnerStorage.RunnerStorage
      const running = yield* makeRunning(self)
      const oneByOne = Semaphore.makeUnsafe(1).withPermits(1)
      return RunnerStorage.RunnerStorage.of({
        ...storage,
        getRunners: Effect.map(storage.getRunners, running),
        release: (address, shardId) => oneByOne(storage.release(address, shardId)),
        unregister: (address) => Effect.andThen(storage.releaseAll(address), storage.unregister(address))
      })
    })
  ).pipe(Layer.provide(SqlRunnerStorage.layerStorage({})))

const layerSharding = (address: RunnerAddress.RunnerAddress, lease: Duration.Duration) =>
  Sharding.layer.pipe(
    Layer.provide(ClusterPort.layer(address)),
    Layer.provide([RunnerHealth.layerNoop, Runners.layerNoop, layerRunnerStorage(address)]),
    Layer.provide(MessageStorage.layerNoop),
    Layer.provide(shardingConfig(address, lease)),
    Layer.fresh
  )

/** Sharding has no event for gained or lost shards, so we poll. */
const pollInterval = Duration.millis(50)
/** The longest that `drain` waits for the release of all shards. */
const drainTimeout = Duration.seconds(3)

const shardIds = Array.from({ length: TaskShard.count }, (_, shard) => ShardId.make("default", shard + 1))

type Sharded = Sharding.Sharding["Service"]

interface Membership {
  readonly scope: Scope.Closeable
  readonly sharding: Sharded
  readonly lease: Duration.Duration
}

/** The shards of this node as of the last poll. `poll` returns whether they have changed. */
const makeHeldShards = () => {
  let mine: ReadonlyArray<TaskShard.TaskShard> = []
  const isHeld = Array.from({ length: TaskShard.count }, () => false)
  const poll = (sharding: Sharded | undefined) => {
    let hasChanged = false
    for (const [shard, id] of shardIds.entries()) {
      const held = sharding?.hasShardId(id) === true
      if (held !== isHeld[shard]) Metrics.shardReassignments.add(1, held ? "gained" : "lost")
      hasChanged ||= held !== isHeld[shard]
      isHeld[shard] = held
    }
    if (hasChanged) mine = [...isHeld.keys()].filter((shard) => isHeld[shard])
    return hasChanged
  }
  return { poll, mine: () => mine, isHeld: (shard: TaskShard.TaskShard) => isHeld[shard] === true }
}

/** A release blocks while the database is unavailable. The end of the session releases the locks too, so stop waiting. */
const close = (scope: Scope.Closeable) =>
  Effect.flatMap(
    Effect.forkDetach(Scope.close(scope, Exit.void)),
    (closed) => Effect.timeoutOption(Fiber.await(closed), drainTimeout)
  )

/** Joins again with a longer lease when the database has become more distant. An outage says nothing about the distance. */
const makeLeaseCheck = Effect.fnUntraced(
  function*(current: () => Duration.Duration | undefined, ownsShards: () => boolean, rejoin: Effect.Effect<void>) {
    const services = yield* Effect.context<SqlClient.SqlClient>()
    let short = 0
    const check = Effect.gen(function*() {
      const needed = leaseOf(yield* Effect.provideContext(measureRoundTrip, services))
      const lease = current()
      const isShort = lease !== undefined && Duration.isGreaterThan(needed, Duration.times(lease, leaseTolerance))
      short = isShort ? short + 1 : 0
      if (short < (ownsShards() ? shortLeases : 1)) return
      short = 0
      yield* Effect.logWarning(`The database is far away now: shards get a lease of ${Duration.format(needed)}`)
      yield* rejoin
    })
    yield* Worker.make({
      name: "the check of the lease",
      runOnce: Effect.catchTag(check, "SqlError", () => Effect.void),
      interval: leaseCheckInterval,
      isDelayed: true
    })
  }
)

export const layer = ({ host, port }: Address) =>
  Layer.effect(
    TaskOwnership,
    Effect.gen(function*() {
      const address = RunnerAddress.make(host, port)
      const services = yield* Effect.context<SqlClient.SqlClient | PgClient.PgClient>()
      const changed = Latch.makeUnsafe()
      const shards = makeHeldShards()
      let membership: Membership | undefined

      const poll = Effect.sync(() => {
        if (shards.poll(membership?.sharding)) changed.openUnsafe()
      })

      const join = Effect.gen(function*() {
        if (membership !== undefined) return
        const ownScope = yield* Scope.make()
        const lease = leaseOf(yield* Effect.provideContext(measureRoundTrip, services))
        yield* Layer.buildWithScope(layerSharding(address, lease), ownScope).pipe(
          Effect.updateService(Logger.CurrentLoggers, ClusterLog.throttle),
          Effect.provideContext(services),
          Effect.onExit((exit) => {
            if (Exit.isFailure(exit)) return close(ownScope)
            membership = { scope: ownScope, sharding: Context.get(exit.value, Sharding.Sharding), lease }
            return Effect.void
          })
        )
      })

      const leave = Effect.uninterruptible(Effect.gen(function*() {
        if (membership === undefined) return
        const left = membership
        membership = undefined
        yield* poll
        yield* close(left.scope)
      }))

      yield* Effect.addFinalizer(() => leave)
      yield* join
      yield* Worker.make({ name: "the poll of shards", runOnce: poll, interval: pollInterval })

      const changes = yield* FiberHandle.make<void, never>()
      const mutex = Semaphore.makeUnsafe(1)
      /** Runs one change at a time. A later change cancels an earlier one; a caller that disconnects cancels none. */
      const change = (effect: Effect.Effect<void>) =>
        Effect.asVoid(Effect.flatMap(FiberHandle.run(changes, mutex.withPermit(effect)), Fiber.await))

      const rejoin = change(Effect.andThen(leave, retryForever(Effect.orDie(join))))
      yield* makeLeaseCheck(() => membership?.lease, () => shards.mine().length > 0, rejoin)

      return TaskOwnership.of({
        isMine: (id) => shards.isHeld(TaskShard.of(id)),
        shards: shards.mine,
        changed: Effect.andThen(changed.await, changed.close),
        drain: change(leave),
        takeIn: rejoin,
        isDrained: () => membership === undefined
      })
    })
  )
