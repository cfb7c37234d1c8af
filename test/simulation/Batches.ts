/**
 * The store behind batches, as a node uses Postgres: commits and reads of one turn share a statement, statements take time, and
 * a row can make its statement fail. Statements of one node must neither change answers nor the order of changes.
 */
import { Context, Duration, Effect, Exit } from "effect"
import type { StoreUnavailable } from "../../src/domain/StoreUnavailable.ts"
import type { TaskId } from "../../src/domain/Task.ts"
import * as Batcher from "../../src/services/store/sql/Batcher.ts"
import { type Commit, TaskStore } from "../../src/services/store/tasks/TaskStore.ts"
import type { World } from "./World.ts"

export interface Request {
  readonly number: number
  readonly uuid: TaskId
  readonly isPoisoned: boolean
  readonly commit: Effect.Effect<Commit, StoreUnavailable>
}

export type CommitOptions = Batcher.Options<Request, Commit>

/** Milliseconds. */
const longestStatement = 200

export const make = Effect.fnUntraced(function*(
  world: World,
  plant: (options: CommitOptions) => CommitOptions
) {
  const { dice, recorder, store } = world
  const last = new Map<TaskId, number>()
  let requests = 0

  const execute = Effect.suspend(() =>
    world.isRough ? Effect.sleep(Duration.millis(dice.delay(longestStatement))) : Effect.void
  )
  const lockOf = ({ uuid }: Request) => uuid

  const change = Effect.fnUntraced(function*(request: Request) {
    const { commit, number, uuid } = request
    if (number < (last.get(uuid) ?? 0)) yield* recorder.violated(`changes of ${uuid} are out of order`)
    last.set(uuid, number)
    return yield* commit
  })

  const commit = yield* Batcher.make(plant({
    keyOf: lockOf,
    lockOf,
    run: Effect.fnUntraced(function*(requests: ReadonlyArray<Request>) {
      const locks = requests.map(lockOf)
      if (locks.join() !== locks.toSorted().join()) yield* recorder.violated("two statements may lock each other out")
      yield* execute
      if (requests.some(({ isPoisoned }) => isPoisoned)) return yield* Effect.die("broken row")
      return yield* Effect.forEach(requests, change)
    })
  }))

  const get = yield* Batcher.make({
    run: (requests: ReadonlyArray<{ readonly uuid: TaskId }>) =>
      Effect.andThen(execute, Effect.forEach(requests, ({ uuid }) => store.get(uuid)))
  })

  const commitOne: TaskStore["Service"]["commit"] = Effect.fnUntraced(function*(uuid, ...rest) {
    const request: Request = {
      number: ++requests,
      uuid,
      isPoisoned: world.isRough && dice.chance(0.02),
      commit: store.commit(uuid, ...rest)
    }
    const exit = yield* Effect.exit(commit(request))
    if (Exit.isFailure(exit)) {
      if (!request.isPoisoned) yield* recorder.violated(`a change of ${uuid} failed with another`)
    } else if (exit.value._tag !== "Unknown" && exit.value.head.uuid !== uuid) {
      yield* recorder.violated(`a change of ${uuid} got the answer of ${exit.value.head.uuid}`)
    }
    return yield* exit
  })

  return Context.add(world.stores, TaskStore, { ...store, commit: commitOne, get: (uuid) => get({ uuid }) })
})
