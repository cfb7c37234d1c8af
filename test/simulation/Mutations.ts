/** Planted bugs. The simulation has to find each of them, or it proves nothing. */
import { Duration, Effect, Layer, Option, Struct } from "effect"
import { StoreUnavailable } from "../../src/domain/StoreUnavailable.ts"
import type { TaskHead, TaskId } from "../../src/domain/Task.ts"
import { now, plus, type Timestamp } from "../../src/domain/Timestamp.ts"
import { TaskActors } from "../../src/services/actors/TaskActors.ts"
import type { MemoryTables } from "../../src/services/store/MemoryTables.ts"
import type { Admission, RunQueue } from "../../src/services/store/queue/RunQueue.ts"
import type { RevocationRepository } from "../../src/services/store/revocations/RevocationRepository.ts"
import type { TaskStore } from "../../src/services/store/tasks/TaskStore.ts"
import type { WebhookStore } from "../../src/services/store/webhooks/WebhookStore.ts"
import type { TokenRevocations } from "../../src/services/tokens/TokenRevocations.ts"
import type { CommitOptions } from "./Batches.ts"

export interface Mutation {
  /** Replaces the token check of the node's requests. */
  readonly check?: TokenRevocations["Service"]["check"]
  readonly revocations?: (store: RevocationRepository["Service"]) => RevocationRepository["Service"]
  readonly store?: (store: TaskStore["Service"]) => TaskStore["Service"]
  readonly queue?: (queue: RunQueue["Service"], tables: MemoryTables["Service"]) => RunQueue["Service"]
  readonly webhooks?: (store: WebhookStore["Service"]) => WebhookStore["Service"]
  readonly batches?: (options: CommitOptions) => CommitOptions
  readonly actors?: Layer.Layer<TaskActors, never, TaskActors>
}

const withoutStops = (forgotten: string): Mutation => ({
  store: (outbox) => ({
    ...outbox,
    claimStops: (...call) =>
      Effect.map(outbox.claimStops(...call), (stops) => stops.filter(({ reason }) => reason !== forgotten))
  })
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

/** An event without effect counts for nobody, although the row has its moment. */
const countsChangesOnly = (): Mutation => {
  const changedAt = new Map<TaskId, Timestamp | null>()
  const without = (head: TaskHead): TaskHead => ({ ...head, lastEventAt: changedAt.get(head.uuid) ?? head.lastEventAt })
  return {
    store: (store) => ({
      ...store,
      commit: (...call) =>
        Effect.map(store.commit(...call), (outcome) => {
          if (outcome._tag === "Applied") changedAt.set(outcome.head.uuid, outcome.head.lastEventAt)
          return outcome._tag === "NoEffect" ? { ...outcome, head: without(outcome.head) } : outcome
        }),
      claimSilent: (runs) =>
        Effect.flatMap(now, (at) => store.claimSilent(runs.map((run) => ({ ...run, lastEventAt: at })))),
      running: (...page) => Effect.map(store.running(...page), (heads) => heads.map(without))
    })
  }
}

/** Each node that starts believes that the runs of dead ones keep their places. */
const lostPlaces = (): Mutation => {
  const lost = new WeakMap<MemoryTables["Service"], number>()
  return {
    queue: (queue, tables) => {
      const held = [...tables.tasks.values()].filter(({ room }) => room === "held").length
      lost.set(tables, (lost.get(tables) ?? 0) + held)
      return {
        ...queue,
        admit: (admission) =>
          queue.admit({ ...admission, limits: limitedTo(admission, (runs) => Math.max(0, runs - lost.get(tables)!)) })
      }
    }
  }
}

const limitedTo = ({ limits }: Admission, change: (runs: number) => number) => ({
  ...limits,
  runs: limits.runs === null ? null : change(limits.runs)
})

export const mutations = {
  "a place that is counted twice": {
    queue: (queue) => ({
      ...queue,
      admit: (admission) => queue.admit({ ...admission, limits: limitedTo(admission, (runs) => Math.floor(runs / 2)) })
    })
  },
  "a place that is not counted": {
    queue: (queue) => ({
      ...queue,
      admit: (admission) => queue.admit({ ...admission, limits: limitedTo(admission, (runs) => runs + 1) })
    })
  },
  "a place that is lost with its node": lostPlaces(),
  "an acceptance clock that is not reset by a core without room": {
    queue: (queue, tables) => ({
      ...queue,
      putBack: (uuid, ...rest) =>
        Effect.suspend(() => {
          const row = tables.tasks.get(uuid)
          const before = row?.acceptanceDeadline
          return Effect.map(queue.putBack(uuid, ...rest), (head) => {
            if (row === undefined || before === undefined || head === undefined) return head
            row.acceptanceDeadline = before
            return { ...head, acceptanceDeadline: before }
          })
        })
    })
  },
  "an order that starves: the last one is the next": {
    queue: (queue, tables) => ({
      ...queue,
      admit: (admission) =>
        Effect.suspend(() => {
          for (const row of tables.waiting.values()) row.ticket = -row.since
          return queue.admit(admission)
        })
    })
  },
  "a run that the core has lost is never dispatched again": {
    store: (writes) => ({ ...writes, claimSilent: () => Effect.succeed([]) })
  },
  "a sign of life that does not count": countsChangesOnly(),
  "a missing fence: events of earlier runs are applied": {
    store: (writes) => ({
      ...writes,
      commit: (uuid, event, at, _fence, ...rest) => writes.commit(uuid, event, at, undefined, ...rest)
    })
  },
  "an acceptance that is not recorded with the first event": {
    store: (writes) => ({
      ...writes,
      commit: (uuid, event, at, fence, ...rest) =>
        writes.commit(uuid, event, at, fence && { ...fence, recordsAcceptance: false }, ...rest)
    })
  },
  "a skipped sweep: tasks that lost their actor are never found": {
    store: (scans) => ({
      ...scans,
      running: () => Effect.succeed([]),
      dueWithin: () => Effect.succeed([]),
      overdue: () => Effect.succeed([])
    })
  },
  "a gained shard whose tasks are not loaded": {
    store: (scans) => ({
      ...scans,
      running: (after, limit, shards) => shards === undefined ? scans.running(after, limit) : Effect.succeed([])
    })
  },
  "no stop request after a time limit": withoutStops("time_limit_exceeded"),
  "no stop request for a withdrawn task": withoutStops("canceled"),
  "no stop request for a run that the core refused after accepting it": withoutStops("refused"),
  "a doubled wake: a task is dispatched a second time": { actors: doubledWake },
  "a resume that is never dispatched after a notification": { actors: unheardResume },
  "time limits that are one second too long": {
    store: (writes) => ({
      ...writes,
      create: (task, ...rest) => writes.create({ ...task, deadline: plus(task.deadline, Duration.seconds(1)) }, ...rest)
    })
  },
  "an active-task limit that is off by one": {
    store: (writes) => ({
      ...writes,
      create: (task, maxActive, ...rest) => writes.create(task, maxActive + 1, ...rest)
    })
  },
  "an idempotency key that is not stored": {
    store: (writes) => ({
      ...writes,
      create: (task, maxActive, _claim, entry) => writes.create(task, maxActive, undefined, entry)
    })
  },
  "a resume without the core's state": {
    store: (reads) => ({
      ...reads,
      pendingRun: (uuid) =>
        Effect.map(
          reads.pendingRun(uuid),
          Option.map((run) => ({ ...run, resume: run.resume && { ...run.resume, state: null } }))
        )
    })
  },
  "a partial turn that is lost when a time limit ends the task": {
    store: (reads) => ({
      ...reads,
      get: (uuid) =>
        Effect.map(
          reads.get(uuid),
          Option.map((task) => task.error?.startsWith("Task exceeded") ? { ...task, turn: null } : task)
        )
    })
  },
  "a wrong error message for a task that was not accepted": {
    store: (writes) => ({
      ...writes,
      commit: (uuid, event, ...rest) =>
        writes.commit(
          uuid,
          event._tag === "AcceptanceExpired" ? { ...event, error: "The core did not answer" } : event,
          ...rest
        )
    })
  },
  "an acceptance deadline of 25 s": {
    store: (writes) => ({
      ...writes,
      create: (task, ...rest) =>
        writes.create(
          {
            ...task,
            acceptanceDeadline: task.acceptanceDeadline && plus(task.acceptanceDeadline, Duration.seconds(-5))
          },
          ...rest
        )
    })
  },
  "webhooks that are owed and never stored": {
    store: (writes) => ({
      ...writes,
      create: (task, ...rest) => writes.create({ ...task, callbackUrl: null }, ...rest)
    })
  },
  "a webhook that is given up after its first failure": {
    webhooks: (store) => ({
      ...store,
      recordOutcomes: (outcomes) =>
        store.recordOutcomes(outcomes.map((outcome) => ({ ...outcome, nextAttemptAt: null })))
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
    store: (scans) => ({ ...scans, revoked: () => Effect.succeed([]) })
  },
  "an answer for the wrong request of a batch": {
    batches: (options) => ({
      ...options,
      run: (requests) => Effect.map(options.run(requests), (answers) => answers.toReversed())
    })
  },
  "a neighbour that is lost with a failed row": {
    batches: (options) => ({
      ...options,
      run: (requests) =>
        Effect.catchDefect(options.run(requests), (cause) => Effect.fail(new StoreUnavailable({ cause })))
    })
  },
  "two changes of one task out of order": {
    batches: Struct.omit(["keyOf"])
  },
  "a deadlock between batches": {
    batches: Struct.omit(["lockOf"])
  }
} satisfies Record<string, Mutation>
