/** Deletes tasks of requests with `store: false` an hour after their end. */
import { Duration, Effect, Layer } from "effect"
import { now, plus } from "../../domain/Timestamp.ts"
import { TaskStore } from "../store/tasks/TaskStore.ts"
import { Intervals } from "../timing/Intervals.ts"
import * as Worker from "../timing/Worker.ts"
import { FacadeLegs, unstoredFor } from "./FacadeLegs.ts"

const batch = 200

export const layer = Layer.effectDiscard(
  Effect.gen(function*() {
    const { unstored } = yield* FacadeLegs
    const { deleteTask } = yield* TaskStore
    const deleteBatch = Effect.gen(function*() {
      const due = yield* unstored(plus(yield* now, Duration.negate(unstoredFor)), batch)
      yield* Effect.forEach(due, deleteTask, { discard: true })
      return due.length
    })
    yield* Worker.make({
      name: "the deletion of responses that are not stored",
      runOnce: Effect.repeat(deleteBatch, { while: (deleted) => deleted === batch }),
      interval: (yield* Intervals).retention
    })
  })
)
