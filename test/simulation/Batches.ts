/**
 * The store behind batches, as a node uses Postgres: commits and reads of one turn share a statement, statements take time, and
 * a row can make its statement fail. Statements of one node must neither change answers nor the order of changes.
 */
import { Duration, Effect, type Option } from "effect"
import { SqlError } from "effect/sql"
import type { Task, TaskId } from "../../src/domain/Task.ts"
import * as Batcher from "../../src/services/store/Batcher.ts"
import type { Commit, TaskRepository } from "../../src/services/store/TaskRepository.ts"
import type { World } from "./World.ts"

type Store = TaskRepository["Service"]

const faultOf = (Reason: typeof SqlError.ConnectionError | typeof SqlError.ConstraintError) =>
  new SqlError.SqlError({
    reason: new Reason({ message: "simulated", cause: new Error("simulated"), operation: "commit" })
  })

/** The fault of a row, and that of the store. */
const rowIsBroken = faultOf(SqlError.ConstraintError)
export const storeIsAway = faultOf(SqlError.ConnectionError)

export interface Request {
  readonly number: number
  readonly uuid: TaskId
  readonly isPoisoned: boolean
  readonly commit: Effect.Effect<Commit>
}

export type CommitOptions = Batcher.Options<Request, Commit, SqlError.SqlError>

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
      if (requests.some(({ isPoisoned }) => isPoisoned)) return yield* rowIsBroken
      return yield* Effect.forEach(requests, change)
    })
  }))

  const get = yield* Batcher.make({
    run: (reads: ReadonlyArray<{ readonly uuid: TaskId }>) =>
      Effect.andThen(execute, Effect.forEach(reads, ({ uuid }) => store.get(uuid)))
  })

  const commitOne: Store["commit"] = Effect.fnUntraced(function*(uuid, event, at, fence, claim) {
    const request: Request = {
      number: ++requests,
      uuid,
      isPoisoned: world.isRough && dice.chance(0.02),
      commit: store.commit(uuid, event, at, fence, claim)
    }
    const outcome = yield* Effect.result(commit(request))
    if (outcome._tag === "Failure") {
      if (!request.isPoisoned) yield* recorder.violated(`a change of ${uuid} failed with another`)
      return yield* Effect.die(outcome.failure)
    }
    if (outcome.success._tag !== "Unknown" && outcome.success.head.uuid !== uuid) {
      yield* recorder.violated(`a change of ${uuid} got the answer of ${outcome.success.head.uuid}`)
    }
    return outcome.success
  })

  return {
    ...store,
    commit: commitOne,
    get: (uuid: TaskId): Effect.Effect<Option.Option<Task>> => Effect.orDie(get({ uuid }))
  } satisfies Store
})
