/** Properties of the actor's decision, over every status, run and time. */
import { assert, describe, it } from "@effect/vitest"
import { Duration, Schema } from "effect"
import { isTerminal, RunId, statusAfter, type TaskHead, TaskId, TaskStatus } from "../../../src/domain/Task.ts"
import { plus, Timestamp } from "../../../src/domain/Timestamp.ts"
import { type Actor, decide, type Decision, isSilent, newActor } from "../../../src/services/actors/Decision.ts"

const idOf = (number: number) => `00000000-0000-7000-8000-${String(number).padStart(12, "0")}`
const uuid = TaskId.make(idOf(0))
const runs = [RunId.make(idOf(1)), RunId.make(idOf(2))]

const between = (minimum: number, maximum: number) => Schema.Int.check(Schema.isBetween({ minimum, maximum }))
/** Few values, so that times and revisions are often equal. */
const Time = between(0, 6)
const Run = between(0, 1)

const Row = Schema.Struct({
  status: TaskStatus,
  revision: between(0, 3),
  run: Run,
  deadline: Time,
  acceptanceDeadline: Schema.NullOr(Time),
  resumedAt: Schema.NullOr(Time)
})
const Known = Schema.Struct({
  row: Row,
  silence: Schema.NullOr(between(10, 60)),
  dispatchedRun: Schema.NullOr(Run),
  ending: Schema.NullOr(Run)
})

const at = (time: number) => Timestamp.make(time * 20_000_000)
const runOf = (number: number | null) => number === null ? undefined : runs[number]

const headOf = ({ acceptanceDeadline, deadline, resumedAt, revision, run, status }: typeof Row.Type): TaskHead => ({
  uuid,
  sub: "ann",
  status,
  revision,
  runId: runs[run] ?? RunId.make(idOf(3)),
  maxExecutionTime: 1,
  deadline: at(deadline),
  acceptanceDeadline: acceptanceDeadline === null ? null : at(acceptanceDeadline),
  resumedAt: resumedAt === null ? null : at(resumedAt),
  lastEventAt: null,
  redispatches: null,
  room: null,
  queueRevision: 0
})

const actorOf = ({ ending, dispatchedRun, row, silence }: typeof Known.Type): Actor => ({
  ...newActor(headOf(row)),
  silence: silence ?? undefined,
  dispatchedRun: runOf(dispatchedRun),
  ending: runOf(ending)
})

/** The actor after a decision, as `TaskActors` carries it out. */
const carryOut = (actor: Actor | undefined, head: TaskHead, decision: Decision): Actor | undefined => {
  const before = actor ?? newActor(head)
  switch (decision._tag) {
    case "Ignore":
      return actor
    case "Release":
      return undefined
    case "Expire":
      return { ...before, head, ending: head.runId }
    case "Park":
      return { ...before, head }
    case "Dispatch":
    case "Recover":
      return { ...before, head, dispatchedRun: head.runId }
  }
}

const options = { acceptanceTimeout: Duration.seconds(30), sweepInterval: Duration.zero, ownedSince: at(2) }
const isRunning = ({ status }: TaskHead) => status === "pending" || status === "processing"
/** Whether the run resumed its task since this node owns it. */
const isResumed = ({ resumedAt }: TaskHead) => resumedAt !== null && resumedAt > options.ownedSince
const hasRow = ({ head }: Actor, row: TaskHead) => head.revision <= row.revision

const cases = (
  title: string,
  check: (actor: Actor | undefined, head: TaskHead, now: Timestamp, decision: Decision) => void
) =>
  it.prop(title, [Schema.NullOr(Known), Row, Time], ([known, row, time]) => {
    const actor = known === null ? undefined : actorOf(known)
    const head = headOf(row)
    check(actor, head, at(time), decide(actor, head, at(time), options))
  }, { arbitrary: { runs: 2000 } })

const processing: TaskHead = {
  ...headOf({ status: "processing", revision: 1, run: 0, deadline: 6, acceptanceDeadline: 0, resumedAt: null }),
  lastEventAt: at(1)
}
const quiet: Actor = { ...newActor(processing), dispatchedRun: runs[0], silence: 60 }
const after = (moment: Timestamp, seconds: number) => plus(moment, Duration.seconds(seconds))

describe("a run is silent", () => {
  it("for as long as its core declared, then after twice that time, and so on, at most 10 min apart", () => {
    const pauses = [[null, 60], [1, 120], [2, 240], [3, 480], [4, 600], [50, 600]] as const
    for (const [redispatches, seconds] of pauses) {
      const actor = { ...quiet, head: { ...processing, redispatches } }
      const moment = after(at(1), seconds)
      assert.isFalse(isSilent(actor, Timestamp.make(moment - 1), at(0)))
      assert.isTrue(isSilent(actor, moment, at(0)))
    }
  })

  it("since its last event, the core's last answer, and the end of the last outage", () => {
    for (const [lastEventAt, answeredAt, outage] of [[1, 2, 3], [2, 3, 1], [3, 1, 2]] as const) {
      const actor = { ...quiet, head: { ...processing, lastEventAt: at(lastEventAt) }, answeredAt: at(answeredAt) }
      assert.isFalse(isSilent(actor, after(at(3), 59), at(outage)))
      assert.isTrue(isSilent(actor, after(at(3), 60), at(outage)))
    }
  })

  it("only while its task is processing, and only if its core declared it", () => {
    const late = Timestamp.make(1e12)
    assert.isFalse(isSilent({ ...quiet, silence: undefined }, late, at(0)))
    assert.isFalse(isSilent({ ...quiet, silence: null }, late, at(0)))
    // The core has refused the run that it has, before or after it declared something for another one.
    assert.isFalse(isSilent({ ...quiet, silence: "last" }, late, at(0)))
    assert.isTrue(isSilent({ ...quiet, silence: "last" }, late, at(0), 60))
    for (const status of TaskStatus.literals) {
      assert.strictEqual(isSilent({ ...quiet, head: { ...processing, status } }, late, at(0)), status === "processing")
    }
  })
})

describe("an actor decides", () => {
  cases(
    "to ignore a row older than the one it knows, and no live newer one unless it is ending that run",
    (actor, head, _, { _tag }) => {
      const isOld = actor !== undefined && !hasRow(actor, head)
      if (isOld) assert.strictEqual(_tag, "Ignore")
      else if (_tag === "Ignore") assert.strictEqual(actor?.ending, head.runId)
    }
  )

  cases(
    "to release a task if and only if it has ended or is interrupted for more than a minute",
    (actor, head, now, { _tag }) => {
      if (actor !== undefined && !hasRow(actor, head)) return
      const isFar = head.status === "interrupted" && head.deadline > now + 60_000_000
      assert.strictEqual(_tag === "Release", isTerminal(head.status) || isFar)
    }
  )

  cases(
    "to expire a task only after a deadline, with an event that its status allows",
    (_actor, head, now, decision) => {
      if (decision._tag !== "Expire") return
      const { acceptanceDeadline, deadline } = head
      const passed = decision.event._tag === "AcceptanceExpired" ? acceptanceDeadline ?? Infinity : deadline
      assert.isAtMost(passed, now)
      assert.isDefined(statusAfter(head.status, decision.event._tag))
    }
  )

  cases("to wait no longer than until the next deadline, and never past one", (_actor, head, now, decision) => {
    if (!("until" in decision)) return
    assert.isAbove(decision.until, now)
    const acceptance = head.status === "pending" ? head.acceptanceDeadline ?? Infinity : Infinity
    assert.strictEqual(decision.until, Math.min(head.deadline, acceptance))
  })

  cases(
    "to start only a running task's run that this node has not dispatched",
    (actor, head, _, { _tag }) => {
      if (_tag !== "Dispatch" && _tag !== "Recover") return
      assert.isTrue(isRunning(head))
      assert.notStrictEqual(actor?.dispatchedRun, head.runId)
    }
  )

  cases("to park a running task only if this node has dispatched its run", (actor, head, _, { _tag }) => {
    if (_tag === "Park" && isRunning(head)) assert.strictEqual(actor?.dispatchedRun, head.runId)
  })

  cases("to recover, not to dispatch, a run that the core may know", (actor, head, _, { _tag }) => {
    const mayBeKnown = head.status === "pending"
      ? head.acceptanceDeadline !== null
      : actor === undefined
      ? !isResumed(head)
      : actor.head.runId === head.runId
    if (_tag === "Dispatch") assert.isFalse(mayBeKnown)
    if (_tag === "Recover") assert.isTrue(mayBeKnown)
  })

  cases("each step once: the same row at the same time changes nothing more", (actor, head, now, decision) => {
    const after = carryOut(actor, head, decision)
    if (after !== undefined) assert.include(["Ignore", "Park"], decide(after, head, now, options)._tag)
  })

  cases("to end a task that waits when its deadline has passed", (actor, head, _, decision) => {
    if (!("until" in decision) || actor?.ending === head.runId) return
    const after = carryOut(actor, head, decision)
    assert.strictEqual(decide(after, head, decision.until, options)._tag, "Expire")
  })
})
