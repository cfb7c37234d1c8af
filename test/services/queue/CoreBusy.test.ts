/** The pace of a node whose core has said that it has no room. */
import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect, Layer } from "effect"
import { RunId } from "../../../src/domain/Task.ts"
import { now, plus } from "../../../src/domain/Timestamp.ts"
import { TaskOwnership } from "../../../src/services/cluster/TaskOwnership.ts"
import { CoreBusy } from "../../../src/services/queue/CoreBusy.ts"
import { Settings } from "../../../src/services/settings/Settings.ts"

const runId = (number: number) => RunId.make(`019ac5d2-8001-7b10-a5f3-00000000000${number}`)

/** Seconds from each refusal until the next probe, of a core without any room. */
const pausesOf = Effect.fnUntraced(function*(retryAfter: Duration.Duration | null, count: number) {
  const busy = yield* CoreBusy
  let at = yield* now
  const pauses: Array<number> = []
  for (let number = 0; number < count; number++) {
    const token = busy.begin(runId(1), at)
    assert.isTrue(busy.allows(token))
    yield* busy.refused(runId(1), token, retryAfter, at)
    busy.end(runId(1), at)
    const probeAt = busy.probeAt()!
    assert.strictEqual(busy.room(plus(probeAt, "-1 millis")), 0)
    assert.strictEqual(busy.room(probeAt), 1)
    pauses.push((probeAt - at) / 1_000_000)
    at = probeAt
  }
  return pauses
})

const layer = CoreBusy.layer.pipe(Layer.provide([TaskOwnership.layerAlone, Settings.layer({})]))

describe("an admission", () => {
  it.effect("is woken by the end of a run that counts for a limit, when runs wait, and by no other end", () =>
    Effect.gen(function*() {
      const busy = yield* CoreBusy
      const isWoken = (wasHeld: boolean) => {
        busy.wake.closeUnsafe()
        busy.noteLeft(wasHeld)
        return busy.wake.isOpen()
      }
      // Of those that waited when this node started it knows only by searching.
      assert.deepStrictEqual([isWoken(true), isWoken(false)], [true, false])
      yield* busy.beginAdmission().emptied(yield* now)
      assert.deepStrictEqual([isWoken(true), isWoken(false)], [false, false])
      const at = yield* now
      for (const note of [() => Effect.sync(busy.noteWaiting), () => busy.beginAdmission().blocked(at)]) {
        yield* note()
        assert.deepStrictEqual([isWoken(true), isWoken(false)], [true, false])
        yield* busy.beginAdmission().emptied(yield* now)
      }
    }).pipe(Effect.provide(layer)))
})

describe("a busy core", () => {
  it.effect("is probed after a second, or after its Retry-After of at most a minute, and later while it refuses", () =>
    Effect.gen(function*() {
      const pauses = (retryAfter: Duration.Duration | null, count: number) =>
        pausesOf(retryAfter, count).pipe(Effect.provide(Layer.fresh(layer)))
      assert.deepStrictEqual(yield* pauses(null, 6), [1, 2, 4, 8, 10, 10])
      assert.deepStrictEqual(yield* pauses(Duration.seconds(3), 4), [3, 3, 4, 8])
      assert.deepStrictEqual(yield* pauses(Duration.hours(1), 2), [60, 60])
    }))

  it.effect("that refuses several runs of one moment is probed after the longest pause of them, and within a minute", () =>
    Effect.gen(function*() {
      const busy = yield* CoreBusy
      const at = yield* now
      const tokens = [1, 2, 3].map((number) => busy.begin(runId(number), at))
      for (const [index, retryAfter] of [null, Duration.seconds(5), Duration.days(1)].entries()) {
        yield* busy.refused(runId(index + 1), tokens[index], retryAfter, at)
        busy.end(runId(index + 1), at)
      }
      assert.strictEqual(busy.probeAt(), plus(at, Duration.minutes(1)))
    }).pipe(Effect.provide(layer)))

  it.effect("gets no run beyond those that it has taken, but a probe and one for each that ends", () =>
    Effect.gen(function*() {
      const busy = yield* CoreBusy
      const at = yield* now
      const begins = (number: number, moment = at) => {
        const isSent = busy.allows(busy.begin(runId(number), moment))
        busy.end(runId(number), moment)
        return isSent
      }
      for (const number of [1, 2]) {
        busy.begin(runId(number), at)
        busy.noteTaken()
        busy.end(runId(number), at)
      }
      yield* busy.refused(runId(3), busy.begin(runId(3), at), null, at)
      busy.end(runId(3), at)
      assert.isFalse(begins(4))
      busy.noteLeft(true)
      assert.isTrue(begins(4))
      busy.noteTaken()
      assert.isFalse(begins(5))
      assert.isTrue(begins(5, busy.probeAt()))
    }).pipe(Effect.provide(layer)))

  it.effect("leaves the place of an ended run to one that the core may have: first always, then half of the time", () =>
    Effect.gen(function*() {
      const busy = yield* CoreBusy
      const at = yield* now
      for (const number of [1, 2]) {
        const token = busy.begin(runId(number), at)
        assert.isTrue(busy.allows(token))
        busy.noteTaken()
        busy.end(runId(number), at)
      }
      yield* busy.refused(runId(3), busy.begin(runId(3), at), null, at)
      busy.end(runId(3), at)
      assert.strictEqual(busy.room(at), 0)
      busy.reserve(runId(3), at)
      busy.noteLeft(false)
      assert.strictEqual(busy.room(at), 0)
      // No probe takes it either.
      assert.strictEqual(busy.room(plus(at, Duration.seconds(20))), 0)
      const roomAfter = (seconds: number) => busy.room(plus(at, Duration.seconds(seconds)))
      // A further refusal changes nothing.
      busy.reserve(runId(3), plus(at, Duration.hours(1)))
      assert.deepStrictEqual([29, 30, 59, 60, 89, 90].map(roomAfter), [0, 1, 1, 0, 0, 1])
      // Later all such runs have one place together.
      busy.noteLeft(false)
      busy.reserve(runId(4), at)
      assert.deepStrictEqual([0, 30, 60].map(roomAfter), [0, 2, 1])
      busy.unreserve(runId(4))
      busy.noteTaken()
      busy.unreserve(runId(3))
      assert.strictEqual(busy.room(at), 1)
    }).pipe(Effect.provide(layer)))
})
