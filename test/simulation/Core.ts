/**
 * A simulated processing core that acts at random: it delays, refuses, loses responses and whole runs, restarts without them, falls
 * silent, and repeats and reorders its events. It works on a run until it ends the run, receives a stop request, or receives a
 * 409.
 */
import { Clock, Duration, Effect, Fiber, type Result } from "effect"
import { type CoreEvent, toReport } from "../../src/domain/CoreProtocol.ts"
import { CoreUnavailable } from "../../src/domain/DispatchRetry.ts"
import type { TaskId } from "../../src/domain/Task.ts"
import type { CoreResponse } from "../../src/services/core/CoreClient.ts"
import type { CoreEnd, Node } from "./Node.ts"
import { seenOf } from "./Seen.ts"
import { checkOffer } from "./Witness.ts"
import { dispatchTime, observe, type World } from "./World.ts"

interface CoreRun {
  readonly runId: string
  readonly taskId: TaskId
  readonly startedAt: number
  /** Whether every event of the run reports its acceptance too. */
  accepted: boolean
  /** `live`: the core works on the run, or believes that it should. */
  state: "live" | "ended" | "stopped" | "lost"
  endedAt: number
  /** When the service last answered an event of the run. */
  heardAt: number
}

type Report = CoreEvent extends infer Event ? Event extends CoreEvent ? Omit<Event, "task_id" | "run_id"> : never
  : never

export interface Core {
  readonly end: CoreEnd
  /** Whether the core ever received the run. */
  readonly knows: (runId: string) => boolean
  readonly liveRuns: () => ReadonlyArray<CoreRun>
  /** Whether it has had no room since then, in milliseconds. */
  readonly isFullSince: (at: number) => boolean
  /** The core dies silently and starts again: it has lost its runs. */
  readonly restart: Effect.Effect<void>
}

const turn = (text: string) => ({ output: [{ type: "text", text }], messages: [], metadata: {} })

/** The `error` that a client reads, by failure code. */
const failures = {
  assistant_not_found: "Assistant is not available",
  payment_required: "Insufficient balance",
  token_revoked: "Token revoked",
  internal: "Task processing failed"
}

const isAnswer = (result: Result.Result<unknown, { readonly _tag: string }>) =>
  result._tag === "Success" || result.failure._tag === "RunSuperseded"

/** Weights of the faults of a call to the core. */
const faults = { none: 40, away: 4, busy: 3, "lost request": 2, "lost reply": 2, slow: 2 }

/** Weight of refusing a run that the core already has. */
const refusalOfKnown = 3

/** Milliseconds after which no repeated start of an ended run can still be in flight. */
const inFlight = 15_000

/** Milliseconds between two signs of life of a run. */
const signInterval = 8000

export const make = (world: World, nodes: () => ReadonlyArray<Node>): Core => {
  const { dice, recorder } = world
  const runs = new Map<string, CoreRun>()
  /** The last interrupt of each task. */
  const interrupts = new Map<TaskId, CoreEvent>()
  const liveRuns = () => [...runs.values()].filter(({ state }) => state === "live")
  let eventNumber = 0
  /** When it last took a run that it did not have, in milliseconds. */
  let takenAt = -Infinity
  const declaration = JSON.stringify(world.silence === undefined ? {} : { silence_seconds: world.silence })

  /** Reports an event to random nodes until one responds. */
  const report = Effect.fnUntraced(function*(run: CoreRun, event: Report) {
    const body = { ...event, accepted: run.accepted, task_id: run.taskId, run_id: run.runId } as CoreEvent
    const reportedTurn = turnOf(run, event, yield* Clock.currentTimeMillis)
    for (let attempt = 0; run.state !== "lost"; attempt++) {
      const node = nodes().length === 0 ? undefined : dice.pick(nodes())
      if (node !== undefined) {
        const sentAt = yield* Clock.currentTimeMillis
        const result = yield* Effect.result(node.call(node.tasks.report(toReport(body))))
        const answer = result._tag === "Success" ? `applied: ${result.success.applied}` : result.failure._tag
        yield* recorder.note("core", `${event.type} ${event.event_id} of run ${run.runId} to ${node.name}: ${answer}`)
        if (reportedTurn !== undefined && !reportedTurn.isApplied && isAnswer(result)) {
          reportedTurn.answeredAt = Math.min(reportedTurn.answeredAt, yield* Clock.currentTimeMillis)
        }
        if (result._tag === "Success") {
          run.heardAt = yield* Clock.currentTimeMillis
          if (reportedTurn !== undefined && result.success.applied) {
            Object.assign(reportedTurn, { sentAt, answeredAt: yield* Clock.currentTimeMillis, isApplied: true })
          }
          yield* observe(world, run.taskId, result.success.status, sentAt)
          if (result.success.applied) yield* checkApplied(run, event, sentAt)
          return
        }
        if (result.failure._tag === "TaskNotFound") {
          return yield* recorder.violated(`${run.taskId} is not known to ${node.name}`)
        }
        if (result.failure._tag === "RunSuperseded") {
          return void (run.state = run.state === "live" ? "stopped" : run.state)
        }
      }
      yield* Effect.sleep(Duration.millis(200 + dice.delay(5000)))
    }
  })

  const turnOf = (run: CoreRun, event: Report, at: number) => {
    if (!("turn" in event) || !event.turn) return undefined
    const { turns } = seenOf(world, run.taskId)
    const known = turns.get(String(event.event_id))
    if (known !== undefined) return known
    const reportedTurn = { text: JSON.stringify(event.turn), sentAt: at, answeredAt: Infinity, isApplied: false }
    turns.set(String(event.event_id), reportedTurn)
    return reportedTurn
  }

  const checkApplied = Effect.fnUntraced(function*(run: CoreRun, event: Report, sentAt: number) {
    const later = [...runs.values()].some(({ runId, startedAt, taskId }) =>
      taskId === run.taskId && runId !== run.runId && startedAt > run.startedAt && startedAt < sentAt
    )
    if (later) yield* recorder.violated(`${event.type} of run ${run.runId} counted although a later one had started`)
  })

  const isEnd = ({ type }: Report) => type === "completed" || type === "failed" || type === "interrupted"

  const send = Effect.fnUntraced(function*(run: CoreRun, event: Report) {
    if (run.state !== "live") return
    if (isEnd(event)) {
      run.state = "ended"
      run.endedAt = Infinity
    }
    const answered = Effect.map(Clock.currentTimeMillis, (at) => {
      if (isEnd(event)) run.endedAt = at
    })
    const sending = Effect.andThen(report(run, event), answered)
    // Events may be late, repeated and out of order: the core does not wait for a response before it sends the next one.
    if (world.isRough && dice.chance(0.15)) {
      yield* Effect.forkIn(Effect.delay(report(run, event), Duration.millis(dice.delay(20_000))), world.scope)
    }
    if (world.isRough && dice.chance(0.1)) yield* Effect.forkIn(sending, world.scope)
    else yield* sending
  })

  const lose = (run: CoreRun) =>
    Effect.map(Clock.currentTimeMillis, (at) => {
      run.state = "lost"
      world.lost.set(run.runId, at)
    })

  const giveSigns = Effect.fnUntraced(function*(run: CoreRun) {
    while (run.state === "live") {
      yield* Effect.sleep(Duration.millis(signInterval))
      yield* send(run, { type: "progress", event_id: `e${++eventNumber}` })
    }
  })

  const work = Effect.fnUntraced(function*(run: CoreRun) {
    const pause = Effect.suspend(() => Effect.sleep(Duration.millis(dice.delay(15_000))))
    const eventId = () => `e${++eventNumber}`
    const newTurn = () => turn(`text ${eventNumber}`)
    const anyTurn = () => dice.chance(0.5) ? { turn: newTurn() } : {}
    yield* pause
    if (dice.chance(0.1)) yield* Effect.sleep("35 seconds")
    const start = dice.weigh({ processing: 8, accepted: 3, both: 1, neither: 1 })
    run.accepted = start === "accepted" || start === "both"
    if (!run.accepted) seenOf(world, run.taskId).hasUnmarkedEvents = true
    if (start === "processing" || start === "both") yield* send(run, { type: "processing", event_id: eventId() })
    const gives = world.silence !== undefined && start !== "neither"
    const signs = gives ? yield* Effect.forkIn(giveSigns(run), world.scope) : undefined
    for (let count = dice.between(0, 3); count > 0; count--) {
      yield* pause
      yield* send(run, { type: "progress", event_id: eventId(), turn: newTurn() })
    }
    yield* pause
    switch (dice.weigh({ completed: 5, interrupted: 4, failed: 1, silence: 1, loss: 0.5 })) {
      case "completed":
        return yield* send(run, { type: "completed", event_id: eventId(), turn: newTurn() })
      case "failed": {
        const code = dice.pick(["assistant_not_found", "payment_required", "token_revoked", "internal"] as const)
        const message = dice.chance(0.3) ? "The model is overloaded" : undefined
        const error = code === "internal" && message !== undefined ? message : failures[code]
        seenOf(world, run.taskId).failures.add(error)
        return yield* send(run, { type: "failed", event_id: eventId(), code, message, ...anyTurn() })
      }
      case "interrupted": {
        // A run that was lost and begun again may have been interrupted before.
        const call = { id: `call ${eventNumber} of ${run.runId}`, name: "look", arguments: {} }
        const calls = dice.chance(0.3) ? [call, { ...call, id: `other ${call.id}` }] as const : [call] as const
        const state = dice.chance(0.8) ? { of: run.runId } : undefined
        seenOf(world, run.taskId).interrupts.push({
          calls: calls.map(({ id }) => id),
          state: state ?? null,
          answers: new Set(),
          taken: undefined,
          resumed: undefined
        })
        const event = { type: "interrupted", event_id: eventId(), tool_calls: calls, ...anyTurn() } as const
        const interrupted = state === undefined ? event : { ...event, state }
        interrupts.set(run.taskId, { ...interrupted, task_id: run.taskId, run_id: run.runId })
        return yield* send(run, interrupted)
      }
      case "loss":
        // After a restart the core may work on the same run anew.
        if (run.state !== "live") return
        yield* recorder.note("core", `loses run ${run.runId}`)
        return yield* lose(run)
      case "silence":
        if (signs !== undefined && dice.chance(0.5)) return
        if (signs !== undefined) yield* Fiber.interrupt(signs)
        return yield* recorder.note("core", `goes silent about run ${run.runId}`)
    }
  })

  /** Long after the last fault, and within the silence that the core declares, nobody hands a run over again. */
  const checkDisturbed = ({ heardAt, runId, startedAt }: CoreRun, at: number) => {
    const { calmFrom, calmSince = Infinity, silence = 0, sweepInterval } = world
    // Each node of those that know nothing of each other hands a run over that it did not know, such as one that has waited.
    const isCalm = at > Math.max(calmFrom, calmSince, startedAt) + dispatchTime + sweepInterval
    return isCalm && at < heardAt + (silence - 1) * 1000
      ? recorder.violated(`run ${runId} was dispatched again although it lives`)
      : Effect.void
  }

  /** Runs that are the present ones of their tasks; of others a stop is owed. */
  const checkRoom = Effect.suspend(() => {
    const present = liveRuns().filter(({ runId, taskId }) => {
      const row = world.tables.tasks.get(taskId)
      return row?.runId === runId && (row.status === "pending" || row.status === "processing")
    })
    const { coreRuns = Infinity } = world
    return present.length > coreRuns
      ? recorder.violated(`the core has ${present.length} runs, of ${coreRuns}`)
      : Effect.void
  })

  const accept = Effect.fnUntraced(function*(taskId: TaskId, runId: string) {
    const startedAt = yield* Clock.currentTimeMillis
    const known = runs.get(runId)
    if (known?.state === "ended" && startedAt > known.endedAt + inFlight) {
      yield* recorder.violated(`run ${runId} was dispatched again after its end`)
    }
    if (known?.state === "live" && !world.isRough) yield* checkDisturbed(known, startedAt)
    if (known !== undefined && known.state !== "lost") return
    world.lost.delete(runId)
    const run: CoreRun = {
      runId,
      taskId,
      startedAt: known?.startedAt ?? startedAt,
      accepted: false,
      state: "live",
      endedAt: Infinity,
      heardAt: -Infinity
    }
    runs.set(runId, run)
    takenAt = startedAt
    yield* checkRoom
    yield* Effect.forkIn(work(run), world.scope)
  })

  const stop = Effect.fnUntraced(function*(runId: string) {
    yield* recorder.note("core", `receives a stop of run ${runId}`)
    const run = runs.get(runId)
    if (run === undefined) return { status: 404, retryAfter: undefined }
    if (run.state === "live") run.state = "stopped"
    return { status: 202, retryAfter: undefined }
  })

  /** Repeats the interrupt event to every node, so that they learn of the resume before any sweep. */
  const resumeReplyLost = (taskId: TaskId) =>
    Effect.suspend(() => {
      const repeated = interrupts.get(taskId)
      if (repeated === undefined || dice.chance(0.2)) return Effect.void
      return Effect.forEach(nodes(), (node) =>
        Effect.forkIn(Effect.ignore(node.call(node.tasks.report(toReport(repeated)))), world.scope), {
        discard: true
      })
    })

  const unreachable = (reason: string) => Effect.fail(new CoreUnavailable({ reason, retryAfter: null }))

  const refusalOf = (isStart: boolean, runId: string) => {
    if (!isStart) return 0
    return runs.has(runId) ? refusalOfKnown : 0.5
  }

  const isFull = () => liveRuns().length >= world.coreRoom

  /** The core has not taken the run: unless it may have it from an earlier attempt, its acceptance clock does not count. */
  const refuseBusy = (isStart: boolean, taskId: TaskId, at: number): CoreResponse => {
    const seen = seenOf(world, taskId)
    if (isStart) world.refusedAt = at
    if (isStart && seen.handedAt === undefined) seen.offeredAt = undefined
    return { status: 429, retryAfter: dice.chance(0.7) ? String(dice.between(1, 20)) : undefined }
  }

  const answer: CoreEnd["answer"] = Effect.fnUntraced(function*(path, body) {
    const isStart = path === "/runs"
    const { resume, run_id, task_id } = isStart ? JSON.parse(body) : { run_id: path.split("/")[2], task_id: "" }
    if (isStart) yield* checkOffer(world, task_id, run_id, resume)
    const begunAt = yield* Clock.currentTimeMillis
    yield* Effect.sleep(Duration.millis(dice.delay(300)))
    const fault = world.isRough
      ? dice.weigh({ ...faults, refusal: refusalOf(isStart, run_id) })
      : "none"
    if (fault !== "none") yield* recorder.note("core", `${path}: ${fault}`)
    if (fault === "away") {
      if (isStart) seenOf(world, task_id).handedAt ??= begunAt
      return { status: 503, retryAfter: undefined }
    }
    if (fault === "busy") return refuseBusy(isStart, task_id, yield* Clock.currentTimeMillis)
    if (isStart && fault !== "refusal" && !runs.has(run_id) && isFull()) {
      yield* recorder.note("core", `${path}: full`)
      return refuseBusy(isStart, task_id, yield* Clock.currentTimeMillis)
    }
    if (isStart) seenOf(world, task_id).handedAt ??= begunAt
    if (fault === "refusal") seenOf(world, task_id).failures.add(failures.internal)
    if (fault === "refusal") return { status: 400, retryAfter: undefined }
    if (fault === "lost request") return yield* unreachable("lost request")
    if (isStart) yield* recorder.note("core", `receives run ${run_id} of task ${task_id}`)
    const reply = isStart
      ? yield* Effect.as(accept(task_id, run_id), { status: 202, retryAfter: undefined, body: declaration })
      : yield* stop(run_id)
    if (fault === "lost reply") return yield* unreachable("lost reply")
    if (fault === "slow") yield* Effect.sleep("4 seconds")
    return reply
  })

  const restart = Effect.suspend(() =>
    Effect.andThen(
      recorder.note("core", "restarts without its runs"),
      Effect.forEach([...runs.values()].filter(({ state }) => state === "live"), lose, { discard: true })
    )
  )

  return {
    restart,
    end: { answer, resumeReplyLost },
    knows: (runId) => runs.has(runId),
    liveRuns,
    isFullSince: (at) => isFull() && takenAt < at
  }
}
