/** The store of schedules in memory: for the test kit and tests under TestClock. Revocations pause nothing here. */
import { Effect, Layer, Struct } from "effect"
import * as Limits from "../../domain/Limits.ts"
import { isTerminal, TaskId } from "../../domain/Task.ts"
import { plus, Timestamp } from "../../domain/Timestamp.ts"
import { keyId, keyOf, MemoryTables } from "../store/MemoryTables.ts"
import { dueAt, limits, Run, type Schedule, ScheduleId } from "./Schedule.ts"
import { type Attempted, type FiringClaim, type PendingRun, type Refusal, SchedulesStore } from "./SchedulesStore.ts"

type Mutable<A> = { -readonly [Field in keyof A]: A[Field] }

interface RunRow extends Mutable<Run> {
  attempt: number
  tryAt: Timestamp | null
  isWatched: boolean
}

interface Row {
  schedule: Schedule
  lastTask: TaskId | null
  readonly runs: Map<Timestamp, RunRow>
}

type Tables = MemoryTables["Service"]
type Rows = Map<ScheduleId, Row>

const newRun = (scheduledFor: Timestamp, fields: Partial<RunRow>): RunRow => ({
  scheduledFor,
  startedAt: null,
  outcome: "due",
  count: 1,
  taskId: null,
  error: null,
  attempt: 0,
  tryAt: null,
  isWatched: false,
  ...fields
})

const runFields = Struct.keys(Run.fields)

const newestFirst = <A>(of: (item: A) => number) => (one: A, other: A) => of(other) - of(one)

/** Whether a schedule has ended and none of its runs waits. */
const isOver = ({ runs, schedule }: Row) =>
  schedule.state === "ended" && [...runs.values()].every(({ tryAt }) => tryAt === null)

const dropSurplus = (rows: Rows, sub: string) => {
  const over = [...rows.values()].filter((row) => row.schedule.sub === sub && isOver(row))
  const surplus = over.toSorted(newestFirst(({ schedule }) => schedule.endedAt ?? 0)).slice(limits.ended)
  for (const { schedule } of surplus) rows.delete(schedule.id)
}

const refusalOf = (rows: Rows, { id, key, state, sub }: Schedule): Refusal | undefined => {
  const others = [...rows.values()].filter(({ schedule }) => schedule.sub === sub && schedule.id !== id)
  if (key !== null && others.some(({ schedule }) => schedule.key === key)) return { _tag: "KeyTaken" }
  const open = others.filter((row) => !isOver(row))
  return state !== "ended" && open.length >= limits.ofUser ? { _tag: "TooMany" } : undefined
}

const makeDefinitions = (rows: Rows, tables: Tables) => {
  const all = () => [...rows.values()].map(({ schedule }) => schedule)
  return {
    insert: (schedule, key) =>
      Effect.sync(() => {
        const known = key && keyOf(tables, schedule.sub, key.value, schedule.createdAt)
        if (known !== undefined) {
          return known.fingerprint === key?.fingerprint
            ? { _tag: "Replayed", id: ScheduleId.make(known.taskId) }
            : { _tag: "IdempotencyKeyReused" }
        }
        const refusal = refusalOf(rows, schedule)
        if (refusal !== undefined) return refusal
        rows.set(schedule.id, { schedule, lastTask: null, runs: new Map() })
        dropSurplus(rows, schedule.sub)
        if (key !== undefined) {
          tables.keys.set(keyId(schedule.sub, key.value), {
            fingerprint: key.fingerprint,
            taskId: TaskId.make(schedule.id),
            expiresAt: plus(schedule.createdAt, Limits.idempotencyKeyTtl)
          })
        }
        return { _tag: "Saved" }
      }),
    save: (schedule, revision) =>
      Effect.sync(() => {
        const row = rows.get(schedule.id)
        if (row?.schedule.revision !== revision) return { _tag: "Stale" }
        const refusal = refusalOf(rows, schedule)
        if (refusal !== undefined) return refusal
        row.schedule = schedule
        return { _tag: "Saved" }
      }),
    get: (id) => Effect.sync(() => rows.get(id)?.schedule),
    byKey: (sub, key) => Effect.sync(() => all().find((schedule) => schedule.sub === sub && schedule.key === key)),
    list: (sub, states, page, perPage) =>
      Effect.sync(() => {
        const found = all().filter((schedule) =>
          schedule.sub === sub && (states.length === 0 || states.includes(schedule.state))
        ).toReversed()
        return { schedules: found.slice((page - 1) * perPage, page * perPage), total: found.length }
      }),
    delete: (id) => Effect.sync(() => void rows.delete(id))
  } satisfies Partial<SchedulesStore["Service"]>
}

const runsOf = ({ runs }: Row) =>
  [...runs.values()].toSorted(newestFirst(({ scheduledFor }) => scheduledFor)).slice(0, limits.runs)

const makeRunReads = (rows: Rows) =>
  ({
    runs: (id, page, perPage) =>
      Effect.sync(() => {
        const row = rows.get(id)
        const found = row === undefined ? [] : runsOf(row)
        const runs = found.slice((page - 1) * perPage, page * perPage).map((run) => Struct.pick(run, runFields))
        return { runs, total: found.length }
      }),
    addTriggered: (id, at, taskId) =>
      Effect.sync(() => {
        const row = rows.get(id)
        if (row === undefined || [...row.runs.values()].some((run) => run.taskId === taskId)) return
        const near = [...row.runs.keys()].filter((known) => known >= at && known < at + 1000)
        const moment = Timestamp.make(Math.max(at, ...near.map((known) => known + 1)))
        row.runs.set(moment, newRun(moment, { outcome: "created", startedAt: at, taskId }))
      }),
    tasksOf: (sub, id) =>
      Effect.sync(() => {
        const row = rows.get(id)
        return row !== undefined && (sub === null || row.schedule.sub === sub)
          ? runsOf(row).flatMap(({ taskId }) => taskId ?? [])
          : []
      }),
    ofTasks: (taskIds) =>
      Effect.sync(() =>
        [...rows.values()].flatMap(({ runs, schedule }) =>
          [...runs.values()].flatMap(({ scheduledFor, taskId }) =>
            taskId !== null && taskIds.includes(taskId) ? [{ taskId, scheduleId: schedule.id, scheduledFor }] : []
          )
        )
      )
  }) satisfies Partial<SchedulesStore["Service"]>

const dueOf = ({ definition, id, nextAt, state }: Schedule): number =>
  state !== "active" || nextAt === null ? Infinity : dueAt(id, definition, nextAt)

const makeClaims = (rows: Rows, { tasks }: Tables) => {
  const pendingOf = ({ lastTask, schedule }: Row, { attempt, error, scheduledFor }: RunRow): PendingRun => {
    const status = lastTask === null ? undefined : tasks.get(lastTask)?.status
    return { schedule, scheduledFor, attempt, error, isOverlapping: status !== undefined && !isTerminal(status) }
  }

  const claimOne = ({ due, id, last, missed, next, run }: FiringClaim, at: Timestamp, tryAt: Timestamp) => {
    const row = rows.get(id)
    if (row === undefined || row.schedule.nextAt !== due || row.schedule.state !== "active") return []
    const before = row.schedule
    row.schedule = {
      ...before,
      nextAt: next,
      lastAt: last,
      revision: before.revision + 1,
      ...(next === null ? { state: "ended", endedAt: at } : {})
    }
    if (missed !== undefined && !row.runs.has(missed.from)) {
      row.runs.set(missed.from, newRun(missed.from, { outcome: "missed", count: missed.count }))
    }
    if (run === undefined || row.runs.has(run)) return []
    const made = newRun(run, { attempt: 1, tryAt })
    row.runs.set(run, made)
    // As it was before the claim, as in Postgres.
    return [pendingOf({ ...row, schedule: before }, made)]
  }

  const waiting = () =>
    [...rows.values()].flatMap((row) =>
      [...row.runs.values()].flatMap((run) => run.tryAt === null ? [] : [{ row, run, tryAt: run.tryAt }])
    )

  return {
    due: (at, limit) =>
      Effect.sync(() =>
        [...rows.values()].map(({ schedule }) => schedule).filter((schedule) => dueOf(schedule) <= at)
          .toSorted((one, other) => dueOf(one) - dueOf(other)).slice(0, limit)
          .flatMap(({ definition, id, nextAt }) => nextAt === null ? [] : [{ id, definition, nextAt }])
      ),
    claim: (claims, at, lease) => Effect.sync(() => claims.flatMap((claim) => claimOne(claim, at, plus(at, lease)))),
    takeOver: (at, lease, limit) =>
      Effect.sync(() =>
        waiting().filter(({ tryAt }) => tryAt <= at).slice(0, limit).map(({ row, run }) => {
          run.attempt++
          run.tryAt = plus(at, lease)
          return pendingOf(row, run)
        })
      ),
    nextDue: () =>
      Effect.sync(() => {
        const moments = [...rows.values()].map(({ schedule }) => dueOf(schedule))
        const first = Math.min(...moments, ...waiting().map(({ tryAt }) => tryAt))
        return Number.isFinite(first) ? Timestamp.make(first) : undefined
      })
  } satisfies Partial<SchedulesStore["Service"]>
}

const pausedFor = (schedule: Schedule, type: "failures" | "token", message: string): Schedule => ({
  ...schedule,
  state: "paused",
  pausedReason: { type, message },
  revision: schedule.revision + 1
})

const makeOutcomes = (rows: Rows, { tasks }: Tables) => {
  const recordOne = ({ error, lacksToken, outcome, scheduledFor, scheduleId, startedAt, taskId, tryAt }: Attempted) => {
    const row = rows.get(scheduleId)
    const run = row?.runs.get(scheduledFor)
    if (row === undefined || run === undefined || run.tryAt === null) return
    const { schedule } = row
    const isWatched = taskId !== null && schedule.definition.pauseAfterFailures !== null
    Object.assign(run, { outcome, startedAt, taskId, error, tryAt, isWatched })
    row.lastTask = taskId ?? row.lastTask
    const isLacking = outcome === "failed" && lacksToken === true
    const tokenFailures = isLacking ? schedule.tokenFailures + 1 : outcome === "created" ? 0 : schedule.tokenFailures
    const counted = { ...schedule, tokenFailures }
    row.schedule = tokenFailures >= limits.tokenFailures && schedule.state === "active"
      ? pausedFor(counted, "token", `Its last ${tokenFailures} runs failed because no token could be obtained`)
      : counted
  }

  const settleOne = (row: Row): ReadonlyArray<ScheduleId> => {
    const ended = [...row.runs.values()].filter((run) => run.isWatched).flatMap((run) => {
      const task = run.taskId === null ? undefined : tasks.get(run.taskId)
      return task === undefined || task.completedAt !== null ? [{ run, task }] : []
    }).toSorted((one, other) => (one.task?.completedAt ?? 0) - (other.task?.completedAt ?? 0))
    let failures = row.schedule.taskFailures
    for (const { run, task } of ended) {
      run.isWatched = false
      failures = task?.status === "failed" ? failures + 1 : 0
    }
    if (ended.length === 0) return []
    const { definition: { pauseAfterFailures }, id, state } = row.schedule
    row.schedule = { ...row.schedule, taskFailures: failures }
    if (pauseAfterFailures === null || failures < pauseAfterFailures || state !== "active") return []
    const message = failures === 1 ? "Its last task failed" : `Its last ${failures} tasks failed`
    row.schedule = pausedFor(row.schedule, "failures", message)
    return [id]
  }

  return {
    record: (attempted) => Effect.sync(() => attempted.forEach(recordOne)),
    settle: () => Effect.sync(() => [...rows.values()].flatMap(settleOne)),
    deleteExpired: (before) =>
      Effect.sync(() => {
        let deleted = 0
        for (const [id, { runs, schedule }] of rows) {
          if (schedule.endedAt !== null && schedule.endedAt <= before && rows.delete(id)) deleted++
          for (const [moment, { tryAt }] of runs) {
            if (moment <= before && tryAt === null && runs.delete(moment)) deleted++
          }
        }
        return deleted === 0 ? 0 : 1
      })
  } satisfies Partial<SchedulesStore["Service"]>
}

export const layer = Layer.effect(
  SchedulesStore,
  Effect.map(MemoryTables, (tables) => {
    const rows: Rows = new Map()
    return SchedulesStore.of({
      ...makeDefinitions(rows, tables),
      ...makeRunReads(rows),
      ...makeClaims(rows, tables),
      ...makeOutcomes(rows, tables)
    })
  })
)
