/**
 * Ownership by the shards of Effect Cluster. Nodes find each other, detect failed nodes and assign the shards through
 * the database. They exchange only pings: all other information is in the rows, and `Changes`
 * makes the nodes read it sooner.
 */
import {
  Clock,
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
import { StoreHealth } from "../../services/store/StoreHealth.ts"
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
 * The lease of a node. When it expires without a refresh, the database ends the node's session and releases its locks. A change of locks
 * is given up after a quarter of it: it takes two round trips and may wait for others and a login, each behind a megabyte of other
 * statements on a narrow link.
 */
const minLease = Duration.seconds(4)
const maxLease = Duration.seconds(60)
const roundTripsOfLease = 40
/** Bytes of the statement that shows how wide the link is, and how many times as long as its transfer a lease is. */
const probeBytes = 65_536
const probesOfLease = 128

/** `roundTrip` and the `transfer` of `probeBytes` are in milliseconds. */
const leaseOf = (roundTrip: number, transfer = 0) =>
  Duration.clamp(Duration.millis(Math.max(roundTripsOfLease * roundTrip, probesOfLease * transfer)), {
    minimum: minLease,
    maximum: maxLease
  })

/** The lease that the fastest of a few statements suggest: a busy process makes some of them slow. */
const measureLease = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const probe = "x".repeat(probeBytes)
  const time = (text: string) =>
    Effect.map(Effect.timed(sql`SELECT length(${text})`), ([took]) => Duration.toMillis(took))
  let lease = maxLease
  let small = Infinity
  let large = Infinity
  for (let left = 3; left > 0 && Duration.isGreaterThan(lease, minLease); left--) {
    small = Math.min(small, yield* time(""))
    large = Math.min(large, yield* time(probe))
    lease = leaseOf(small, large - small)
  }
  return lease
}).pipe(
  // A transaction has a connection of its own, without statements of others.
  (measured) => Effect.flatMap(SqlClient.SqlClient, (sql) => sql.withTransaction(measured)),
  // It may become half-open, and never answers then.
  Effect.timeout(maxLease)
)

/** Interval at which a node checks that its lease is still long enough. */
const leaseCheckInterval = Duration.seconds(1)
/** Heartbeats in a row that must find it too short before a node gives up shards for a longer one, and before one without any does. */
const shortLeases = { owning: 10, waiting: 4 }
/**
 * A lease is too short if the database needs one that is this many times as long: a refresh takes most of its time then. Less distance may be
 * this process, which is busy.
 */
const leaseTolerance = 4

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

/** A node is silent after this many intervals, in which running nodes write to the database. */
const silentIntervals = 1.5

/**
 * Returns a function that leaves out the nodes whose process has ended, so that their shards are reassigned before their
 * lease expires: nothing listens on their address, and they do not write to the database. One node that cannot reach
 * another must not leave it out alone, because nodes that know different nodes may leave shards without an owner.
 */
const makeRunning = Effect.fnUntraced(function*(
  self: RunnerAddress.RunnerAddress,
  onOthers: (others: ReadonlyArray<RunnerAddress.RunnerAddress>) => void
) {
  const sql = yield* SqlClient.SqlClient
  const { shardLockRefreshInterval } = yield* ShardingConfig.ShardingConfig
  const silence = Duration.toMillis(Duration.fromInputUnsafe(shardLockRefreshInterval)) * silentIntervals
  let known: ReadonlyArray<Runner.Runner> = []
  let ended: ReadonlyArray<Runner.Runner> = []
  const hasEnded = ({ address }: Runner.Runner) =>
    Effect.isFailure(Effect.timeoutOption(Effect.retry(ClusterPort.ping(address), { times: 1 }), pingTimeout))
  const findSilent = Effect.map(
    sql`SELECT address FROM cluster_runners WHERE last_heartbeat < now() - ${silence} * interval '1 millisecond'`,
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
    onOthers(known.map(({ address }) => address))
    return runners.filter(([runner]) => !ended.some((other) => Equal.equals(other, runner)))
  }
})

/**
 * Knows only running nodes, and releases locks faster than the original: no entity has to stop before its shard is released, so a
 * leaving node releases all locks before it unregisters.
 */
const layerRunnerStorage = (self: RunnerAddress.RunnerAddress, onOthers: Parameters<typeof makeRunning>[1]) =>
  Layer.effect(
    RunnerStorage.RunnerStorage,
    Effect.gen(function*() {
      const storage = yield* RunnerStorage.RunnerStorage
      const running = yield* makeRunning(self, onOthers)
      return RunnerStorage.RunnerStorage.of({
        ...storage,
        getRunners: Effect.map(storage.getRunners, running),
        unregister: (address) => Effect.andThen(storage.releaseAll(address), storage.unregister(address))
      })
    })
  ).pipe(Layer.provide(SqlRunnerStorage.layerStorage({})))

const layerSharding = (
  address: RunnerAddress.RunnerAddress,
  internalPort: number,
  lease: Duration.Duration,
  onOthers: Parameters<typeof makeRunning>[1]
) =>
  Sharding.layer.pipe(
    Layer.provide(ClusterPort.layer(address, internalPort)),
    Layer.provide([RunnerHealth.layerNoop, Runners.layerNoop, layerRunnerStorage(address, onOthers)]),
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
const makeHeldShards = (now: () => number) => {
  let mine: ReadonlyArray<TaskShard.TaskShard> = []
  const isHeld = Array.from({ length: TaskShard.count }, () => false)
  const heldSince = Array.from({ length: TaskShard.count }, () => Infinity)
  const poll = (sharding: Sharded | undefined) => {
    let hasChanged = false
    for (const [shard, id] of shardIds.entries()) {
      const held = sharding?.hasShardId(id) === true
      if (held !== isHeld[shard]) Metrics.shardReassignments.add(1, held ? "gained" : "lost")
      hasChanged ||= held !== isHeld[shard]
      if (!held) heldSince[shard] = Infinity
      else if (isHeld[shard] !== true) heldSince[shard] = now()
      isHeld[shard] = held
    }
    if (hasChanged) mine = [...isHeld.keys()].filter((shard) => isHeld[shard])
    return hasChanged
  }
  return {
    poll,
    mine: () => mine,
    isHeld: (shard: TaskShard.TaskShard) => isHeld[shard] === true,
    heldSince: (shard: TaskShard.TaskShard) => heldSince[shard] ?? Infinity
  }
}

/** A release blocks while the database is unavailable. The end of the session releases the locks too, so stop waiting. */
const close = (scope: Scope.Closeable) =>
  Effect.flatMap(
    Effect.forkDetach(Scope.close(scope, Exit.void)),
    (closed) => Effect.timeoutOption(Fiber.await(closed), drainTimeout)
  )

/**
 * Joins again with a longer lease when the database has become more distant. Only answers say how far it is: an outage, or a half-open
 * connection, says nothing.
 */
const makeLeaseCheck = Effect.fnUntraced(
  function*(
    current: () => Duration.Duration | undefined,
    ownsShards: () => boolean,
    extend: (lease: Duration.Duration) => Effect.Effect<void>
  ) {
    const { roundTrip } = yield* StoreHealth
    yield* Worker.make({
      name: "the check of the lease",
      runOnce: Effect.gen(function*() {
        const needed = leaseOf(roundTrip(ownsShards() ? shortLeases.owning : shortLeases.waiting))
        const lease = current()
        if (lease === undefined) return
        if (Duration.isLessThanOrEqualTo(needed, Duration.min(Duration.times(lease, leaseTolerance), maxLease))) return
        yield* Effect.logWarning(`The database is far away now: shards get a lease of ${Duration.format(needed)}`)
        yield* extend(needed)
      }),
      interval: leaseCheckInterval,
      isDelayed: true
    })
  }
)

/** The tables of nodes and locks. */
export const layerTables = SqlRunnerStorage.layerMigrations({})

/** `internalPort` is where other nodes reach the internal interface of this one, at the same host. */
export const layer = ({ host, port }: Address, internalPort: number) =>
  Layer.effect(
    TaskOwnership,
    Effect.gen(function*() {
      const address = RunnerAddress.make(host, port)
      const services = yield* Effect.context<SqlClient.SqlClient>()
      const changed = Latch.makeUnsafe()
      const clock = yield* Clock.Clock
      const shards = makeHeldShards(() => clock.currentTimeMillisUnsafe())
      let membership: Membership | undefined
      let others: ReadonlyArray<Address> = []

      const poll = Effect.sync(() => {
        if (shards.poll(membership?.sharding)) changed.openUnsafe()
      })

      /** Measures the lease unless it is given. */
      const join = Effect.fnUntraced(function*(given?: Duration.Duration) {
        if (membership !== undefined) return
        const ownScope = yield* Scope.make()
        const lease = given ?? (yield* Effect.provideContext(measureLease, services))
        yield* Layer.buildWithScope(
          layerSharding(address, internalPort, lease, (known) => void (others = known)),
          ownScope
        ).pipe(
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
      yield* join()
      yield* Worker.make({ name: "the poll of shards", runOnce: poll, interval: pollInterval })

      const changes = yield* FiberHandle.make<void, never>()
      const mutex = Semaphore.makeUnsafe(1)
      /** Runs one change at a time. A later change cancels an earlier one; a caller that disconnects cancels none. */
      const change = (effect: Effect.Effect<void>, options?: { readonly onlyIfMissing: boolean }) =>
        Effect.asVoid(Effect.flatMap(FiberHandle.run(changes, mutex.withPermit(effect), options), Fiber.await))

      const rejoin = (lease?: Duration.Duration) => Effect.andThen(leave, retryForever(Effect.orDie(join(lease))))
      // An operator's change has precedence: the check cancels none, and takes no drained node in.
      const extend = (lease: Duration.Duration) =>
        change(Effect.suspend(() => membership === undefined ? Effect.void : rejoin(lease)), { onlyIfMissing: true })
      yield* makeLeaseCheck(() => membership?.lease, () => shards.mine().length > 0, extend)

      return TaskOwnership.of({
        isMine: (id) => shards.isHeld(TaskShard.of(id)),
        ownedSince: (id) => shards.heldSince(TaskShard.of(id)),
        shards: shards.mine,
        others: () => others,
        changed: Effect.andThen(changed.await, changed.close),
        drain: change(leave),
        takeIn: change(rejoin()),
        isDrained: () => membership === undefined
      })
    })
  )
