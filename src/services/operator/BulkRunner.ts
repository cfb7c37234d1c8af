/**
 * Carries out bulk actions. A node leases an action, and repeats steps: it reads a page of keys behind the position, stores its ids, carries
 * them out at the action's rate, and adds what became of them. Whoever takes over repeats the stored page: each item has its effect once.
 */
import { Duration, Effect, FiberMap, Layer, Option } from "effect"
import { SecureRandom } from "effect/crypto"
import { Revocation } from "../../domain/Revocation.ts"
import type { StoreUnavailable } from "../../domain/StoreUnavailable.ts"
import { isTerminal, type TaskHead, TaskId } from "../../domain/Task.ts"
import { monotonicMillis, now, plus, type Timestamp } from "../../domain/Timestamp.ts"
import { parseDeliveryId } from "../../domain/Webhook.ts"
import { Settings } from "../settings/Settings.ts"
import { Changes } from "../signals/Changes.ts"
import { PendingWork } from "../store/PendingWork.ts"
import { TaskStore } from "../store/tasks/TaskStore.ts"
import { TaskRequests } from "../tasks/TaskRequests.ts"
import { Tasks } from "../tasks/Tasks.ts"
import { UserTokens } from "../tasks/UserTokens.ts"
import { logFault } from "../timing/Retry.ts"
import * as Worker from "../timing/Worker.ts"
import { BulkActions } from "./Bulk.ts"
import { type BulkError, BulkStore, type Candidate, keptErrors, type LeasedBulk, type Owner } from "./BulkStore.ts"
import * as Erasure from "./Erasure.ts"
import { OperatorStore, type Position } from "./OperatorStore.ts"
import type { Selection } from "./Selection.ts"

/** Actions that a node carries out at a time. */
const concurrentActions = 8
/** Items of one action at a time: few, so that the commits of users wait for few. */
const concurrency = 4
const longestPage = 100
/** Tasks that are taken at a time to run again: taking them changes nothing yet. */
const rerunPage = 500
const interval = Duration.seconds(1)
/** While every user's turn is taken, and until a last look after an erasure. */
const pause = Duration.seconds(1)
/** A key of a task that runs again outlives every action. */
const keyTtl = Duration.days(40)
const keptFor = Duration.days(90)
const deletionInterval = Duration.hours(1)
/** A third of the lease. */
const renewal = Duration.seconds(3)

/** Unlike a rerun by the user, the new task leaves one slot free, and waits behind tasks of users. */
const rerunFields = { sparedSlots: 1, priority: 3 }

/** The author of a cancel, as events of tasks have it. */
const authorOf = ({ id, operator }: Pick<LeasedBulk, "id" | "operator">) => `operator:${operator} bulk:${id}`

/** No `Idempotency-Key` of a client has a space. */
const keyOf = (id: string, uuid: string) => `operators bulk:${id}:${uuid}`

type Outcome =
  | { readonly _tag: "Done"; readonly sub: string }
  | { readonly _tag: "Skipped" }
  | { readonly _tag: "Failed"; readonly message: string }

const done = (sub: string): Outcome => ({ _tag: "Done", sub })
const skipped: Outcome = { _tag: "Skipped" }

/** Carries out one item. `isRepeated`: another node may have done so. */
type Item = (bulk: LeasedBulk, id: string, isRepeated: boolean) => Effect.Effect<Outcome, StoreUnavailable>

/** Selections have passed the decoder of requests before they were stored. */
const selectionOf = ({ selection }: LeasedBulk) => selection as Selection

const makeItems = Effect.gen(function*() {
  const tasks = yield* Tasks
  const reads = yield* TaskStore
  const changes = yield* Changes
  const { webhooks } = yield* OperatorStore

  const headOf = (id: string) => Effect.map(reads.heads([TaskId.make(id)]), ([head]) => head)

  /** Whether this action ended a task. */
  const hasEnded = Effect.fnUntraced(function*(bulk: LeasedBulk, { revision, uuid }: TaskHead) {
    const [last] = yield* reads.eventsAfter(uuid, revision - 1, 1)
    return last?.author === authorOf(bulk)
  })

  const cancel: Item = Effect.fnUntraced(function*(bulk, id) {
    const task = yield* headOf(id)
    if (task === undefined) return skipped
    return yield* tasks.withdraw(task, bulk.reason, authorOf(bulk)).pipe(
      Effect.as(done("")),
      Effect.catchTags({
        TaskNotFound: () => Effect.succeed(skipped),
        TaskHasEnded: Effect.fnUntraced(function*() {
          const ended = yield* headOf(id)
          return ended !== undefined && (yield* hasEnded(bulk, ended)) ? done("") : skipped
        })
      })
    )
  })

  const remove: Item = Effect.fnUntraced(function*(_, id, isRepeated) {
    const task = yield* headOf(id)
    if (task === undefined) return isRepeated ? done("") : skipped
    return yield* tasks.delete(task).pipe(
      Effect.as(done(task.sub)),
      Effect.catchTags({
        TaskNotFound: () => Effect.succeed(isRepeated ? done("") : skipped),
        TaskNotEnded: () => Effect.succeed(skipped)
      })
    )
  })

  const redeliver: Item = Effect.fnUntraced(function*({ filter, startedAt }, id, isRepeated) {
    const key = parseDeliveryId(id)
    const delivery = key && Option.getOrUndefined(yield* webhooks.get(key))
    if (key === undefined || delivery === undefined) return skipped
    const sub = (yield* headOf(key.taskId))?.sub ?? ""
    const isTried = delivery.attempts.some((attempt) => attempt.startedAt >= startedAt)
    if (isRepeated && (isTried || delivery.state === "pending")) return done(sub)
    // Those that were found as failed, and are not any more, need nothing.
    if (filter["ids"] === undefined && delivery.state !== "failed") return skipped
    const at = yield* now
    const outcome = yield* webhooks.redeliver(key, at, null, null)
    if (outcome === "enqueued") changes.webhooks.due(at)
    return outcome === "enqueued"
      ? done(sub)
      : outcome === "needs_secret"
      ? { _tag: "Failed", message: "It was delivered, which deleted its secret: the client has to redeliver it." }
      : skipped
  })

  return { cancel, delete: remove, redeliver }
})

const make = Effect.gen(function*() {
  const bulks = yield* BulkStore
  const store = yield* OperatorStore
  const tasks = yield* Tasks
  const reads = yield* TaskStore
  const requests = yield* TaskRequests
  const tokens = yield* UserTokens
  const { maxActiveTasks } = yield* Settings
  const erasure = yield* Erasure.make
  const items = yield* makeItems
  const random = yield* SecureRandom.SecureRandom
  const instance = yield* random.uuidV7()

  /** Waits until so many items have had their time. */
  const pace = Effect.fnUntraced(function*(begunAt: number, count: number, rate: number) {
    const left = begunAt + (count * 1000) / rate - (yield* monotonicMillis)
    if (left > 0) yield* Effect.sleep(left)
  })

  /** Repeats pages until none is left, or the action is lost or was stopped; true in the first case. */
  const carryOutPages = Effect.fnUntraced(function*(bulk: LeasedBulk, of: Owner, item: Item, fromStart: boolean) {
    const limit = Math.min(longestPage, bulk.rate)
    const errors: Array<BulkError> = [...bulk.errors]
    let page = bulk.page
    let isRepeated = page !== null
    let isRead = bulk.isRead
    let position: Position | null = bulk.positionAt === null || bulk.positionId === null
      ? null
      : { at: bulk.positionAt, id: bulk.positionId }
    for (;;) {
      const begunAt = yield* monotonicMillis
      if (page === null) {
        if (isRead) return true
        const found = yield* store.keys(selectionOf(bulk), fromStart ? null : position, limit)
        position = found.next ?? position
        page = found.rows.map(({ id }) => id)
        isRead = fromStart ? page.length === 0 : found.next === null
        if (!(yield* bulks.takePage(of, yield* now, position, isRead, page))) return false
      }
      let [doneCount, skippedCount, failedCount] = [0, 0, 0]
      const noted: Array<{ target: string; sub: string }> = []
      const found = yield* Effect.forEach(
        page,
        (id) => Effect.map(item(bulk, id, isRepeated), (outcome) => ({ id, outcome })),
        { concurrency }
      )
      for (const { id, outcome } of found) {
        if (outcome._tag === "Done") {
          doneCount++
          // Cancels and erasures have their lines from the events of the tasks.
          if (bulk.action !== "cancel" && bulk.action !== "erase") noted.push({ target: id, sub: outcome.sub })
        } else if (outcome._tag === "Skipped") skippedCount++
        else {
          failedCount++
          if (errors.length < keptErrors) errors.push({ id, message: outcome.message })
        }
      }
      const counts = { done: doneCount, skipped: skippedCount, failed: failedCount, errors, noted }
      if (!(yield* bulks.addCounts(of, yield* now, counts))) return false
      yield* pace(begunAt, page.length, bulk.rate)
      page = null
      isRepeated = false
    }
  })

  /** Runs a task again, if its user has room. */
  const rerun = Effect.fnUntraced(function*({ id }: LeasedBulk, candidate: Candidate) {
    const { maximum, sub, uuid } = candidate
    const drop = (error: string | null) => bulks.dropped(id, candidate, error)
    if (maximum < 2) {
      return yield* drop("The user may have one active task, and a bulk action leaves the last slot free.")
    }
    const [task] = yield* reads.heads([uuid])
    if (task === undefined || !isTerminal(task.status)) return yield* drop(null)
    yield* tokens.callerFor(sub, { bulk_id: id }).pipe(
      Effect.flatMap((caller) =>
        requests.rerun(caller, task, { task: rerunFields, request: {} }, {
          value: keyOf(id, uuid),
          fingerprint: "",
          keptFor: keyTtl
        })
      ),
      Effect.flatMap((created) => bulks.started(id, candidate, created.uuid)),
      Effect.catchTags({
        TokenRefused: ({ reason }) => drop(`No token: ${reason}`),
        RequestNotKept: () => drop(null),
        CreateRefused: ({ message }) => drop(message),
        IdempotencyKeyReused: ({ message }) => drop(message),
        // It waits for its next turn.
        TokenUnavailable: ({ reason }) => Effect.logWarning(`a bulk action has no token of a user: ${reason}`),
        TooManyActiveTasks: () => Effect.void
      })
    )
  })

  /** Tasks wait for their turn in a table of their own, so that users without room hold nobody up. */
  const carryOutReruns = Effect.fnUntraced(function*(bulk: LeasedBulk, of: Owner) {
    const { id, rate } = bulk
    let { isRead } = bulk
    let position: Position | null = bulk.positionAt === null || bulk.positionId === null
      ? null
      : { at: bulk.positionAt, id: bulk.positionId }
    let lastUser = ""
    for (;;) {
      const begunAt = yield* monotonicMillis
      if (!isRead) {
        const found = yield* store.keys(selectionOf(bulk), position, rerunPage)
        position = found.next ?? position
        isRead = found.next === null
        const ids = found.rows.map(({ id }) => id)
        if (!(yield* bulks.takeReruns(of, yield* now, position, isRead, ids))) return false
      } else if (!(yield* bulks.renew(of, yield* now))) return false
      yield* bulks.settleReruns(id)
      const turn = yield* bulks.candidates(id, lastUser, maxActiveTasks, Math.min(longestPage, rate))
      yield* Effect.forEach(turn, (candidate) => rerun(bulk, candidate), { concurrency, discard: true })
      const isRoundOver = turn.length < Math.min(longestPage, rate)
      lastUser = isRoundOver ? "" : turn.at(-1)?.sub ?? ""
      if (isRead && !(yield* bulks.hasWaiting(id))) return true
      yield* pace(begunAt, turn.length, rate)
      if (isRead && turn.length === 0) yield* Effect.sleep(pause)
    }
  })

  const erase: Item = Effect.fnUntraced(function*(bulk, id) {
    const [task] = yield* reads.heads([TaskId.make(id)])
    if (task === undefined) return done("")
    yield* bulks.addFiles(bulk.id, yield* erasure.filesOf(task))
    yield* erasure.eraseTask(task, authorOf(bulk))
    return done("")
  })

  /** Erases until two looks in a row, a pause apart, find nothing: what was under way meanwhile may still write. */
  const carryOutErasure = Effect.fnUntraced(function*(bulk: LeasedBulk, of: Owner) {
    const sub = bulk.sub ?? ""
    const { startedAt } = bulk
    yield* tasks.revoke(Revocation.cases.User.make({ sub, issuedBefore: startedAt, expiresAt: null }))
    let page = bulk.page
    for (let looks = 0; looks < 2;) {
      const isWhole = yield* carryOutPages({ ...bulk, page, isRead: false }, of, erase, true)
      if (!isWhole) return false
      page = null
      const isEmpty = (yield* erasure.eraseRows(sub)) === 0 && (yield* store.count(selectionOf(bulk))) === 0
      looks = isEmpty ? looks + 1 : 0
      if (!(yield* bulks.renew(of, yield* now))) return false
      if (looks < 2) yield* Effect.sleep(pause)
    }
    return true
  })

  const run = Effect.fnUntraced(function*(bulk: LeasedBulk) {
    const of = { id: bulk.id, owner: instance }
    const { action, sub } = bulk
    if (action === "erase") {
      if (!(yield* carryOutErasure(bulk, of))) return
      const pseudonym = sub === null ? undefined : yield* erasure.pseudonymize(sub, bulk.id)
      return yield* bulks.end(of, yield* now, pseudonym)
    }
    const isWhole = action === "rerun"
      ? yield* carryOutReruns(bulk, of)
      : yield* carryOutPages(bulk, of, items[action], false)
    if (isWhole) yield* bulks.end(of, yield* now)
  })

  return { instance, run }
})

/** Carries out actions while its scope is open. */
export const layer = Layer.effectDiscard(Effect.gen(function*() {
  const bulks = yield* BulkStore
  const { wake } = yield* BulkActions
  const demand = (yield* PendingWork).of("bulk actions")
  const carryOut = yield* make
  const running = yield* FiberMap.make<string>()

  /** Keeps the lease through steps that take longer than it; completes when another node has the action. */
  const keep = (id: string) =>
    Effect.repeat(
      Effect.flatMap(
        Effect.delay(now, renewal),
        (at) => Effect.orElseSucceed(bulks.renew({ id, owner: carryOut.instance }, at), () => true)
      ),
      { while: (isOwned) => isOwned }
    )

  const claim = Effect.gen(function*() {
    while ((yield* FiberMap.size(running)) < concurrentActions) {
      const found = yield* bulks.claim(carryOut.instance, yield* now)
      if (Option.isNone(found)) return
      const bulk = found.value
      // A step that fails is repeated once the lease has ended.
      yield* FiberMap.run(
        running,
        bulk.id,
        Effect.catchCause(
          Effect.raceFirst(carryOut.run(bulk), keep(bulk.id)),
          logFault("a bulk action was interrupted")
        ),
        { onlyIfMissing: true }
      )
    }
  })
  yield* Worker.make({ name: "the bulk actions", runOnce: claim, interval, wake, demand })
  yield* Worker.make({
    name: "the deletion of old bulk actions",
    runOnce: Effect.flatMap(now, (at: Timestamp) => bulks.deleteOld(plus(at, Duration.negate(keptFor)))),
    interval: deletionInterval
  })
}))
