/** Bugs planted in turn: a simulation that does not find each of them proves nothing. */
import { Duration, Effect, Layer } from "effect"
import { plus } from "../../src/domain/Timestamp.ts"
import { TaskActors } from "../../src/services/TaskActors.ts"
import type { TaskRepository } from "../../src/services/TaskRepository.ts"

type Store = TaskRepository["Service"]

export interface Mutation {
  readonly store?: (store: Store) => Store
  readonly actors?: Layer.Layer<TaskActors, never, TaskActors>
}

const doubledWake = Layer.effect(
  TaskActors,
  Effect.map(TaskActors, (actors) => ({
    ...actors,
    begin: (head, run) =>
      Effect.andThen(
        actors.begin(head, run),
        Effect.forkDetach(Effect.delay(actors.begin(head, run), Duration.seconds(20)))
      )
  }))
)

export const mutations = {
  "a dropped guard: events count whichever run they are of": {
    store: (store) => ({
      ...store,
      commit: (uuid, event, at, _fence, claim) => store.commit(uuid, event, at, undefined, claim)
    })
  },
  "a skipped sweep: tasks that lost their actor are not found": {
    store: (store) => ({
      ...store,
      live: () => Effect.succeed([]),
      overdue: () => Effect.succeed([])
    })
  },
  "a forgotten stop: nobody tells the core of a time limit": {
    store: (store) => ({
      ...store,
      claimStops: (at, lease, limit) =>
        Effect.map(
          store.claimStops(at, lease, limit),
          (stops) => stops.filter(({ reason }) => reason !== "time_limit_exceeded")
        )
    })
  },
  "a doubled wake: a task begins a second time, later": { actors: doubledWake },
  "a clock off by one: time limits are a second too long": {
    store: (store) => ({
      ...store,
      create: (task, maxActive, claim) =>
        store.create({ ...task, deadline: plus(task.deadline, Duration.seconds(1)) }, maxActive, claim)
    })
  },
  "an active limit off by one": {
    store: (store) => ({ ...store, create: (task, maxActive, claim) => store.create(task, maxActive + 1, claim) })
  },
  "an idempotency key that is not claimed": {
    store: (store) => ({ ...store, create: (task, maxActive) => store.create(task, maxActive) })
  },
  "a revocation that ends nothing": {
    store: (store) => ({ ...store, revoked: () => Effect.succeed([]) })
  }
} satisfies Record<string, Mutation>
