/** The contract of a delivery store and the task store that inserts deliveries, run on memory and on Postgres. */
import { assert } from "@effect/vitest"
import { Duration, Effect, Layer, Option } from "effect"
import type { SecureRandom } from "effect/crypto"
import { TestClock } from "effect/testing"
import { fromValue, OpaqueJson, toText } from "../../src/domain/json/OpaqueJson.ts"
import type { StoreUnavailable } from "../../src/domain/StoreUnavailable.ts"
import { TaskEvent, type TaskId } from "../../src/domain/Task.ts"
import * as TaskView from "../../src/domain/TaskView.ts"
import { now, plus } from "../../src/domain/Timestamp.ts"
import { CallbackFormats } from "../../src/services/Extensions.ts"
import { Changes } from "../../src/services/signals/Changes.ts"
import { TaskStore } from "../../src/services/store/tasks/TaskStore.ts"
import { type ClaimedDelivery, WebhookStore } from "../../src/services/store/webhooks/WebhookStore.ts"
import { commit, stored, type StoreTests } from "./StoredTasks.ts"
import { called, claim, leases, only, record } from "./StoredWebhooks.ts"

const answerOf = Effect.fnUntraced(function*(uuid: TaskId) {
  const reads = yield* TaskStore
  return toText(TaskView.toJson(Option.getOrThrow(yield* reads.get(uuid))))
})

/** The formats of the tasks that the contract creates. */
export const layerFormats = Layer.succeed(CallbackFormats, {
  brief: (changes) =>
    Effect.succeed(
      changes.map(({ happenedAt, status }) => OpaqueJson.make(JSON.stringify({ status, at: happenedAt })))
    ),
  broken: () => Effect.die(new Error("a defect of a format"))
})

export const contract = (it: StoreTests) => {
  it.effect("inserts a delivery with the bytes of a read at that moment when a task is interrupted or ends", () =>
    Effect.gen(function*() {
      const writes = yield* TaskStore
      const store = yield* WebhookStore
      const { origin, uuid } = yield* called()
      const text = (turn: string) => OpaqueJson.make(turn)
      const interrupt = (id: string, turn: string | null) =>
        TaskEvent.cases.Interrupted.make({
          toolCalls: fromValue([{ id, name: "look", arguments: { z: 1, a: [null, "é"] } }]),
          state: null,
          turn: turn === null ? null : text(turn)
        })
      const steps: ReadonlyArray<
        () => Effect.Effect<unknown, StoreUnavailable, TaskStore | SecureRandom.SecureRandom>
      > = [
        () => Effect.flatMap(now, (at) => writes.commit(uuid, interrupt("c1", null), at)),
        () => commit(uuid, "ToolResultsSubmitted"),
        () =>
          Effect.flatMap(
            now,
            (at) => writes.commit(uuid, TaskEvent.cases.Progressed.make({ turn: text(`{"z":1,"a":2}`) }), at)
          ),
        () => Effect.flatMap(now, (at) => writes.commit(uuid, interrupt("c2", `{"b":1,  "a":"\\u0000"}`), at)),
        () => commit(uuid, "ToolResultsSubmitted"),
        () => Effect.flatMap(now, (at) => writes.commit(uuid, interrupt("c3", null), at)),
        () => commit(uuid, "Canceled")
      ]
      const expected: Array<string> = []
      for (const step of steps) {
        yield* step()
        const answer = yield* answerOf(uuid)
        if (/"status":"(interrupted|canceled)"/.test(answer)) expected.push(answer)
      }
      assert.strictEqual(expected.length, 4)
      const claimed = yield* claim(origin)
      assert.deepStrictEqual(claimed.map(({ revision }) => revision).toSorted(), [1, 4, 6, 7])
      for (const [index, delivery] of claimed.toSorted((a, b) => a.revision - b.revision).entries()) {
        assert.strictEqual(delivery.body === null ? null : toText(delivery.body), expected[index])
        assert.strictEqual(toText(Option.getOrThrow(yield* store.body(delivery))), expected[index])
      }
    }))

  for (
    const [event, status] of [["Completed", "completed"], ["Failed", "failed"], [
      "TimeLimitExceeded",
      "failed"
    ]] as const
  ) {
    it.effect(`inserts a delivery with the bytes of a later read on ${event}`, () =>
      Effect.gen(function*() {
        const { origin, uuid } = yield* called("sealed")
        yield* commit(uuid, "Progressed")
        assert.deepStrictEqual(yield* claim(origin), [])
        yield* commit(uuid, event)
        const [delivery, ...others] = yield* claim(origin)
        assert.deepStrictEqual(others, [])
        assert.deepInclude(delivery, { taskId: uuid, revision: 2, attempt: 1, isLast: false, secret: "sealed" })
        assert.strictEqual<unknown>(delivery?.body, yield* answerOf(uuid))
        assert.strictEqual((yield* only(uuid)).status, status)
      }))
  }

  it.effect("leaves a large body out of the claim and reads it for sending", () =>
    Effect.gen(function*() {
      const writes = yield* TaskStore
      const store = yield* WebhookStore
      const { origin, uuid } = yield* called()
      const turn = OpaqueJson.make(JSON.stringify({ output: ["x".repeat(300_000)] }))
      yield* writes.commit(uuid, TaskEvent.cases.Completed.make({ turn }), yield* now)
      const [delivery] = yield* claim(origin)
      assert.isTrue(delivery!.body === null || delivery!.body.length > 300_000)
      assert.closeTo(delivery!.bytes, 300_000, 500)
      assert.strictEqual(toText(Option.getOrThrow(yield* store.body(delivery!))), yield* answerOf(uuid))
    }))

  it.effect("builds the body in the format of the task, with the same bytes at each attempt", () =>
    Effect.gen(function*() {
      const store = yield* WebhookStore
      const { origin, uuid } = yield* called(null, undefined, "brief")
      yield* commit(uuid, "Interrupted")
      const at = yield* now
      const expected = `{"status":"interrupted","at":${at}}`
      for (const attempt of [1, 2]) {
        const [delivery] = yield* claim(origin)
        assert.strictEqual(delivery?.attempt, attempt)
        assert.strictEqual(toText(delivery!.body ?? Option.getOrThrow(yield* store.body(delivery!))), expected)
        assert.strictEqual(toText(Option.getOrThrow(yield* store.body(delivery!))), expected)
        yield* commit(uuid, "ToolResultsSubmitted")
        yield* TestClock.adjust(leases[0]!)
      }
    }))

  it.effect("has no body in a format that is unknown or has a defect", () =>
    Effect.gen(function*() {
      const store = yield* WebhookStore
      for (const format of ["unknown", "broken"]) {
        const { origin, uuid } = yield* called(null, undefined, format)
        yield* commit(uuid, "Completed")
        const [delivery] = yield* claim(origin)
        assert.isNull(delivery?.body)
        assert.isTrue(Option.isNone(yield* store.body(delivery!)))
      }
    }))

  it.effect("inserts a delivery for each task of a bulk cancel and wakes the dispatcher", () =>
    Effect.gen(function*() {
      const writes = yield* TaskStore
      const webhooksPending = (yield* Changes).webhooks.pending
      const silent = yield* stored()
      yield* webhooksPending.close
      yield* commit(silent.uuid, "Completed")
      assert.isTrue(Option.isNone(yield* Effect.timeoutOption(webhooksPending.await, 0)), "woken without a delivery")
      const first = yield* called()
      const second = yield* called(null, `${first.origin}/other`)
      for (const { uuid } of [first, second]) yield* commit(uuid, "Interrupted")
      yield* webhooksPending.await
      assert.strictEqual((yield* claim(first.origin)).length, 2)
      yield* webhooksPending.close
      yield* writes.cancelInterrupted(first.principal.sub, yield* now)
      yield* webhooksPending.await
      assert.deepStrictEqual((yield* claim(first.origin)).map(({ taskId }) => taskId), [first.uuid])
    }))

  it.effect("lowers the floor of claims to the moment of a delivery, however late it is committed", () =>
    Effect.gen(function*() {
      const { floor } = (yield* Changes).webhooks
      const { uuid } = yield* called()
      const at = yield* now
      const later = plus(at, Duration.minutes(1))
      yield* floor.from(later)
      yield* floor.raise(later)
      assert.isAbove(yield* floor.from(later), at)
      yield* commit(uuid, "Completed")
      assert.isAtMost(yield* floor.from(later), yield* now)
    }))

  it.effect("counts an attempt when it is claimed, and claims at most five although no outcome arrives", () =>
    Effect.gen(function*() {
      const { origin, uuid } = yield* called("sealed")
      yield* commit(uuid, "Completed")
      for (let attempt = 1; attempt <= 5; attempt++) {
        const [delivery] = yield* claim(origin)
        assert.deepInclude(delivery, { attempt, isLast: attempt === 5 })
        const { attempts, nextAttemptAt, state } = yield* only(uuid)
        assert.deepInclude(attempts.at(-1), { number: attempt, duration: null, error: null })
        assert.deepStrictEqual([state, nextAttemptAt], ["pending", null])
        yield* TestClock.adjust(Duration.subtract(leases[attempt - 1]!, Duration.seconds(1)))
        assert.deepStrictEqual(yield* claim(origin), [])
        yield* TestClock.adjust("1 second")
      }
      assert.deepStrictEqual(yield* claim(origin), [])
      const store = yield* WebhookStore
      const endLost = Effect.flatMap(now, store.endLost).pipe(
        Effect.map((lost) => lost.filter(({ taskId }) => taskId === uuid))
      )
      assert.deepStrictEqual(yield* endLost, [{
        taskId: uuid,
        revision: (yield* only(uuid)).revision,
        origin,
        attempt: 5
      }])
      assert.deepStrictEqual(yield* endLost, [])
      const { attempts, state } = yield* only(uuid)
      assert.strictEqual(state, "failed")
      assert.deepStrictEqual(attempts.map(({ error }) => error), ["lost", "lost", "lost", "lost", "lost"])
    }))

  it.effect("takes back a claim, which does not count as an attempt, unless a later attempt was claimed", () =>
    Effect.gen(function*() {
      const store = yield* WebhookStore
      const { origin, uuid } = yield* called()
      yield* commit(uuid, "Completed")
      const [first] = yield* claim(origin)
      const until = plus(yield* now, Duration.seconds(1))
      yield* store.postpone(first!, until)
      assert.deepStrictEqual(yield* claim(origin), [])
      const [postponed] = yield* store.ofTask(uuid)
      assert.deepStrictEqual([postponed?.attempts, postponed?.nextAttemptAt], [[], until])

      yield* TestClock.adjust("1 second")
      const [again] = yield* claim(origin)
      assert.strictEqual(again?.attempt, 1)
      // Repeated after its reply was lost.
      yield* store.postpone(first!, yield* now)
      assert.deepStrictEqual(yield* claim(origin), [])
      assert.lengthOf((yield* only(uuid)).attempts, 1)
      yield* TestClock.adjust("1 minute")
      const [later] = yield* claim(origin)
      assert.strictEqual(later?.attempt, 2)
      yield* store.postpone(again!, yield* now)
      assert.deepStrictEqual(yield* claim(origin), [])
    }))

  it.effect("takes back the claim of a last attempt that counts as lost, unless the delivery succeeded or the attempt ended", () =>
    Effect.gen(function*() {
      const store = yield* WebhookStore
      /** Ends all attempts of a new delivery except the last one, which is claimed and counts as lost. */
      const lost = Effect.fnUntraced(function*() {
        const { origin, uuid } = yield* called()
        yield* commit(uuid, "Completed")
        const claims: Array<ClaimedDelivery> = []
        for (const lease of leases) {
          claims.push(...(yield* claim(origin)))
          yield* TestClock.adjust(lease)
        }
        yield* store.endLost(yield* now)
        const [earlier, last] = claims.slice(-2)
        return { uuid, origin, earlier: earlier!, last: last! }
      })
      const unsent = yield* lost()
      yield* store.postpone(unsent.last, yield* now)
      assert.lengthOf((yield* only(unsent.uuid)).attempts, 4)
      assert.deepStrictEqual((yield* claim(unsent.origin)).map(({ attempt }) => attempt), [5])

      const delivered = yield* lost()
      yield* record(delivered.earlier, null)
      yield* store.postpone(delivered.last, yield* now)
      assert.strictEqual((yield* only(delivered.uuid)).state, "delivered")

      const failed = yield* lost()
      yield* record(failed.last, "timed_out")
      yield* store.postpone(failed.last, yield* now)
      assert.strictEqual((yield* only(failed.uuid)).state, "failed")
    }))

  it.effect("schedules the next attempt after a failure and ends the delivery at the first success", () =>
    Effect.gen(function*() {
      const { origin, uuid } = yield* called("sealed")
      yield* commit(uuid, "Completed")
      const [first] = yield* claim(origin)
      yield* record(first!, "not_2xx")
      assert.deepStrictEqual((yield* only(uuid)).nextAttemptAt, plus(yield* now, "10 seconds"))
      yield* TestClock.adjust("9 seconds")
      assert.deepStrictEqual(yield* claim(origin), [])
      yield* TestClock.adjust("1 second")
      const [second] = yield* claim(origin)
      assert.strictEqual(second?.secret, "sealed")
      yield* record(second!, null)
      const delivery = yield* only(uuid)
      assert.deepStrictEqual([delivery.state, delivery.nextAttemptAt], ["delivered", null])
      assert.deepStrictEqual(
        delivery.attempts.map((
          { duration, error, number, responseStatus }
        ) => [number, duration, responseStatus, error]),
        [[1, 12, 500, "not_2xx"], [2, 12, 204, null]]
      )
      yield* TestClock.adjust("1 hour")
      assert.deepStrictEqual(yield* claim(origin), [])
    }))

  it.effect("ignores a failure that arrives after the next claim, and ends the delivery at a late success", () =>
    Effect.gen(function*() {
      const { origin, uuid } = yield* called()
      yield* commit(uuid, "Completed")
      const [first] = yield* claim(origin)
      yield* TestClock.adjust("40 seconds")
      const [second] = yield* claim(origin)
      assert.strictEqual(second?.attempt, 2)
      yield* record(first!, "timed_out")
      assert.deepStrictEqual((yield* only(uuid)).nextAttemptAt, null)
      assert.deepStrictEqual(yield* claim(origin), [])
      yield* record(first!, null)
      assert.strictEqual((yield* only(uuid)).state, "delivered")
      yield* record(second!, "timed_out")
      yield* TestClock.adjust("1 hour")
      assert.deepStrictEqual(yield* claim(origin), [])
      assert.strictEqual((yield* only(uuid)).state, "delivered")
    }))

  for (const isLate of [false, true]) {
    it.effect(`ends a delivery at a success that is recorded together with, ${isLate ? "after" : "before"}, a later failure`, () =>
      Effect.gen(function*() {
        const store = yield* WebhookStore
        const { origin, uuid } = yield* called()
        yield* commit(uuid, "Completed")
        const [first] = yield* claim(origin)
        yield* TestClock.adjust(leases[0]!)
        const [second] = yield* claim(origin)
        const endedAt = yield* now
        const success = { ...first!, endedAt, duration: 12, responseStatus: 204, error: null, nextAttemptAt: null }
        const failure = {
          ...second!,
          endedAt,
          duration: 12,
          responseStatus: 409,
          error: "not_2xx" as const,
          nextAttemptAt: endedAt
        }
        yield* store.recordOutcomes(isLate ? [failure, success] : [success, failure])
        assert.deepStrictEqual(yield* claim(origin), [])
        const { attempts, state } = yield* only(uuid)
        assert.strictEqual(state, "delivered")
        assert.deepStrictEqual(attempts.map(({ responseStatus }) => responseStatus), [204, 409])
      }))
  }

  it.effect("claims at most the permits of each origin, and no delivery twice when nodes race", () =>
    Effect.gen(function*() {
      const first = yield* called()
      const tasks = yield* Effect.forEach([1, 2, 3, 4, 5, 6], () => called(null, `${first.origin}/hook`))
      for (const { uuid } of tasks) yield* commit(uuid, "Completed")
      const other = yield* called()
      yield* commit(other.uuid, "Completed")
      const claimWith = (permits: number, ofUnproven: number) =>
        claim(first.origin, { byOrigin: new Map([[first.origin, { permits, isProven: false }]]), ofUnproven })
      assert.deepStrictEqual(yield* claimWith(0, 0), [])
      assert.deepStrictEqual(yield* claim(first.origin, { ofUnproven: 0 }), [])
      assert.strictEqual((yield* claimWith(1, 0)).length, 1)
      assert.strictEqual((yield* claimWith(2, 100)).length, 2)
      const racing = yield* Effect.forEach([1, 2, 3, 4], () => claim(first.origin, { ofUnproven: 3 }), {
        concurrency: "unbounded"
      })
      const claimed = racing.flat().map(({ taskId }) => taskId)
      assert.strictEqual(new Set(claimed).size, claimed.length)
      assert.isAtLeast(claimed.length, 3)
    }))

  it.effect("deletes deliveries with their task, but no task whose delivery is pending", () =>
    Effect.gen(function*() {
      const retention = yield* TaskStore
      const reads = yield* TaskStore
      const store = yield* WebhookStore
      const { origin, uuid } = yield* called()
      yield* commit(uuid, "Completed")
      const deleteEnded = Effect.flatMap(now, (at) => retention.deleteEnded(plus(at, "1 second"), 10_000))
      yield* deleteEnded
      const [delivery] = yield* claim(origin)
      yield* record(delivery!, null)
      yield* deleteEnded
      assert.isTrue(Option.isNone(yield* reads.get(uuid)))
      assert.deepStrictEqual(yield* store.ofTask(uuid), [])
      assert.isTrue(Option.isNone(yield* store.body(delivery!)))
      yield* record(delivery!, null)
    }))
}
