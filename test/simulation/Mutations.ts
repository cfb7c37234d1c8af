/** Bugs planted in turn: a simulation that does not find each of them proves nothing. */
import { Duration, Effect, Layer, Option } from "effect"
import type { TaskId } from "../../src/domain/Task.ts"
import { plus } from "../../src/domain/Timestamp.ts"
import type { RecoveryTrials } from "../../src/services/RecoveryTrials.ts"
import type { RevocationRepository } from "../../src/services/RevocationRepository.ts"
import { TaskActors } from "../../src/services/TaskActors.ts"
import type { TaskRepository } from "../../src/services/TaskRepository.ts"
import type { TokenRevocations } from "../../src/services/TokenRevocations.ts"

type Store = TaskRepository["Service"]

export interface Mutation {
  /** Of the node's requests. */
  readonly check?: TokenRevocations["Service"]["check"]
  readonly revocations?: (store: RevocationRepository["Service"]) => RevocationRepository["Service"]
  readonly store?: (store: Store) => Store
  readonly trials?: (store: RecoveryTrials["Service"]) => RecoveryTrials["Service"]
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
  "shards that come to a node without their tasks": {
    store: (store) => ({
      ...store,
      live: (after, limit, shards) => shards === undefined ? store.live(after, limit) : Effect.succeed([])
    })
  },
  "a forgotten stop: nobody tells the core of a time limit": {
    store: withoutStops("time_limit_exceeded")
  },
  "another forgotten stop: nobody tells the core of a run that it refused and has": {
    store: withoutStops("refused")
  },
  "a doubled wake: a task begins a second time, later": { actors: doubledWake },
  "a resume that is never handed over once a node has heard of it": { actors: unheardResume },
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
  "a partial turn that is gone once a time limit has ended the task": {
    store: (store) => ({
      ...store,
      get: (uuid) =>
        Effect.map(
          store.get(uuid),
          Option.map((task) => task.error?.startsWith("Task exceeded") ? { ...task, turn: null } : task)
        )
    })
  },
  "another text for a task that was not accepted": {
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
  "an acceptance clock of 25 s": {
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
  "revoked tokens that are still taken": { check: () => Effect.void },
  "a revocation that other nodes do not hear of": {
    revocations: (store) => ({
      ...store,
      since: (moment) => Effect.map(store.since(moment), (read) => ({ ...read, revocations: [] }))
    })
  },
  "a revocation that ends nothing": {
    store: (store) => ({ ...store, revoked: () => Effect.succeed([]) })
  },
  "a recovery that does not store what it tries": {
    trials: (store) => ({ ...store, begin: () => Effect.void })
  }
} satisfies Record<string, Mutation>
