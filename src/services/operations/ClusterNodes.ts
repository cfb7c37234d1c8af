/** The nodes of the service as they describe themselves, for operators. No decision depends on it. */
import { Context, Effect, Layer } from "effect"
import type { StoreUnavailable } from "../../domain/StoreUnavailable.ts"
import * as TaskShard from "../../domain/TaskShard.ts"
import { now, type Timestamp } from "../../domain/Timestamp.ts"
import { TaskActors } from "../actors/TaskActors.ts"
import { TaskOwnership } from "../cluster/TaskOwnership.ts"

/** The address and version of a process. */
export interface Identity {
  readonly address: string
  readonly version: string
}

export interface Member extends Identity {
  readonly isSelf: boolean
  readonly startedAt: Timestamp
  readonly seenAt: Timestamp
  /** Whether the node is drained: it takes no shards. */
  readonly isDrained: boolean
  /** Null in a single process, which has no shards. */
  readonly shards: ReadonlyArray<TaskShard.TaskShard> | null
  /** Live tasks that the node owns. */
  readonly tasks: number
  /** The earliest deadline of these tasks. */
  readonly nextDue: Timestamp | null
  /** Maximum milliseconds between a deadline and its enforcement, in the current and the previous minute. */
  readonly lateness: number
}

/** The shards that no node owns; none in a single process. */
export const unownedShards = (members: ReadonlyArray<Member>): ReadonlyArray<TaskShard.TaskShard> => {
  if (members.some(({ shards }) => shards === null)) return []
  const owned = new Set(members.flatMap(({ shards }) => shards ?? []))
  return Array.from({ length: TaskShard.count }, (_, shard) => shard).filter((shard) => !owned.has(shard))
}

/** Returns an effect that describes this node at the moment it runs. */
export const makeSelf = Effect.fnUntraced(function*(identity: Identity) {
  const actors = yield* TaskActors
  const ownership = yield* TaskOwnership
  const startedAt = yield* now
  return Effect.gen(function*() {
    const { lateness, nextDue, tasks } = yield* actors.load
    const self: Member = {
      ...identity,
      isSelf: true,
      startedAt,
      seenAt: yield* now,
      isDrained: ownership.isDrained(),
      shards: ownership.shards() ?? null,
      tasks,
      nextDue,
      lateness
    }
    return self
  })
})

export class ClusterNodes extends Context.Service<ClusterNodes, {
  readonly all: Effect.Effect<ReadonlyArray<Member>, StoreUnavailable>
}>()("async-task-service/services/operations/ClusterNodes") {
  /** A single process without other nodes. */
  static readonly layerAlone = (identity: Identity) =>
    Layer.effect(
      ClusterNodes,
      Effect.map(makeSelf(identity), (self) => ClusterNodes.of({ all: Effect.map(self, (one) => [one]) }))
    )
}
