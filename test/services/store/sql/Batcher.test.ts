import { assert, describe, it } from "@effect/vitest"
import { Cause, Deferred, Effect, Exit, Fiber, Schema } from "effect"
import { SqlError } from "effect/sql"
import { StoreUnavailable } from "../../../../src/domain/StoreUnavailable.ts"
import * as Batcher from "../../../../src/services/store/sql/Batcher.ts"

const faults = {
  outage: Effect.fail(new StoreUnavailable({ cause: "outage" })),
  deadlock: Effect.die("deadlock"),
  row: Effect.die("broken row")
}

/** An executor that notes its statements and waits for a permission to end each of them. */
const makeGated = Effect.fnUntraced(function*(options: { readonly turns?: number } = {}) {
  const statements: Array<ReadonlyArray<number>> = []
  const ends: Array<Deferred.Deferred<void>> = []
  const ask = yield* Batcher.make({
    ...options,
    run: (requests: ReadonlyArray<number>) => {
      const end = Deferred.makeUnsafe<void>()
      statements.push(requests)
      ends.push(end)
      return Effect.as(Deferred.await(end), requests.map((request) => request * 10))
    }
  })
  const askAll = (requests: ReadonlyArray<number>) =>
    Effect.forEach(requests, (request) => Effect.forkChild(ask(request), { startImmediately: true }))
  return { ask, askAll, ends, statements }
})

/** Lets everything happen that needs no statement to end. */
const settle = Effect.repeat(Effect.yieldNow, { times: 10 })

const Row = Schema.Struct({
  key: Schema.Literals(["a", "b", "c"]),
  kind: Schema.Literals(["batch", "batch", "single", "large"]),
  fault: Schema.Literals(["none", "none", "none", "row"])
})
const Statement = Schema.Struct({
  turns: Schema.Literals([0, 1, 5]),
  fault: Schema.Literals(["none", "none", "none", "none", "outage", "deadlock"])
})

describe("Batcher", () => {
  it.effect("tries each request alone when a lock that one of them needs is held", () =>
    Effect.gen(function*() {
      const reason = new SqlError.LockTimeoutError({ cause: "55P03" })
      const locked = new StoreUnavailable({ cause: new SqlError.SqlError({ reason }) })
      const ask = yield* Batcher.make({
        run: (requests: ReadonlyArray<number>) =>
          requests.includes(2) ? Effect.fail(locked) : Effect.succeed(requests.map((request) => request * 10))
      })
      const exits = yield* Effect.forEach([1, 2, 3], (request) => Effect.exit(ask(request)), { concurrency: 3 })
      assert.deepStrictEqual(exits, [Exit.succeed(10), Exit.fail(locked), Exit.succeed(30)])
    }))

  it.effect("sends the requests of a turn in one statement, a single one at the end of its turn", () =>
    Effect.gen(function*() {
      const { askAll, ends, statements } = yield* makeGated()
      const [alone] = yield* askAll([1])
      assert.deepStrictEqual(statements, [])
      yield* settle
      assert.deepStrictEqual(statements, [[1]])
      const fibers = yield* askAll([2, 3, 4])
      yield* settle
      assert.deepStrictEqual(statements, [[1], [2, 3, 4]])
      for (const end of ends) yield* Deferred.succeed(end, undefined)
      assert.strictEqual(yield* Fiber.join(alone!), 10)
      assert.deepStrictEqual(yield* Effect.forEach(fibers, Fiber.join), [20, 30, 40])
    }))

  it.effect("shares a statement among the requests of several turns", () =>
    Effect.gen(function*() {
      const { askAll, statements } = yield* makeGated({ turns: 3 })
      for (const request of [1, 2, 3, 4]) {
        yield* askAll([request])
        yield* Effect.yieldNow
      }
      yield* settle
      assert.deepStrictEqual(statements, [[1, 2, 3], [4]])
    }))

  it.effect("runs two statements at most, while the next one gathers up to its maximum", () =>
    Effect.gen(function*() {
      const { askAll, ends, statements } = yield* makeGated()
      yield* askAll([1])
      yield* settle
      yield* askAll([2])
      yield* settle
      for (let request = 3; request <= Batcher.maxBatch + 4; request++) {
        yield* askAll([request])
        yield* Effect.yieldNow
      }
      yield* settle
      assert.deepStrictEqual(statements, [[1], [2]])
      yield* Deferred.succeed(ends[0]!, undefined)
      yield* settle
      assert.strictEqual(statements.length, 3)
      assert.strictEqual(statements[2]?.length, Batcher.maxBatch)
      yield* Deferred.succeed(ends[1]!, undefined)
      yield* settle
      assert.deepStrictEqual(statements.slice(3), [[Batcher.maxBatch + 3, Batcher.maxBatch + 4]])
    }))

  it.effect("refuses requests beyond its bound, until others were sent", () =>
    Effect.gen(function*() {
      const { ask, askAll, ends } = yield* makeGated()
      const bound = 10_000 + Batcher.concurrency.batch * Batcher.maxBatch
      const fibers = yield* askAll(Array.from({ length: bound + 5 }, (_, index) => index))
      yield* settle
      const refused = fibers.filter((fiber) => fiber.pollUnsafe() !== undefined)
      assert.strictEqual(refused.length, 5)
      assert.isTrue(Exit.isFailure(yield* Fiber.await(refused[0]!)))
      for (const end of ends) yield* Deferred.succeed(end, undefined)
      yield* settle
      const late = yield* Effect.forkChild(ask(-1))
      while (late.pollUnsafe() === undefined) {
        for (const end of ends) yield* Deferred.succeed(end, undefined)
        yield* Effect.yieldNow
      }
      assert.strictEqual(yield* Fiber.join(late), -10)
    }))

  it.effect("refuses requests beyond 64 Mi characters, but not a longer one that comes first", () =>
    Effect.gen(function*() {
      const mebi = 1024 * 1024
      const ask = yield* Batcher.make({ lengthOf: (length: number) => length, run: () => Effect.never })
      const outcomesOf = Effect.fnUntraced(function*(lengths: ReadonlyArray<number>) {
        const fibers = yield* Effect.forEach(
          lengths,
          (length) => Effect.forkChild(ask(length), { startImmediately: true })
        )
        return fibers.map((fiber) => fiber.pollUnsafe() === undefined ? "waits" : "refused")
      })
      assert.deepStrictEqual(yield* outcomesOf([80 * mebi, 1]), ["waits", "refused"])
      yield* settle
      // The first statement has left the queue.
      assert.deepStrictEqual(yield* outcomesOf([32 * mebi, 32 * mebi, 1]), ["waits", "waits", "refused"])
    }))

  it.effect("drops interrupted requests, and sends those behind them", () =>
    Effect.gen(function*() {
      const statements: Array<ReadonlyArray<string>> = []
      const ask = yield* Batcher.make({
        keyOf: (request: string) => request.charAt(0),
        lengthOf: () => 32 * 1024 * 1024,
        run: (requests) => {
          statements.push(requests)
          return Effect.succeed(requests)
        }
      })
      const fork = (request: string) => Effect.forkChild(ask(request), { startImmediately: true })
      const [first, second] = [yield* fork("a1"), yield* fork("a2")]
      yield* Fiber.interrupt(second)
      const third = yield* fork("a3")
      yield* Fiber.interrupt(first)
      const fourth = yield* fork("b4")
      assert.deepStrictEqual([yield* Fiber.join(third), yield* Fiber.join(fourth)], ["a3", "b4"])
      assert.deepStrictEqual(statements, [["a3", "b4"]])
    }))

  it.effect.prop(
    "answers each request with its own outcome, one change of a key after the other, whatever fails",
    [Schema.Array(Schema.Array(Row)), Schema.Array(Statement)],
    ([turns, plan]) =>
      Effect.gen(function*() {
        interface Request {
          readonly id: number
          readonly row: typeof Row.Type
        }
        const running = new Set<ReadonlyArray<Request>>()
        const begun: Array<Request> = []
        const done = new Set<Request>()
        const violations: Array<string> = []
        let statements = 0
        let hasFailed = false
        const ask = yield* Batcher.make({
          keyOf: ({ row }: Request) => row.key,
          lockOf: ({ row }) => row.key,
          kindOf: ({ row }) => row.kind,
          run: Effect.fnUntraced(function*(requests: ReadonlyArray<Request>) {
            const { fault: planned, turns } = plan[statements++] ?? { fault: "none", turns: 0 }
            running.add(requests)
            const rows = [...running].flat().map(({ row }) => row)
            // Rows that run alone after a failure are statements of their own.
            const kinds = [...running].map(([first]) => first?.row.kind)
            for (const [kind, maximum] of Object.entries(Batcher.concurrency)) {
              const count = kinds.filter((one) => one === kind).length
              if (count > maximum && !hasFailed) violations.push(`${count} statements of ${kind}`)
            }
            if (new Set(rows.map(({ key }) => key)).size < rows.length) {
              violations.push("two changes of one key at once")
            }
            if (requests.length > 1 && requests.some(({ row }) => row.kind !== "batch")) {
              violations.push("a single request in a batch")
            }
            const keys = requests.map(({ row }) => row.key)
            if (keys.join() !== keys.toSorted().join()) violations.push(`locks in the order ${keys}`)
            begun.push(...requests)
            yield* Effect.repeat(Effect.yieldNow, { times: turns })
            running.delete(requests)
            const isPoisoned = requests.some(({ row }) => row.fault === "row")
            hasFailed ||= isPoisoned || planned !== "none"
            if (planned !== "none") return yield* faults[planned]
            if (isPoisoned) return yield* faults.row
            for (const request of requests) done.add(request)
            return requests.map(({ id }) => id)
          })
        })
        const requests: Array<Request> = []
        const fibers: Array<Fiber.Fiber<number, StoreUnavailable>> = []
        for (const turn of turns) {
          for (const row of turn) {
            const request = { id: requests.length, row }
            requests.push(request)
            fibers.push(yield* Effect.forkChild(ask(request), { startImmediately: true }))
          }
          yield* Effect.yieldNow
        }
        for (const [index, request] of requests.entries()) {
          const exit = yield* Fiber.await(fibers[index]!)
          assert.strictEqual(Exit.isSuccess(exit), done.has(request))
          if (Exit.isSuccess(exit)) assert.strictEqual(exit.value, request.id)
          else if (request.row.fault === "none") assert.notStrictEqual(Cause.squash(exit.cause), "broken row")
        }
        assert.deepStrictEqual(violations, [])
        for (const key of ["a", "b", "c"]) {
          const ids = [...new Set(begun.filter(({ row }) => row.key === key).map(({ id }) => id))]
          assert.deepStrictEqual(ids, requests.filter(({ row }) => row.key === key).map(({ id }) => id))
        }
      })
  )
})
