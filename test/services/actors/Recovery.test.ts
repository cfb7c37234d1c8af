/** The batches in which recovery dispatches runs, under TestClock. */
import { assert, describe, it } from "@effect/vitest"
import { Clock, Effect } from "effect"
import { TestClock } from "effect/testing"
import { RunId, type TaskHead, TaskId } from "../../../src/domain/Task.ts"
import { plus, Timestamp } from "../../../src/domain/Timestamp.ts"
import * as Recovery from "../../../src/services/actors/Recovery.ts"

const idOf = (number: number) => `00000000-0000-7000-8000-${String(number).padStart(12, "0")}`
const numberOf = ({ uuid }: TaskHead) => Number(uuid.slice(-12))

const headOf = (number: number, status: "pending" | "processing" = "processing"): TaskHead => ({
  uuid: TaskId.make(idOf(number)),
  sub: "ann",
  status,
  revision: 1,
  runId: RunId.make(idOf(number)),
  maxExecutionTime: 60,
  deadline: plus(Timestamp.make(0), "1 hour"),
  acceptanceDeadline: null,
  resumedAt: null,
  silentSince: null,
  handOvers: null
})

const headsOf = (count: number) => Array.from({ length: count }, (_, number) => headOf(number))

/** A recovery whose dispatches take `duration`, with the runs that it dispatched and dropped. */
const start = Effect.fnUntraced(
  function*(duration: number | ((head: TaskHead) => number), isWanted: (head: TaskHead) => boolean = () => true) {
    const dispatched: Array<readonly [millis: number, number: number]> = []
    const dropped: Array<number> = []
    let most = 0
    let current = 0
    const add = yield* Recovery.make({
      isWanted,
      drop: (head) => void dropped.push(numberOf(head)),
      dispatch: Effect.fnUntraced(function*(head) {
        dispatched.push([yield* Clock.currentTimeMillis, numberOf(head)])
        most = Math.max(most, ++current)
        yield* Effect.sleep(typeof duration === "number" ? duration : duration(head))
        current--
      })
    })
    return { add, dispatched, dropped, mostAtATime: () => most }
  }
)

describe("recovery", () => {
  it.effect("dispatches a bounded batch, and the next one after a pause", () =>
    Effect.gen(function*() {
      const { add, dispatched } = yield* start(1)
      headsOf(300).forEach(add)
      for (let count = 0; count < 10; count++) yield* TestClock.adjust("50 millis")
      const batches = [...Map.groupBy(dispatched, ([millis]) => millis)].map(([at, batch]) => [at, batch.length])
      assert.deepStrictEqual(batches, [[0, 128], [100, 128], [200, 44]])
      assert.deepStrictEqual(dispatched.map(([, number]) => number), headsOf(300).map(numberOf))
    }))

  it.effect("takes less than a minute for 50,000 runs", () =>
    Effect.gen(function*() {
      const { add, dispatched } = yield* start(10)
      headsOf(50_000).forEach(add)
      yield* TestClock.adjust("1 minute")
      assert.lengthOf(dispatched, 50_000)
    }))

  it.effect("dispatches no more than a batch at a time to a slow core", () =>
    Effect.gen(function*() {
      const { add, dispatched, mostAtATime } = yield* start(10_000)
      headsOf(300).forEach(add)
      yield* TestClock.adjust("9 seconds")
      assert.lengthOf(dispatched, 128)
      yield* TestClock.adjust("1 minute")
      assert.lengthOf(dispatched, 300)
      assert.strictEqual(mostAtATime(), 128)
    }))

  it.effect("does not let pending runs wait for others", () =>
    Effect.gen(function*() {
      const { add, dispatched } = yield* start(({ status }) => status === "pending" ? 1 : 60_000)
      headsOf(300).forEach(add)
      yield* TestClock.adjust("1 second")
      add(headOf(300, "pending"))
      add(headOf(301, "pending"))
      yield* TestClock.adjust("1 second")
      assert.deepStrictEqual(dispatched.slice(128), [[1000, 300], [1000, 301]])
    }))

  it.effect("drops runs that are no longer this node's to dispatch, and those only", () =>
    Effect.gen(function*() {
      const { add, dispatched, dropped } = yield* start(1, (head) => numberOf(head) % 2 === 0)
      headsOf(300).forEach(add)
      yield* TestClock.adjust("1 second")
      assert.lengthOf(dispatched, 150)
      assert.lengthOf(dropped, 150)
      assert.isTrue(dropped.every((number) => number % 2 === 1))
    }))
})
