/** The actors of this node with their timers: applies rows to them, and has the decisions carried out. */
import { Effect } from "effect"
import type { RunId, TaskEvent, TaskHead, TaskId } from "../../domain/Task.ts"
import { now, type Timestamp } from "../../domain/Timestamp.ts"
import type { Run } from "../core/CoreClient.ts"
import { Settings } from "../settings/Settings.ts"
import * as Metrics from "../telemetry/Metrics.ts"
import * as Timers from "../timing/Timers.ts"
import { decide, type MutableActor, newActor } from "./Decision.ts"

/** Carries out the decisions that take a fiber. */
interface Work {
  readonly expire: (head: TaskHead, event: TaskEvent) => void
  readonly dispatch: (head: TaskHead) => void
  readonly recover: (head: TaskHead) => void
}

/** Counts the silence of its run from `at`. */
const countFrom = (actor: MutableActor | undefined, at: Timestamp, handOvers: number): void => {
  if (actor === undefined) return
  actor.quietSince = at
  actor.handOvers = handOvers
}

/** What the core answers to runs that it was given. */
const makeAnswers = () => {
  let last: number | undefined
  return {
    accepted: (actor: MutableActor | undefined, runId: RunId, declared: number | undefined, at: Timestamp): void => {
      last = declared ?? last
      if (actor?.dispatchedRun !== runId) return
      actor.silence = declared ?? null
      actor.quietSince = at
    },
    /** The core declares nothing when it refuses a run that another node has handed over: what it declared last counts. */
    refusedAgain: (actor: MutableActor | undefined, at: Timestamp): void => {
      if (actor === undefined) return
      actor.silence = actor.silence ?? last ?? null
      actor.quietSince = at
    }
  }
}

/** The actors of this node with their timers. */
export const make = Effect.fnUntraced(function*(work: Work) {
  const { acceptanceTimeout, sweepInterval } = yield* Settings
  let ownedSince = yield* now
  const answers = makeAnswers()
  const actors = new Map<TaskId, MutableActor>()
  yield* Metrics.actors.observe(() => actors.size)
  const timers = yield* Timers.make((id: TaskId) =>
    Effect.map(now, (at) => {
      const actor = actors.get(id)
      if (actor !== undefined) apply(actor.head, at)
    })
  )

  const release = (id: TaskId): void => {
    actors.delete(id)
    timers.clear(id)
  }

  const apply = (head: TaskHead, at: Timestamp): void => {
    const known = actors.get(head.uuid)
    const decision = decide(known, head, at, { acceptanceTimeout, sweepInterval, ownedSince })
    if (decision._tag === "Ignore") return
    if (decision._tag === "Release") return release(head.uuid)
    const actor = known ?? newActor(head, at)
    if (head.revision > actor.head.revision) countFrom(actor, at, 0)
    actor.head = head
    if (known === undefined) actors.set(head.uuid, actor)
    if (decision._tag === "Expire") {
      actor.ending = head.runId
      return work.expire(head, decision.event)
    }
    timers.set(head.uuid, decision.until)
    if (decision._tag === "Park") return
    actor.dispatchedRun = head.runId
    actor.silence = undefined
    return decision._tag === "Dispatch" ? work.dispatch(head) : work.recover(head)
  }

  return {
    actors,
    apply,
    release,
    nextDue: () => timers.next() ?? null,
    /** Other nodes may have dispatched runs until then. */
    setOwnedSince: (at: Timestamp): void => void (ownedSince = at),
    /** Applies a row whose run the caller dispatches. */
    applyDispatched: (head: TaskHead, at: Timestamp): void => {
      const known = actors.get(head.uuid)
      if (known === undefined) {
        actors.set(head.uuid, { ...newActor(head, at), dispatchedRun: head.runId })
      } else if (known.head.revision <= head.revision) {
        known.dispatchedRun = head.runId
        known.silence = undefined
      }
      apply(head, at)
    },
    countFrom: (id: TaskId, at: Timestamp, handOvers: number): void => countFrom(actors.get(id), at, handOvers),
    /** The core has accepted the run. */
    accepted: ({ runId, taskId }: Run, declared: number | undefined, at: Timestamp): void =>
      answers.accepted(actors.get(taskId), runId, declared, at),
    /** The core has refused a run that it has accepted before. */
    refusedAgain: (id: TaskId, at: Timestamp): void => answers.refusedAgain(actors.get(id), at),
    /** An end of this run was committed: its deadlines may expire again. */
    expiryCommitted: ({ runId, uuid }: TaskHead): void => {
      const actor = actors.get(uuid)
      if (actor?.ending === runId) actor.ending = undefined
    }
  }
})

export interface ActorTable extends Effect.Success<ReturnType<typeof make>> {}
