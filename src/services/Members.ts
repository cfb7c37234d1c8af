/** The nodes of the service as they describe themselves, for operators. Nothing is decided by it. */
import { Context, Effect, Layer } from "effect"
import type { TaskShard } from "../domain/TaskShard.ts"
import { now, type Timestamp } from "../domain/Timestamp.ts"
import { TaskActors } from "./TaskActors.ts"
import { TaskOwnership } from "./TaskOwnership.ts"

/** What a process is called, and what it runs. */
export interface Identity {
  readonly address: string
  readonly version: string
}

export interface Member extends Identity {
  readonly isSelf: boolean
  readonly startedAt: Timestamp
  readonly seenAt: Timestamp
  /** It was drained, and takes no shards. */
  readonly hasLeft: boolean
  /** Null where nothing is divided. */
  readonly shards: ReadonlyArray<TaskShard> | null
  /** Tasks that it drives on. */
  readonly tasks: number
  /** When the first of their clocks runs out. */
  readonly nextDue: Timestamp | null
  /** Milliseconds by which the latest end by a clock came too late, in the last minute or two. */
  readonly lateness: number
}

/** Describes this node, from its start on. */
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
      hasLeft: ownership.hasLeft(),
      shards: ownership.shards() ?? null,
      tasks,
      nextDue,
      lateness
    }
    return self
  })
})

export class Members extends Context.Service<Members, {
  readonly all: Effect.Effect<ReadonlyArray<Member>>
}>()("async-task-service/services/Members") {
  /** One process, which knows of no other. */
  static readonly layerAlone = (identity: Identity) =>
    Layer.effect(
      Members,
      Effect.map(makeSelf(identity), (self) => Members.of({ all: Effect.map(self, (one) => [one]) }))
    )
}
