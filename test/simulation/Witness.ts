/** Checks of the observations of clients and the core: resumes, results, turns, errors and the acceptance deadline. */
import { Clock, Effect, Option } from "effect"
import { isTerminal, type Task, type TaskEventTag, type TaskId } from "../../src/domain/Task.ts"
import type { Timestamp } from "../../src/domain/Timestamp.ts"
import type { ToolResult } from "../../src/domain/ToolCall.ts"
import { type Interrupt, seenOf } from "./Seen.ts"
import { acceptanceTimeout, type World } from "./World.ts"

export interface Resume {
  readonly state: unknown
  readonly results: ReadonlyArray<ToolResult>
}

export const interruptOf = (world: World, uuid: TaskId, callId: string | undefined): Interrupt | undefined =>
  seenOf(world, uuid).interrupts.find(({ calls }) => calls.some((id) => id === callId))

/** Checks a dispatch, whether or not it reaches the core. */
export const checkOffer = Effect.fnUntraced(
  function*(world: World, uuid: string, runId: string, resume: Resume | null) {
    const { recorder } = world
    const seen = seenOf(world, uuid)
    seen.offeredAt ??= yield* Clock.currentTimeMillis
    seen.firstRun ??= runId
    // Its own clock for a run that resumes the task.
    if (!seen.offered.has(runId)) seen.handedAt = undefined
    seen.offered.add(runId)
    if (runId === seen.firstRun || resume === null) {
      if ((runId === seen.firstRun) !== (resume === null)) {
        yield* recorder.violated(`run ${runId} of ${uuid} has resume ${JSON.stringify(resume)}`)
      }
      return
    }
    const results = JSON.stringify(resume.results)
    const interrupt = interruptOf(world, uuid as TaskId, resume.results[0]?.tool_call_id)
    if (interrupt === undefined || !interrupt.answers.has(results)) {
      return yield* recorder.violated(`run ${runId} of ${uuid} has results that no client sent: ${results}`)
    }
    if (JSON.stringify(resume.state) !== JSON.stringify(interrupt.state)) {
      yield* recorder.violated(
        `run ${runId} of ${uuid} has state ${JSON.stringify(resume.state)}, not ${JSON.stringify(interrupt.state)}`
      )
    }
    if (interrupt.resumed !== undefined && interrupt.resumed.runId !== runId) {
      yield* recorder.violated(`runs ${interrupt.resumed.runId} and ${runId} of ${uuid} resume the same interrupt`)
    }
    interrupt.resumed = { runId, results }
    yield* checkTaken(world, uuid, interrupt)
  }
)

/** Called when a client learns that its results were accepted. */
export const taken = Effect.fnUntraced(function*(world: World, uuid: string, interrupt: Interrupt, results: string) {
  if (interrupt.taken !== undefined) yield* world.recorder.violated(`${uuid} accepted results twice`)
  interrupt.taken = results
  yield* checkTaken(world, uuid, interrupt)
})

const checkTaken = ({ recorder }: World, uuid: string, { resumed, taken }: Interrupt) =>
  taken === undefined || resumed === undefined || taken === resumed.results
    ? Effect.void
    : recorder.violated(`${uuid} accepted ${taken} and resumed with ${resumed.results}`)

/** The events that may come with the acceptance of their run. */
const eventsOfCore = new Set(["Progressed", "Interrupted", "Completed", "Failed"])

/** Checks a task that a client read with a request sent at `askedAt`. */
export const checkRead = Effect.fnUntraced(function*(world: World, task: Task, askedAt: number) {
  yield* checkTurn(world, task, askedAt)
  if (!isTerminal(task.status) || task.completedAt === null) return
  const events = yield* world.store.eventsAfter(task.uuid, -1, 1000)
  const cause = events.at(-1)?.type
  if (cause === undefined || cause === "Created") return
  if (eventsOfCore.has(events[1]?.type ?? "") && !seenOf(world, task.uuid).hasUnmarkedEvents) {
    yield* world.recorder.violated(
      `${task.uuid} began with ${events[1]?.type}, without the acceptance that came with it`
    )
  }
  if (!isErrorOf(world, task, cause)) {
    yield* world.recorder.violated(`${task.uuid} ended by ${cause} with the error ${task.error}`)
  }
  if (cause === "AcceptanceExpired") yield* checkNotAccepted(world, task, task.completedAt)
})

/** A task may show the last turn that certainly was applied, or a later one that may have been applied. */
const checkTurn = Effect.fnUntraced(function*(world: World, { turn, uuid }: Task, askedAt: number) {
  const readAt = yield* Clock.currentTimeMillis
  const turns = [...seenOf(world, uuid).turns.values()]
  const sure = turns.filter(({ answeredAt, isApplied }) => isApplied && answeredAt < askedAt)
  const isPossible = turn === null
    ? sure.length === 0
    : turns.some(({ answeredAt, sentAt, text }) =>
      text === turn && sentAt <= readAt && !sure.some((later) => later.sentAt > answeredAt)
    )
  if (!isPossible) yield* world.recorder.violated(`${uuid} reads ${turn}; applied was ${sure.at(-1)?.text}`)
})

const isErrorOf = (world: World, { error, sub, uuid }: Task, cause: TaskEventTag): boolean => {
  const { cancelReasons, failures, tokens } = seenOf(world, uuid)
  switch (cause) {
    case "Completed":
      return error === null
    case "Failed":
      return error !== null && failures.has(error)
    case "Refused":
      return error === "Task processing failed" && failures.has(error)
    case "TimeLimitExceeded":
      return error === `Task exceeded maximum execution time (${(world.acknowledged.get(uuid)?.limit ?? NaN) / 1000}s)`
    case "AcceptanceExpired":
      return error === `Task was not accepted by the processing core within ${acceptanceTimeout / 1000} s`
    case "TokenRevoked":
      return error === "Token revoked" && [...tokens].some((token) => world.revoking.has(token))
    case "Canceled":
      return cancelReasons.has(error) || (error === "canceled" && cancelReasons.has(null))
        || (error === null && world.cancelingAll.has(sub))
    case "Withdrawn":
      return cancelReasons.has(error === "canceled" ? null : error)
    default:
      return false
  }
}

/** Maximum milliseconds between two steps that follow each other immediately. */
const breath = 1000

/** The acceptance deadline counts from the first dispatch, which only a fault can delay. */
const checkNotAccepted = Effect.fnUntraced(function*(world: World, { createdAt, uuid }: Task, completedAt: Timestamp) {
  const { offeredAt = Infinity } = seenOf(world, uuid)
  const [from, to] = [createdAt / 1000, completedAt / 1000]
  if (offeredAt - from > breath && world.faults.some((at) => at >= from - breath && at <= Math.min(offeredAt, to))) {
    return
  }
  if (offeredAt > to) return yield* world.recorder.violated(`${uuid} was not accepted, and never dispatched`)
  if (to - offeredAt < acceptanceTimeout - breath) {
    yield* world.recorder.violated(`${uuid} had ${to - offeredAt} ms to be accepted`)
  }
})

/** Checks every task as its user reads it at the end. */
export const checkEnds = Effect.fnUntraced(function*(
  world: World,
  read: (user: string, uuid: TaskId) => Effect.Effect<Option.Option<Task>>
) {
  for (const { user, uuid } of world.acknowledged.values()) {
    const askedAt = yield* Clock.currentTimeMillis
    const task = Option.getOrUndefined(yield* read(user, uuid))
    if (task === undefined) yield* world.recorder.violated(`${uuid} cannot be read at the end`)
    else yield* checkRead(world, task, askedAt)
  }
})
