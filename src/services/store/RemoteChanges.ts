/** Changes that other nodes have committed, for the sweeper of this node's tasks. */
import { Context, Effect, Latch, Layer, Queue } from "effect"
import type { TaskId } from "../../domain/Task.ts"

/** Maximum queued changes; when it is exceeded, `mayHaveGaps` opens. */
const maxQueued = 10_000

/** Whether notifications of other nodes arrive, as the relay observes. Nothing arrives without a relay. */
export interface Reception {
  isAlive: boolean
  /** Why nothing has arrived for a while although the database works; null otherwise. */
  problem: string | null
  /** Messages of other nodes about changes of tasks. That a node runs, which each announces every few seconds, is none. */
  received: number
}

export class RemoteChanges extends Context.Service<RemoteChanges, {
  readonly changes: Queue.Dequeue<TaskId>
  readonly add: (uuid: TaskId) => void
  /** Open when changes may have been lost. The sweeper closes it and searches the rows. */
  readonly mayHaveGaps: Latch.Latch
  readonly reception: Reception
}>()("async-task-service/services/store/RemoteChanges") {
  static readonly layer = Layer.effect(
    RemoteChanges,
    Effect.map(Queue.dropping<TaskId>(maxQueued), (changes) => {
      const mayHaveGaps = Latch.makeUnsafe()
      return RemoteChanges.of({
        changes,
        add: (uuid) => {
          if (!Queue.offerUnsafe(changes, uuid)) mayHaveGaps.openUnsafe()
        },
        mayHaveGaps,
        reception: { isAlive: false, problem: null, received: 0 }
      })
    })
  )
}
