import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Exit, Fiber, Schema } from "effect"
import { TestClock } from "effect/testing"
import * as AdmissionGate from "../../../src/runtime/postgres/AdmissionGate.ts"

/** A statement that ends when the test ends it. */
const makeStatement = () => {
  const end = Deferred.makeUnsafe<void>()
  let hasBegun = false
  const run = Effect.suspend(() => {
    hasBegun = true
    return Deferred.await(end)
  })
  return { run, hasBegun: () => hasBegun, end: Deferred.succeed(end, undefined) }
}

const fork = Effect.forkChild({ startImmediately: true })

describe("AdmissionGate", () => {
  it.effect("admits as many statements as it has permits, and the others in order of arrival", () =>
    Effect.gen(function*() {
      const gate = yield* AdmissionGate.make(2)
      const statements = Array.from({ length: 4 }, makeStatement)
      const fibers = yield* Effect.forEach(statements, ({ run }) => fork(gate.admit(run)))
      const begun = () => statements.map(({ hasBegun }) => hasBegun())
      assert.deepStrictEqual(begun(), [true, true, false, false])
      yield* statements[1]!.end
      yield* Fiber.join(fibers[1]!)
      yield* Effect.yieldNow
      assert.deepStrictEqual(begun(), [true, true, true, false])
      yield* statements[0]!.end
      yield* Fiber.join(fibers[0]!)
      yield* Effect.yieldNow
      assert.deepStrictEqual(begun(), [true, true, true, true])
    }).pipe(Effect.scoped))

  it.effect("when closed, fails waiting statements, refuses new ones and lets admitted ones finish", () =>
    Effect.gen(function*() {
      const gate = yield* AdmissionGate.make(1)
      const inside = makeStatement()
      const first = yield* fork(gate.admit(inside.run))
      const waiting = yield* fork(gate.admit(Effect.void))
      gate.close()
      assert.isTrue(Exit.isFailure(yield* Fiber.await(waiting)))
      assert.isTrue(Exit.isFailure(yield* Effect.exit(gate.admit(Effect.void))))
      yield* inside.end
      assert.isTrue(Exit.isSuccess(yield* Fiber.await(first)))
      gate.open()
      yield* gate.admit(Effect.void)
    }).pipe(Effect.scoped))

  it.effect("admits any number of statements that end in the turn of their admission", () =>
    Effect.gen(function*() {
      const gate = yield* AdmissionGate.make(1)
      const first = yield* Deferred.make<void>()
      const running = yield* fork(gate.admit(Deferred.await(first)))
      const waiting = yield* Effect.forEach(Array.from({ length: 10_000 }), () => fork(gate.admit(Effect.void)))
      yield* Deferred.succeed(first, undefined)
      yield* Fiber.joinAll([running, ...waiting])
      yield* gate.admit(Effect.void)
    }))

  it.effect("fails a statement that has waited for 5 seconds", () =>
    Effect.gen(function*() {
      const gate = yield* AdmissionGate.make(1)
      yield* fork(gate.admit(Effect.never))
      const waiting = yield* fork(gate.admit(Effect.void))
      yield* TestClock.adjust("4999 millis")
      assert.isUndefined(waiting.pollUnsafe())
      yield* TestClock.adjust("1 millis")
      assert.isTrue(Exit.isFailure(yield* Fiber.await(waiting)))
    }).pipe(Effect.scoped))

  it.effect("keeps the permit of an interrupted statement until the database has run it", () =>
    Effect.gen(function*() {
      const gate = yield* AdmissionGate.make(1)
      const [sent, next] = [makeStatement(), makeStatement()]
      const interrupted = yield* fork(gate.admit(sent.run, () => sent.run))
      const waiting = yield* fork(gate.admit(next.run))
      yield* Fiber.interrupt(interrupted)
      assert.isFalse(next.hasBegun())
      yield* sent.end
      yield* Effect.yieldNow
      yield* Effect.yieldNow
      assert.isTrue(next.hasBegun())
      yield* next.end
      yield* Fiber.join(waiting)
    }).pipe(Effect.scoped))

  it.effect.prop(
    "no permit is lost or made, however statements end, fail or are interrupted",
    [Schema.Array(Schema.Literals(["end", "fail", "interrupt", "interrupt waiting", "close"]))],
    ([actions]) =>
      Effect.gen(function*() {
        const permits = 3
        const gate = yield* AdmissionGate.make(permits)
        let inside = 0
        let most = 0
        for (const action of actions) {
          const release = Deferred.makeUnsafe<void, string>()
          const statement = Effect.suspend(() => {
            most = Math.max(most, ++inside)
            return Effect.ensuring(Deferred.await(release), Effect.sync(() => void inside--))
          })
          const fibers = yield* Effect.forEach(Array.from({ length: 5 }), () => fork(gate.admit(statement)))
          if (action === "interrupt") yield* Fiber.interruptAll(fibers)
          if (action === "interrupt waiting") yield* Fiber.interruptAll(fibers.slice(permits))
          if (action === "close") gate.close()
          yield* action === "fail" ? Deferred.fail(release, "on purpose") : Deferred.succeed(release, undefined)
          yield* Effect.forEach(fibers, Fiber.await)
          gate.open()
        }
        assert.isAtMost(most, permits)
        assert.strictEqual(inside, 0)
        // All permits are back: as many statements as before run concurrently.
        const last = Array.from({ length: permits }, makeStatement)
        yield* Effect.forEach(last, ({ run }) => fork(gate.admit(run)))
        assert.isTrue(last.every(({ hasBegun }) => hasBegun()))
      }).pipe(Effect.scoped)
  )
})
