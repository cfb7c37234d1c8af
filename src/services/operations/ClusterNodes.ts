/** The nodes of the service as they describe themselves, for operators. No decision depends on it. */
import { Context, Duration, Effect, Fiber, FiberHandle, Layer, Schema } from "effect"
import { SecureRandom } from "effect/crypto"
import type { StoreUnavailable } from "../../domain/StoreUnavailable.ts"
import * as TaskShard from "../../domain/TaskShard.ts"
import { monotonicMillis, now, Timestamp } from "../../domain/Timestamp.ts"
import { TaskActors } from "../actors/TaskActors.ts"
import { TaskOwnership } from "../cluster/TaskOwnership.ts"
import { TaskStore } from "../store/tasks/TaskStore.ts"
import { logFault } from "../timing/Retry.ts"

/** The report of a node about itself. */
export const NodeReport = Schema.Struct({
  address: Schema.String,
  version: Schema.String,
  /** Identifies the process among all that have reported. */
  instance: Schema.String,
  startedAt: Timestamp,
  seenAt: Timestamp,
  /** Whether the node is drained: it takes no shards. */
  isDrained: Schema.Boolean,
  /** Null in a single process, which has no shards. */
  shards: Schema.NullOr(Schema.Array(Schema.Int)),
  /** Live tasks of the node that run, or whose deadline is near. */
  tasks: Schema.Int,
  /** The earliest deadline of its live tasks, as of the last 20 s, or that of its actors while the search fails. */
  nextDue: Schema.NullOr(Timestamp),
  /** Maximum milliseconds between a deadline and its enforcement, in the current and the previous minute. */
  lateness: Schema.Int
})

/** The address and version of a process. */
export type Identity = Pick<typeof NodeReport.Type, "address" | "version">

export interface Member extends Schema.Schema.Type<typeof NodeReport> {
  readonly isSelf: boolean
}

/** The state that an operator wants a node to be in. */
export const Wanted = Schema.Literals(["drained", "taken_in"])
export type Wanted = typeof Wanted.Type

/** The shards that no node owns; none in a single process. */
export const unownedShards = (members: ReadonlyArray<Member>): ReadonlyArray<TaskShard.TaskShard> => {
  if (members.some(({ shards }) => shards === null)) return []
  const owned = new Set(members.flatMap(({ shards }) => shards ?? []))
  return Array.from({ length: TaskShard.count }, (_, shard) => shard).filter((shard) => !owned.has(shard))
}

const nextDeadlineInterval = Duration.seconds(10)
/** An older deadline is not reported: the searches fail. */
const maxDeadlineAge = Duration.times(nextDeadlineInterval, 2)
/** A description waits no longer for a search, because it may read all live tasks: those of other nodes are skipped. */
const searchPatience = Duration.seconds(1)

/** The earliest deadline of this node's live tasks. It is searched for when it is asked for, at most once per interval. */
const makeNextDeadline = Effect.gen(function*() {
  const store = yield* TaskStore
  const ownership = yield* TaskOwnership
  const searching = yield* FiberHandle.make<void, never>()
  let found: Timestamp | null = null
  let searchedAt = -Infinity
  const search = Effect.gen(function*() {
    const shards = ownership.shards()
    found = shards?.length === 0 ? null : yield* store.nextDeadline(shards)
    searchedAt = yield* monotonicMillis
  }).pipe(Effect.catchCause(logFault("the search for the next deadline failed")))
  return Effect.gen(function*() {
    if ((yield* monotonicMillis) - searchedAt >= Duration.toMillis(nextDeadlineInterval)) {
      const fiber = yield* FiberHandle.run(searching, search, { onlyIfMissing: true })
      yield* Effect.timeoutOption(Fiber.await(fiber), searchPatience)
    }
    return (yield* monotonicMillis) - searchedAt > Duration.toMillis(maxDeadlineAge) ? null : found
  })
})

/** The id of this process, and an effect that describes this node at the moment it runs. */
export const makeSelf = Effect.fnUntraced(function*(identity: Identity) {
  const actors = yield* TaskActors
  const ownership = yield* TaskOwnership
  const random = yield* SecureRandom.SecureRandom
  const instance = yield* random.uuidV7()
  const startedAt = yield* now
  const nextDeadline = yield* makeNextDeadline
  const describe = Effect.gen(function*() {
    const { lateness, nextDue, tasks } = yield* actors.load
    const shards = ownership.shards()
    const found = yield* nextDeadline
    const self: Member = {
      ...identity,
      instance,
      isSelf: true,
      startedAt,
      seenAt: yield* now,
      isDrained: ownership.isDrained(),
      shards: shards ?? null,
      tasks,
      nextDue: nextDue === null || (found !== null && found < nextDue) ? found : nextDue,
      lateness
    }
    return self
  })
  return { instance, describe }
})

/** Makes this node what an operator wants it to be, unless it is. */
export const makeComply = Effect.map(
  TaskOwnership,
  ({ drain, isDrained, takeIn }) => (wanted: Wanted | null) =>
    wanted === null || isDrained() === (wanted === "drained")
      ? Effect.void
      : Effect.andThen(
        Effect.logInfo(`${wanted === "drained" ? "draining" : "taking in"}: an operator asked for it`),
        wanted === "drained" ? drain : takeIn
      )
)

export class ClusterNodes extends Context.Service<ClusterNodes, {
  readonly all: Effect.Effect<ReadonlyArray<Member>, StoreUnavailable>
  /** Asks a node, which receives it with its next report; false when no node has the instance. */
  readonly request: (instance: string, wanted: Wanted) => Effect.Effect<boolean, StoreUnavailable>
}>()("async-task-service/services/operations/ClusterNodes") {
  /** A single process without other nodes. */
  static readonly layerAlone = (identity: Identity) =>
    Layer.effect(
      ClusterNodes,
      Effect.gen(function*() {
        const { describe, instance: own } = yield* makeSelf(identity)
        const comply = yield* makeComply
        return ClusterNodes.of({
          all: Effect.map(describe, (one) => [one]),
          request: Effect.fnUntraced(function*(instance, wanted) {
            if (instance !== own) return false
            yield* comply(wanted)
            return true
          })
        })
      })
    )
}
