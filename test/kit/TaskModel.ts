/**
 * One task as the specification has it, typed by hand, and random histories that a store must follow: events of present, earlier and unknown
 * runs, repeated, with the acceptance and without, revoked tokens, and keys. They run side by side, so that they share statements.
 * `FUZZ_SEED` chooses others, as each night does.
 */
import { assert, type Vitest } from "@effect/vitest"
import { Effect, Option, type Scope } from "effect"
import type { SecureRandom } from "effect/crypto"
import { fromValue, type OpaqueJson } from "../../src/domain/json/OpaqueJson.ts"
import { Revocation } from "../../src/domain/Revocation.ts"
import { type RunId, TaskEvent, type TaskEventTag, TaskId, type TaskStatus } from "../../src/domain/Task.ts"
import { now, Timestamp } from "../../src/domain/Timestamp.ts"
import { RevocationRepository } from "../../src/services/store/revocations/RevocationRepository.ts"
import type { TaskStore } from "../../src/services/store/tasks/TaskStore.ts"
import { Dice } from "../simulation/Dice.ts"
import { eventOf, newRunId, stored, tags, uuid } from "./StoredTasks.ts"
import { amount } from "./thorough.ts"

type Moves = Partial<Record<TaskEventTag, TaskStatus>>

const ofRuns: Moves = {
  Progressed: "processing",
  Interrupted: "interrupted",
  Completed: "completed",
  Failed: "failed",
  Refused: "failed",
  TimeLimitExceeded: "failed",
  TokenRevoked: "failed",
  Withdrawn: "canceled"
}
const table: Readonly<Record<TaskStatus, Moves>> = {
  pending: { ...ofRuns, Accepted: "processing", AcceptanceExpired: "failed" },
  processing: ofRuns,
  interrupted: { ToolResultsSubmitted: "processing", Canceled: "canceled", TimeLimitExceeded: "failed" },
  completed: {},
  failed: {},
  canceled: {}
}
const ends: ReadonlySet<TaskStatus> = new Set(["completed", "failed", "canceled"])
const needValidToken: ReadonlySet<string> = new Set(["Accepted", "Progressed", "Interrupted", "Completed"])
/** Events with which a core may report the acceptance too. */
const mayAccept: ReadonlySet<string> = new Set(["Progressed", "Interrupted", "Completed", "Failed"])
const errors: Partial<Record<TaskEventTag, string>> = {
  Failed: "no",
  Refused: "no",
  AcceptanceExpired: "late",
  TimeLimitExceeded: "long",
  TokenRevoked: "Token revoked",
  Canceled: "enough",
  Withdrawn: "withdrawn"
}

interface Step {
  readonly event: TaskEvent
  readonly fence?: { readonly runId: RunId; readonly coreEventId?: string; readonly recordsAcceptance: boolean }
  readonly key?: { readonly value: string; readonly fingerprint: string; readonly sub: string }
}

class Model {
  readonly history = ["0 Created pending"]
  readonly #recorded = new Set<string | undefined>()
  readonly #keys = new Set<string>()
  status: TaskStatus = "pending"
  runId: RunId
  error: string | null = null
  turn: OpaqueJson | null = null
  pendingToolCalls: OpaqueJson | null = null
  isRevoked = false

  constructor(runId: RunId) {
    this.runId = runId
  }

  #note(tag: TaskEventTag, status: TaskStatus) {
    this.status = status
    this.history.push(`${this.history.length} ${tag} ${status}`)
  }

  /** Applies the step, if it has an effect. Returns the outcome, and whether it also accepted the run. */
  apply({ event, fence, key }: Step): readonly [outcome: string, accepts?: boolean] {
    const id = fence?.coreEventId
    if (id !== undefined && this.#recorded.has(id)) return ["NoEffect"]
    if (ends.has(this.status)) return ["Superseded"]
    if (fence !== undefined && fence.runId !== this.runId) return ["Superseded"]
    const accepts = fence?.recordsAcceptance === true && this.status === "pending"
    const target = table[accepts ? "processing" : this.status][event._tag]
    if (target === undefined) return ["NoEffect"]
    if (this.isRevoked && (fence?.recordsAcceptance === true || needValidToken.has(event._tag))) return ["Revoked"]
    if (key !== undefined && this.#keys.has(key.value)) return ["NoEffect"]
    if (key !== undefined) this.#keys.add(key.value)
    if (accepts) this.#note("Accepted", "processing")
    this.#note(event._tag, target)
    this.#recorded.add(id)
    this.error = errors[event._tag] ?? null
    if ("turn" in event && event.turn !== null) this.turn = event.turn
    this.pendingToolCalls = event._tag === "Interrupted" ? event.toolCalls : null
    if (event._tag === "ToolResultsSubmitted") {
      this.runId = event.runId
      this.isRevoked = false
    }
    return ["Applied", accepts]
  }
}

/** Those that end no task come more often, so that histories are long. */
const open = ["Accepted", "Progressed", "Interrupted", "ToolResultsSubmitted"] as const
const often: ReadonlyArray<TaskEventTag> = [...tags, ...open, ...open, "Interrupted", "ToolResultsSubmitted"]

type Node = TaskStore["Service"]
type Stores = TaskStore | RevocationRepository | SecureRandom.SecureRandom

/** One random history. Returns the cells of the table that it tried. */
const follow = Effect.fnUntraced(function*(nodes: ReadonlyArray<Node>, seed: number) {
  const dice = new Dice(seed)
  const revocations = yield* RevocationRepository
  let principal = { sub: `user-${yield* uuid}`, tokenId: yield* uuid, issuedAt: 1_700_000_000 }
  const task = yield* stored({ principal })
  const model = new Model(task.runId)
  const runs = [task.runId, yield* newRunId]
  const tried: Array<string> = []
  for (let count = 0; count < 16; count++) {
    const store = dice.pick(nodes)
    if (dice.chance(0.1)) {
      const { issuedAt, sub, tokenId } = principal
      const issuedBefore = Timestamp.make((issuedAt + 1) * 1e6)
      const { Token, User } = Revocation.cases
      const isUser = dice.chance(0.5)
      yield* revocations.add(
        isUser ? User.make({ sub, issuedBefore, expiresAt: null }) : Token.make({ tokenId, expiresAt: null })
      )
      model.isRevoked = true
    }
    const tag = dice.pick(often)
    const made = yield* eventOf(tag)
    const event = made._tag === "Progressed" || made._tag === "Completed"
      ? { ...made, turn: fromValue([seed, count]) }
      : made._tag === "ToolResultsSubmitted"
      ? { ...made, principal: { ...principal, tokenId: yield* uuid, issuedAt: principal.issuedAt + 10 } }
      : made
    const runId = dice.chance(0.8) ? model.runId : dice.pick(runs)
    const coreEventId = dice.pick([undefined, "e1", "e2", "e3", "e4", "e5", "e6"])
    const key = { value: dice.pick(["k1", "k2", "k3"]), fingerprint: "f", sub: principal.sub }
    const step: Step = {
      event,
      ...(dice.chance(0.7)
        ? {
          fence: {
            runId,
            recordsAcceptance: mayAccept.has(tag) && dice.chance(0.3),
            ...(coreEventId === undefined ? {} : { coreEventId })
          }
        }
        : {}),
      ...((tag === "Canceled" || tag === "ToolResultsSubmitted") && dice.chance(0.5) ? { key } : {})
    }
    tried.push(`${model.status} ${tag}`)
    const [expected, accepts] = model.apply(step)
    const where = `history ${seed}: ${model.history.join(", ")}; ${JSON.stringify(step)}`
    const outcome = yield* store.commit(task.uuid, event, yield* now, step.fence, step.key)
    assert.strictEqual(outcome._tag, expected, where)
    if (outcome._tag === "Applied") {
      assert.strictEqual(outcome.recordedAcceptance, accepts, where)
      if (event._tag === "ToolResultsSubmitted") {
        runs.push(event.runId)
        principal = { ...event.principal, issuedAt: principal.issuedAt + 10 }
      }
    }
    const found = Option.getOrThrow(yield* dice.pick(nodes).get(task.uuid))
    const { error, history, pendingToolCalls, status, turn } = model
    assert.deepInclude(found, {
      status,
      revision: history.length - 1,
      runId: model.runId,
      error,
      turn,
      pendingToolCalls
    }, where)
    assert.strictEqual(found.completedAt !== null, ends.has(status), where)
    if (outcome._tag !== "Unknown") {
      assert.deepInclude(found, { ...outcome.head, lastEventAt: found.lastEventAt }, where)
    }
  }
  const [store] = nodes
  const events = yield* store!.eventsAfter(task.uuid, -1, 100)
  assert.deepStrictEqual(events.map(({ revision, status, type }) => `${revision} ${type} ${status}`), model.history)
  const run = Option.getOrUndefined(yield* store!.pendingRun(task.uuid))
  const isRunning = model.status === "pending" || model.status === "processing"
  assert.deepStrictEqual([run?.runId, run?.principal], isRunning ? [model.runId, principal] : [undefined, undefined])
  return tried
})

/** `nodes` are stores on the same rows. */
export const contract = <R = never>(
  it: Vitest.MethodsNonLive<Stores | R>,
  nodes: Effect.Effect<ReadonlyArray<Node>, unknown, Stores | Scope.Scope | R>
) => {
  const seed = Number(process.env["FUZZ_SEED"] ?? 1)
  it.effect("follows the table of the specification, whatever happens to a task, and beside others as alone", () =>
    Effect.gen(function*() {
      const stores = yield* nodes
      const histories = Array.from({ length: amount(200, 1000) }, (_, index) => follow(stores, seed * 1000 + index))
      const tried = new Set((yield* Effect.all(histories, { concurrency: "unbounded" })).flat())
      assert.strictEqual(tried.size, Object.keys(table).length * tags.length)
      const unknown = yield* stores[0]!.commit(TaskId.make(yield* uuid), TaskEvent.cases.Accepted.make({}), yield* now)
      assert.strictEqual(unknown._tag, "Unknown")
    }).pipe(Effect.scoped))
}
