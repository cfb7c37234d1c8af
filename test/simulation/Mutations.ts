/** Planted bugs. The simulation has to find each of them, or it proves nothing. */
import { Duration, Effect, Layer, Option, Struct } from "effect"
import type { TaskId } from "../../src/domain/Task.ts"
import { plus } from "../../src/domain/Timestamp.ts"
import { TaskActors } from "../../src/services/actors/TaskActors.ts"
import type { RecoveryTrials } from "../../src/services/store/RecoveryTrials.ts"
import type { RevocationRepository } from "../../src/services/store/RevocationRepository.ts"
import type { TaskRepository } from "../../src/services/store/TaskRepository.ts"
import type { TokenRevocations } from "../../src/services/tokens/TokenRevocations.ts"
import { type CommitOptions, storeIsAway } from "./Batches.ts"

type Store = TaskRepository["Service"]

export interface Mutation {
  /** Replaces the token check of the node's requests. */
  readonly check?: TokenRevocations["Service"]["check"]
  readonly revocations?: (store: RevocationRepository["Service"]) => RevocationRepository["Service"]
  readonly store?: (store: Store) => Store
  readonly trials?: (store: RecoveryTrials["Service"]) => RecoveryTrials["Service"]
  readonly batches?: (options: CommitOptions) => CommitOptions
  readonly actors?: Layer.Layer<TaskActors, never, TaskActors>
}

const withoutStops = (forgotten: string) => (store: Store): Store => ({
  ...store,
  claimStops: (at, lease, limit) =>
    Effect.map(store.claimStops(at, lease, limit), (stops) => stops.filter(({ reason }) => reason !== forgotten))
})

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

const unheardResume = Layer.effect(
  TaskActors,
  Effect.map(TaskActors, (actors) => {
    const heard = new Map<TaskId, number>()
    return {
      ...actors,
      wake: ({ revision, uuid }) => Effect.sync(() => void heard.set(uuid, revision)),
      ensure: (head) => (heard.get(head.uuid) ?? -1) < head.revision ? actors.ensure(head) : Effect.void
    }
  })
)

export const mutations = {
  "a missing fence: events of earlier runs are applied": {
    store: (store) => ({
      ...store,
      commit: (uuid, event, at, _fence, claim) => store.commit(uuid, event, at, undefined, claim)
    })
  },
  "a skipped sweep: tasks that lost their actor are never found": {
    store: (store) => ({
      ...store,
      live: () => Effect.succeed([]),
      overdue: () => Effect.succeed([])
    })
  },
  "a gained shard whose tasks are not loaded": {
    store: (store) => ({
      ...store,
      live: (after, limit, shards) => shards === undefined ? store.live(after, limit) : Effect.succeed([])
    })
  },
  "no stop request after a time limit": {
    store: withoutStops("time_limit_exceeded")
  },
  "no stop request for a run that the core refused after accepting it": {
    store: withoutStops("refused")
  },
  "a doubled wake: a task is dispatched a second time": { actors: doubledWake },
  "a resume that is never dispatched after a notification": { actors: unheardResume },
  "time limits that are one second too long": {
    store: (store) => ({
      ...store,
      create: (task, maxActive, claim) =>
        store.create({ ...task, deadline: plus(task.deadline, Duration.seconds(1)) }, maxActive, claim)
    })
  },
  "an active-task limit that is off by one": {
    store: (store) => ({ ...store, create: (task, maxActive, claim) => store.create(task, maxActive + 1, claim) })
  },
  "an idempotency key that is not stored": {
    store: (store) => ({ ...store, create: (task, maxActive) => store.create(task, maxActive) })
  },
  "a resume without the core's state": {
    store: (store) => ({
      ...store,
      pendingRun: (uuid) =>
        Effect.map(
          store.pendingRun(uuid),
          Option.map((run) => ({ ...run, resume: run.resume && { ...run.resume, state: null } }))
        )
    })
  },
  "a partial turn that is lost when a time limit ends the task": {
    store: (store) => ({
      ...store,
      get: (uuid) =>
        Effect.map(
          store.get(uuid),
          Option.map((task) => task.error?.startsWith("Task exceeded") ? { ...task, turn: null } : task)
        )
    })
  },
  "a wrong error message for a task that was not accepted": {
    store: (store) => ({
      ...store,
      commit: (uuid, event, at, fence, claim) =>
        store.commit(
          uuid,
          event._tag === "AcceptanceExpired" ? { ...event, error: "The core did not answer" } : event,
          at,
          fence,
          claim
        )
    })
  },
  "an acceptance deadline of 25 s": {
    store: (store) => ({
      ...store,
      create: (task, maxActive, claim) =>
        store.create(
          {
            ...task,
            acceptanceDeadline: task.acceptanceDeadline && plus(task.acceptanceDeadline, Duration.seconds(-5))
          },
          maxActive,
          claim
        )
    })
  },
  "revoked tokens that are still accepted": { check: () => Effect.void },
  "a revocation that does not reach other nodes": {
    revocations: (store) => ({
      ...store,
      since: (moment) => Effect.map(store.since(moment), (read) => ({ ...read, revocations: [] }))
    })
  },
  "a revocation that ends no task": {
    store: (store) => ({ ...store, revoked: () => Effect.succeed([]) })
  },
  "a recovery that does not store its trials": {
    trials: (store) => ({ ...store, begin: () => Effect.void })
  },
  "an answer for the wrong request of a batch": {
    batches: (options) => ({
      ...options,
      run: (requests) => Effect.map(options.run(requests), (answers) => answers.toReversed())
    })
  },
  "a neighbour that is lost with a failed row": {
    batches: (options) => ({ ...options, run: (requests) => Effect.mapError(options.run(requests), () => storeIsAway) })
  },
  "two changes of one task out of order": {
    batches: Struct.omit(["keyOf"])
  },
  "a deadlock between batches": {
    batches: Struct.omit(["lockOf"])
  }
} satisfies Record<string, Mutation>
