/**
 * Ready means: the database responds and accepts writes, its schema is current, this node's sweeps make progress, its time
 * is that of the database, the node is not drained, and the shards of the cluster have owners.
 */
import { Duration, Effect, Fiber, Layer, Option } from "effect"
import { SqlClient } from "effect/sql"
import type { TaskShard } from "../../domain/TaskShard.ts"
import { monotonicMillis } from "../../domain/Timestamp.ts"
import { TaskSweeper } from "../actors/TaskSweeper.ts"
import { TaskOwnership } from "../cluster/TaskOwnership.ts"
import { Changes } from "../signals/Changes.ts"
import * as Migrations from "../store/schema/Migrations.ts"
import { StoreHealth } from "../store/StoreHealth.ts"
import { NodeClock, problemOf } from "../timing/NodeClock.ts"
import * as Worker from "../timing/Worker.ts"
import { ClusterNodes, unownedShards } from "./ClusterNodes.ts"
import { type Check, Readiness } from "./Readiness.ts"

const timeout = Duration.seconds(2)
/** Milliseconds without a finished sweep after which a node counts as stuck. */
const maxSweepAge = 15_000
/** Milliseconds without an owner after which a shard counts as stranded. A takeover takes up to 5 s, and nodes report every 2 s. */
const maxUnowned = 15_000
const ownersInterval = Duration.seconds(5)
/** Milliseconds after which the last search for owners says nothing. */
const maxOwnersAge = 12_000
/** The interval while shards have no owner, so that a node is ready again soon after they have one. */
const unownedInterval = Duration.seconds(1)

/** Searches for the owners of the shards. Returns the check that all have one. */
const makeOwnersCheck = Effect.gen(function*() {
  const ownership = yield* TaskOwnership
  const nodes = yield* ClusterNodes

  /** The `monotonicMillis` at which each shard without an owner lost it, and of the last search for owners. */
  let unownedSince: ReadonlyMap<TaskShard, number> = new Map()
  let searchedAt = -Infinity
  const areOwnersKnown = (at: number) => at - searchedAt < maxOwnersAge
  const findOwners = Effect.gen(function*() {
    const unowned = unownedShards(yield* nodes.all)
    const at = yield* monotonicMillis
    // Shards may have had owners while the database was away.
    const before = areOwnersKnown(at) ? unownedSince : new Map<TaskShard, number>()
    unownedSince = new Map(unowned.map((shard) => [shard, before.get(shard) ?? at]))
    searchedAt = at
  })
  if (ownership.shards() !== undefined) {
    yield* Worker.make({
      name: "the search for shards without an owner",
      runOnce: findOwners,
      interval: Effect.sync(() => unownedSince.size === 0 ? ownersInterval : unownedInterval)
    })
  }
  return Effect.map(monotonicMillis, (at) => {
    const stranded = areOwnersKnown(at)
      ? [...unownedSince.values()].filter((since) => at - since > maxUnowned).length
      : 0
    return { name: "shards", problem: stranded === 0 ? null : `${stranded} have no owner` }
  })
})

/** Returns the checks of the database and its schema, and the `monotonicMillis` until which they failed. */
const makeDatabaseChecks = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const health = yield* StoreHealth
  let failedUntil = -Infinity

  let isCurrent = false
  /** Whether a statement succeeded since the start or the last outage. */
  let hasAnswered = false
  const scope = yield* Effect.scope

  /** Queried only until the schema is current, because it stays so. A newer node that migrates would block the query with its lock. */
  const search = Effect.gen(function*() {
    const version = Migrations.coreVersion(yield* Migrations.current(sql))
    isCurrent = version >= Migrations.latest
    return isCurrent ? null : `at migration ${version}, needs ${Migrations.latest}`
  })
  const query = Effect.suspend(() => isCurrent ? Effect.as(sql`SELECT`, null) : search).pipe(
    Effect.tap((problem) =>
      Effect.sync(() => {
        hasAnswered = problem === null
      })
    )
  )
  // The first statement outlives the request that began it, so that a distant database does not need to answer within its timeout.
  const schema = Effect.suspend(() => hasAnswered ? query : Effect.flatMap(Effect.forkIn(query, scope), Fiber.join))

  const checks = Effect.map(schema, (problem): ReadonlyArray<Check> => [
    { name: "database", problem: null },
    { name: "schema", problem }
  ]).pipe(
    // A slow statement is no outage: the heartbeats notice one.
    Effect.timeoutOption(timeout),
    Effect.map(Option.getOrElse((): ReadonlyArray<Check> => [
      { name: "database", problem: hasAnswered ? null : "does not answer" },
      { name: "schema", problem: null }
    ])),
    Effect.orElseSucceed(() => [{ name: "database", problem: "does not answer" }]),
    Effect.map(([first, ...others]): ReadonlyArray<Check> => [
      { name: "database", problem: health.problem() ?? first?.problem ?? null },
      ...others
    ]),
    Effect.tap(([database]) =>
      database?.problem === null ? Effect.void : Effect.map(monotonicMillis, (at) => {
        failedUntil = at
        hasAnswered = false
      })
    )
  )
  return { checks, failedUntil: () => failedUntil }
})

export const layer = Layer.effect(
  Readiness,
  Effect.gen(function*() {
    const sweeper = yield* TaskSweeper
    const ownership = yield* TaskOwnership
    const { status } = yield* NodeClock
    const { reception } = yield* Changes

    const shards = yield* makeOwnersCheck
    const database = yield* makeDatabaseChecks

    const progress = Effect.gen(function*() {
      // No sweep ends while the database is away.
      const since = Math.max(yield* sweeper.lastProgress, database.failedUntil())
      const age = (yield* monotonicMillis) - since
      const problem = age < maxSweepAge ? null : `no sweep for ${Math.round(age / 1000)} s`
      return { name: "progress", problem }
    })

    const membership = Effect.sync(() => ({ name: "membership", problem: ownership.isDrained() ? "drained" : null }))

    const clock = Effect.sync(() => ({ name: "clock", problem: problemOf(status()) }))

    const notifications = Effect.sync((): Check => ({
      name: "notifications",
      problem: reception.problem,
      isWarning: true
    }))

    return Readiness.of({
      checks: Effect.map(
        Effect.all([database.checks, progress, membership, shards, clock, notifications]),
        ([found, ...others]) => [...found, ...others]
      )
    })
  })
)
