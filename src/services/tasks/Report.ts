/** The use case by which the core reports of a run: its events, and what it appends to its text. */
import { Effect } from "effect"
import type { CoreReport, Reported } from "../../domain/CoreProtocol.ts"
import { isRunId, isTaskId, RunId, TaskEvent, type TaskEventTag, TaskId } from "../../domain/Task.ts"
import { RunSuperseded, TaskNotFound } from "../../domain/TaskErrors.ts"
import { now } from "../../domain/Timestamp.ts"
import { TaskActors } from "../actors/TaskActors.ts"
import type { Handed, Taken } from "../live/LivePeers.ts"
import { LiveTexts } from "../live/LiveTexts.ts"
import { TaskStore } from "../store/tasks/TaskStore.ts"

/** Replaces a malformed `run_id`; no run has it. */
const noRun = RunId.make("00000000-0000-0000-0000-000000000000")

/** Events that are deduplicated by their id, within their run. */
const repeatable: ReadonlySet<TaskEventTag> = new Set(["Accepted", "Progressed"])

export const make = Effect.gen(function*() {
  const store = yield* TaskStore
  const actors = yield* TaskActors
  const live = yield* LiveTexts

  const commit = Effect.fnUntraced(function*(
    task_id: TaskId,
    runId: RunId,
    { event, event_id, recordsAcceptance }: Pick<CoreReport, "event" | "event_id" | "recordsAcceptance">
  ) {
    // The last event of a run repeats only itself: a core that begins a run again may reuse its ids.
    const coreEventId = `${runId}/${repeatable.has(event._tag) ? "" : event._tag}/${event_id}`
    const outcome = yield* store.commit(task_id, event, yield* now, { runId, coreEventId, recordsAcceptance })
    if (outcome._tag === "Unknown") return yield* new TaskNotFound({})
    if (outcome._tag === "Revoked") {
      const { status } = yield* actors.end(outcome.head, TaskEvent.cases.TokenRevoked.make({}))
      return yield* new RunSuperseded({ status })
    }
    yield* actors.wake(outcome.head)
    const { status } = outcome.head
    if (outcome._tag === "Superseded") return yield* new RunSuperseded({ status })
    return { head: outcome.head, applied: outcome._tag === "Applied" }
  })

  /** Records a sign of life of the run. */
  const sign = (uuid: TaskId, runId: RunId, event_id: string) =>
    Effect.map(
      commit(uuid, runId, { event: TaskEvent.cases.Accepted.make({}), event_id, recordsAcceptance: false }),
      ({ head }) => head
    )

  const append = Effect.fnUntraced(
    function*(uuid: TaskId, runId: RunId, eventId: string, appends: NonNullable<CoreReport["appends"]>) {
      const outcome = yield* live.append({ uuid, runId, eventId }, appends, sign(uuid, runId, eventId))
      if (!("_tag" in outcome)) return outcome
      return outcome._tag === "NotFound"
        ? yield* new TaskNotFound({})
        : yield* new RunSuperseded({ status: outcome.status })
    }
  )

  const reportNow = ({ appends, event, run_id, task_id }: CoreReport): Reported | undefined =>
    appends === undefined || event._tag !== "Accepted"
      ? undefined
      // No task has an id that is malformed.
      : live.appendNow(task_id.toLowerCase() as TaskId, run_id as RunId, appends)

  const report = Effect.fnUntraced(function*(given: CoreReport) {
    const { appends, event, event_id, nextAppend, run_id, task_id } = given
    if (!isTaskId(task_id)) return yield* new TaskNotFound({})
    const runId = isRunId(run_id) ? run_id : noRun
    if (appends !== undefined && event._tag === "Accepted") {
      return yield* append(TaskId.make(task_id.toLowerCase()), runId, event_id, appends)
    }
    const { applied, head } = yield* commit(task_id, runId, given)
    const reported: Reported = { status: head.status, applied }
    const turn = "turn" in event ? event.turn : null
    if (turn === null || (nextAppend === undefined && !live.has(head.uuid))) return reported
    const stored = { uuid: head.uuid, runId, eventId: event_id, revision: head.revision }
    // A repeated turn is one that the text has.
    const next = applied ? yield* live.turn(stored, turn, nextAppend) : undefined
    if (appends !== undefined) return { ...(yield* append(head.uuid, runId, event_id, appends)), applied }
    return nextAppend === undefined ? reported : { ...reported, next: next ?? (yield* live.nextOf(stored)) }
  })

  const takeOver = (handed: Handed) =>
    live.take(handed, sign(handed.uuid, handed.runId, handed.eventId)).pipe(
      Effect.catchTags({
        TaskNotFound: () => Effect.succeed<Taken>({ _tag: "NotFound" }),
        RunSuperseded: ({ status }) => Effect.succeed<Taken>({ _tag: "Superseded", status })
      })
    )

  return { report, reportNow, takeOver }
})
