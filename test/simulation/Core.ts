/**
 * A processing core that does as the dice say: it delays, refuses, loses replies and whole runs, falls silent, repeats and
 * reorders its events. What it was told to start it works on until it has ended it, was told to stop, or was answered 409.
 */
import { Clock, Duration, Effect } from "effect"
import type { CoreEvent } from "../../src/domain/CoreProtocol.ts"
import { CoreUnavailable } from "../../src/domain/HandOver.ts"
import type { TaskId } from "../../src/domain/Task.ts"
import type { CoreEnd, Node } from "./Node.ts"
import { observe, type World } from "./World.ts"

interface CoreRun {
  readonly runId: string
  readonly taskId: TaskId
  readonly startedAt: number
  /** `live`: the core is at work, or believes so. */
  state: "live" | "ended" | "stopped" | "lost"
  endedAt: number
}

type Report = CoreEvent extends infer Event ? Event extends CoreEvent ? Omit<Event, "task_id" | "run_id"> : never
  : never

export interface Core {
  readonly end: CoreEnd
  /** Whether the core was ever handed the run. */
  readonly knows: (runId: string) => boolean
  readonly liveRuns: () => ReadonlyArray<CoreRun>
}

const turn = (text: string) => ({ output: [{ type: "text", text }], messages: [], metadata: {} })

/** How often a call to the core meets each fault. */
const faults = { none: 40, away: 4, busy: 3, "lost request": 2, "lost reply": 2, slow: 2 }

/** Milliseconds after which a repeated start of an ended run cannot have been under way any more. */
const inFlight = 15_000

export const make = (world: World, nodes: () => ReadonlyArray<Node>): Core => {
  const { dice, recorder } = world
  const runs = new Map<string, CoreRun>()
  let eventNumber = 0

  /** Tells any node until one has answered. */
  const report = Effect.fnUntraced(function*(run: CoreRun, event: Report) {
    const body = { ...event, task_id: run.taskId, run_id: run.runId } as CoreEvent
    for (let attempt = 0; run.state !== "lost"; attempt++) {
      const node = nodes().length === 0 ? undefined : dice.pick(nodes())
      if (node !== undefined) {
        const sentAt = yield* Clock.currentTimeMillis
        const result = yield* Effect.result(node.call(node.tasks.report(body)))
        const answer = result._tag === "Success" ? `applied: ${result.success.applied}` : result.failure._tag
        yield* recorder.note("core", `${event.type} ${event.event_id} of run ${run.runId} to ${node.name}: ${answer}`)
        if (result._tag === "Success") {
          yield* observe(world, run.taskId, result.success.status)
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
    // Late and twice: the core does not wait, and what it sent before may arrive after.
    if (world.isRough && dice.chance(0.15)) {
      yield* Effect.forkIn(Effect.delay(report(run, event), Duration.millis(dice.delay(20_000))), world.scope)
    }
    if (world.isRough && dice.chance(0.1)) yield* Effect.forkIn(sending, world.scope)
    else yield* sending
  })

  const work = Effect.fnUntraced(function*(run: CoreRun) {
    const pause = Effect.suspend(() => Effect.sleep(Duration.millis(dice.delay(15_000))))
    const eventId = () => `e${++eventNumber}`
    yield* pause
    if (dice.chance(0.1)) yield* Effect.sleep("35 seconds")
    if (dice.chance(0.8)) yield* send(run, { type: "processing", event_id: eventId() })
    for (let count = dice.between(0, 3); count > 0; count--) {
      yield* pause
      yield* send(run, { type: "progress", event_id: eventId(), turn: turn(`part ${count}`) })
    }
    yield* pause
    switch (dice.weigh({ completed: 5, interrupted: 4, failed: 1, silence: 1, loss: 0.5 })) {
      case "completed":
        return yield* send(run, { type: "completed", event_id: eventId(), turn: turn("done") })
      case "failed":
        return yield* send(run, { type: "failed", event_id: eventId(), code: "internal" })
      case "interrupted": {
        const call = { id: `call-${eventNumber}`, name: "look", arguments: {} }
        const calls = dice.chance(0.3) ? [call, { ...call, id: `${call.id}-b` }] as const : [call] as const
        return yield* send(run, { type: "interrupted", event_id: eventId(), tool_calls: calls, state: run.runId })
      }
      case "loss":
        yield* recorder.note("core", `loses run ${run.runId}`)
        run.state = "lost"
        return
      case "silence":
        return yield* recorder.note("core", `says nothing more of run ${run.runId}`)
    }
  })

  const accept = Effect.fnUntraced(function*(taskId: TaskId, runId: string) {
    const startedAt = yield* Clock.currentTimeMillis
    const known = runs.get(runId)
    if (known?.state === "ended" && startedAt > known.endedAt + inFlight) {
      yield* recorder.violated(`run ${runId} was handed over again after its end`)
    }
    if (known !== undefined && known.state !== "lost") return
    const run: CoreRun = { runId, taskId, startedAt: known?.startedAt ?? startedAt, state: "live", endedAt: Infinity }
    runs.set(runId, run)
    yield* Effect.forkIn(work(run), world.scope)
  })

  const stop = Effect.fnUntraced(function*(runId: string) {
    yield* recorder.note("core", `is told to stop run ${runId}`)
    const run = runs.get(runId)
    if (run === undefined) return { status: 404, retryAfter: undefined }
    if (run.state === "live") run.state = "stopped"
    return { status: 202, retryAfter: undefined }
  })

  const unreachable = (reason: string) => Effect.fail(new CoreUnavailable({ reason, retryAfter: null }))

  const end: CoreEnd = Effect.fnUntraced(function*(path, body) {
    yield* Effect.sleep(Duration.millis(dice.delay(300)))
    const isStart = path === "/runs"
    const { run_id, task_id } = isStart ? JSON.parse(body) : { run_id: path.split("/")[2], task_id: "" }
    const fault = world.isRough
      ? dice.weigh({ ...faults, refusal: isStart && !runs.has(run_id) ? 0.5 : 0 })
      : "none"
    if (fault !== "none") yield* recorder.note("core", `${path}: ${fault}`)
    if (fault === "away") return { status: 503, retryAfter: undefined }
    if (fault === "busy") return { status: 429, retryAfter: String(dice.between(1, 20)) }
    if (fault === "refusal") return { status: 400, retryAfter: undefined }
    if (fault === "lost request") return yield* unreachable("lost request")
    if (isStart) yield* recorder.note("core", `is handed run ${run_id} of task ${task_id}`)
    const answer = isStart
      ? yield* Effect.as(accept(task_id, run_id), { status: 202, retryAfter: undefined })
      : yield* stop(run_id)
    if (fault === "lost reply") return yield* unreachable("lost reply")
    if (fault === "slow") yield* Effect.sleep("4 seconds")
    return answer
  })

  return {
    end,
    knows: (runId) => runs.has(runId),
    liveRuns: () => [...runs.values()].filter(({ state }) => state === "live")
  }
}
