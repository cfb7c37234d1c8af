/** Bounds of live texts, and readers at their borders, in virtual time. */
import { assert, describe, it } from "@effect/vitest"
import { Cause, Effect, Exit, Fiber, type Layer, Scope, Stream } from "effect"
import { TestClock } from "effect/testing"
import { fromValue } from "../../../src/domain/json/OpaqueJson.ts"
import * as Limits from "../../../src/domain/Limits.ts"
import { type RunId, TaskEvent, type TaskHead, type TaskId } from "../../../src/domain/Task.ts"
import type { Place } from "../../../src/services/live/LiveReading.ts"
import { keptUnits } from "../../../src/services/live/LiveText.ts"
import { TaskStore } from "../../../src/services/store/tasks/TaskStore.ts"
import { layerStore, makeNodes, type Received, turnOf } from "../../kit/live/LiveNodes.ts"
import { call, newRunId, stored } from "../../kit/StoredTasks.ts"

type DropFirst<List extends ReadonlyArray<unknown>> = List extends readonly [unknown, ...infer Rest] ? Rest : never

const beginning: Place = { revision: -1, end: 0 }
const long = "0123456789abcdef".repeat(4096)

const makeWorld = Effect.fnUntraced(function*(liveBytes?: number) {
  const nodes = yield* makeNodes(liveBytes)
  const store = yield* TaskStore
  let eventNumber = 0
  const begin = Effect.gen(function*() {
    const { runId, uuid } = yield* stored({ maxExecutionTime: 86_400 })
    const report = (...given: DropFirst<Parameters<typeof nodes.report>>) =>
      Effect.suspend(() => nodes.report(nodes.owner(), ...given))
    yield* nodes.commit(0, uuid, TaskEvent.cases.Accepted.make({}), { runId, coreEventId: "accepted" })
    const core = { runId: runId as RunId, next: 0 }
    const run = () => ({ uuid, runId: core.runId, eventId: `e${eventNumber++}` })
    return {
      uuid,
      append: (text: string) => Effect.suspend(() => report(run(), undefined, [{ index: core.next++, text }])),
      appendAt: (index: number, text: string) => report(run(), undefined, [{ index, text }]),
      turn: (text: string) =>
        report(run(), TaskEvent.cases.Progressed.make({ turn: turnOf(text) }), undefined, core.next),
      complete: (text: string) => report(run(), TaskEvent.cases.Completed.make({ turn: turnOf(text) })),
      resume: Effect.gen(function*() {
        const toolCalls = fromValue([call])
        yield* report(run(), TaskEvent.cases.Interrupted.make({ toolCalls, state: fromValue({}), turn: null }))
        const results = TaskEvent.cases.ToolResultsSubmitted.make({
          results: fromValue([{ tool_call_id: call.id, output: 1 }]),
          runId: yield* newRunId,
          principal: { sub: "user", tokenId: "token", issuedAt: 1_700_000_000 },
          userToken: "sealed"
        })
        yield* nodes.commit(nodes.owner(), uuid, results, { runId: core.runId, coreEventId: "results" })
        Object.assign(core, { runId: results.runId, next: 0 })
      })
    }
  })
  /** Reads until it is closed. */
  const read = Effect.fnUntraced(function*(uuid: TaskId, after = beginning, text = "") {
    const scope = yield* Scope.make()
    const reader = {
      start: 0,
      text,
      replaced: 0,
      texts: 0,
      place: after,
      close: Scope.close(scope, Exit.void),
      hasEnded: false
    }
    const take = ({ id, text: part }: Received) => {
      reader.place = id
      if (part === undefined) return
      reader.texts++
      if (part.replaced === true) reader.replaced++
      else assert.strictEqual(part.offset, reader.start + reader.text.length, "a text begins where the one before ends")
      if (part.replaced === true) reader.start = part.offset
      reader.text = part.replaced === true ? part.text : reader.text + part.text
    }
    const ended = Effect.sync(() => {
      reader.hasEnded = true
    })
    yield* Effect.forkIn(Effect.andThen(nodes.read(nodes.owner(), uuid, after, take), ended), scope)
    return reader
  })
  return {
    begin,
    read,
    nodes: nodes.nodes,
    move: nodes.move(false),
    headOf: (uuid: TaskId) => Effect.map(store.heads([uuid]), ([head]) => head as TaskHead)
  }
})

const test = <A, E>(body: Effect.Effect<A, E, Layer.Success<typeof layerStore> | Scope.Scope>) =>
  Effect.provide(Effect.scoped(body), layerStore, { local: true })

describe("live texts", () => {
  it.effect("of a node are within its bound: the least recently read are freed, and come whole at the end", () =>
    test(Effect.gen(function*() {
      const { begin, headOf, nodes, read } = yield* makeWorld(1024 * 1024)
      const tasks = yield* Effect.all(Array.from({ length: 10 }, () => begin))
      const open = Effect.fnUntraced(function*(uuid: TaskId) {
        return yield* nodes[0]!.texts.open(yield* headOf(uuid))
      })
      const texts = yield* Effect.forEach(tasks, ({ uuid }) => open(uuid))
      const reader = yield* read(tasks[0]!.uuid)
      for (const { append } of tasks) {
        for (let index = 0; index < 3; index++) yield* append(long)
        yield* TestClock.adjust(100)
        assert.isAtMost(texts.reduce((sum, { size }) => sum + size, 0), 1024 * 1024)
      }
      assert.isAbove(texts.reduce((sum, { size }) => sum + size, 0), 256 * 1024)
      // The one that was opened last was freed last.
      assert.strictEqual(texts[9]!.size, 2 * 3 * long.length)
      yield* tasks[0]!.append("and more")
      yield* tasks[0]!.complete(`${long}${long}${long}and more.`)
      yield* TestClock.adjust(2000)
      assert.strictEqual(reader.text, `${long}${long}${long}and more.`)
      assert.isTrue(reader.hasEnded)
    })))

  it.effect("are kept for a reader that is slow, up to 1 Mi units: then it is cut off", () =>
    test(Effect.gen(function*() {
      const { begin, headOf, nodes } = yield* makeWorld()
      const { append, uuid } = yield* begin
      const head = yield* headOf(uuid)
      const text = yield* nodes[0]!.texts.open(head)
      const form = { text: ({ text }: { text: string }) => text, event: () => "", idle: "" }
      let taken = ""
      let isStuck = false
      const fiber = yield* Effect.forkChild(
        Effect.flatMap(
          nodes[0]!.reading.read(head, beginning, form),
          Stream.runForEach((part) => isStuck ? Effect.never : Effect.sync(() => void (taken += part)))
        )
      )
      yield* TestClock.adjust(10)
      yield* append("first")
      yield* TestClock.adjust(100)
      assert.strictEqual(taken, "first")
      isStuck = true
      let written = 0
      while (fiber.pollUnsafe() === undefined && written < 4 * Limits.unreadText) {
        yield* append(long)
        written += long.length
        yield* TestClock.adjust(100)
        assert.isAtMost(text.size / 2, Limits.unreadText + 128 * 1024)
      }
      assert.isAtLeast(written, Limits.unreadText)
      assert.isAtMost(written, Limits.unreadText + 4 * long.length)
      const exit = yield* Fiber.await(fiber)
      assert.isTrue(Exit.isFailure(exit) && Cause.hasInterruptsOnly(exit.cause))
      // Without that reader it is cut at the usual length again.
      yield* append(long)
      assert.isAtMost(text.size / 2, keptUnits + 64 * 1024)
    })))

  it.effect("that come faster than 20 texts a second are joined, and nothing is lost of 900 KiB at once", () =>
    test(Effect.gen(function*() {
      const { begin, read } = yield* makeWorld()
      const { append, uuid } = yield* begin
      const reader = yield* read(uuid)
      yield* TestClock.adjust(10)
      for (let index = 0; index < 14; index++) yield* append(long)
      yield* TestClock.adjust(2000)
      assert.deepStrictEqual([reader.text === long.repeat(14), reader.replaced], [true, 0])
      const { texts } = reader
      for (let index = 0; index < 1000; index++) {
        yield* append(long.slice(0, 1000))
        yield* TestClock.adjust(1)
      }
      assert.isAtMost(reader.texts - texts, 21)
      yield* TestClock.adjust(100)
      assert.strictEqual(reader.text.length, 14 * long.length + 1_000_000)
    })))

  it.effect("whose beginning is not kept come from the stored turn once, also for one that comes back at the end", () =>
    test(Effect.gen(function*() {
      const { begin, read } = yield* makeWorld()
      const { append, complete, turn, uuid } = yield* begin
      const early = yield* read(uuid)
      yield* TestClock.adjust(10)
      for (let index = 0; index < 10; index++) {
        yield* append(long)
        yield* TestClock.adjust(60)
      }
      const whole = long.repeat(10)
      yield* turn(whole)
      const late = yield* read(uuid)
      const back = yield* read(uuid, { revision: early.place.revision, end: 100 }, whole.slice(0, 100))
      // The end comes while both read the beginning.
      yield* TestClock.adjust(20)
      yield* complete(`${whole}!`)
      const last = yield* read(uuid, { revision: early.place.revision, end: 7 }, whole.slice(0, 7))
      yield* TestClock.adjust(5000)
      for (const reader of [early, late, back, last]) {
        assert.deepStrictEqual([reader.hasEnded, reader.text === `${whole}!`, reader.replaced], [true, true, 0])
      }
    })))

  it.effect("that become another long one are replaced as a whole", () =>
    test(Effect.gen(function*() {
      const { begin, read } = yield* makeWorld()
      const { append, complete, turn, uuid } = yield* begin
      const reader = yield* read(uuid)
      yield* TestClock.adjust(10)
      yield* append("A short text")
      yield* TestClock.adjust(100)
      const other = `B${long.repeat(8)}`
      yield* turn(other)
      yield* TestClock.adjust(200)
      // Another one again, while the beginning of the last one is on its way.
      const back = yield* read(uuid, reader.place, reader.text)
      yield* TestClock.adjust(10)
      const last = `C${long.repeat(7)}${"x".repeat(long.length)}`
      yield* turn(last)
      yield* TestClock.adjust(5000)
      for (const { replaced, text } of [reader, back]) {
        assert.isTrue(text === last)
        assert.isAtMost(replaced, 3)
      }
      yield* complete("D")
      yield* TestClock.adjust(100)
      for (const { hasEnded, text } of [reader, back]) assert.deepStrictEqual([hasEnded, text], [true, "D"])
    })))

  it.effect("of which only the end is known are shown from there, and whole in the end", () =>
    test(Effect.gen(function*() {
      const { begin, read } = yield* makeWorld()
      const { append, complete, uuid } = yield* begin
      for (let index = 0; index < 10; index++) yield* append(long)
      const reader = yield* read(uuid)
      yield* TestClock.adjust(100)
      assert.isAtLeast(reader.text.length, keptUnits)
      yield* append("more")
      yield* TestClock.adjust(100)
      assert.isTrue(reader.text.endsWith("efmore"))
      yield* complete(`${long.repeat(10)}more`)
      yield* TestClock.adjust(5000)
      assert.deepStrictEqual([reader.hasEnded, reader.text === `${long.repeat(10)}more`, reader.replaced], [
        true,
        true,
        2
      ])
    })))

  it.effect("of a run after tool results are replaced once, and a reader that comes back goes on", () =>
    test(Effect.gen(function*() {
      const { begin, read } = yield* makeWorld()
      const { append, complete, resume, uuid } = yield* begin
      const reader = yield* read(uuid)
      yield* TestClock.adjust(10)
      yield* append("Let me look")
      yield* TestClock.adjust(100)
      yield* resume
      yield* TestClock.adjust(100)
      const between = yield* read(uuid, reader.place, reader.text)
      yield* append("Here")
      yield* TestClock.adjust(100)
      assert.deepStrictEqual([reader.text, reader.replaced], ["Here", 1])
      assert.deepStrictEqual([between.text, between.replaced], ["Here", 1])
      const back = yield* read(uuid, reader.place, reader.text)
      yield* append(" it is")
      yield* TestClock.adjust(100)
      yield* complete("Here it is.")
      yield* TestClock.adjust(100)
      for (const each of [reader, between]) assert.deepStrictEqual([each.text, each.replaced], ["Here it is.", 1])
      assert.deepStrictEqual([back.text, back.replaced], ["Here it is.", 0])
    })))

  it.effect("that come back to a node do not go on with the turn of the run before", () =>
    test(Effect.gen(function*() {
      const { begin, move, read } = yield* makeWorld()
      const { append, complete, resume, turn, uuid } = yield* begin
      const first = yield* read(uuid)
      yield* append("Let me")
      yield* turn("Let me look it up")
      yield* TestClock.adjust(100)
      yield* first.close
      yield* move
      yield* resume
      const reader = yield* read(uuid, first.place, first.text)
      yield* append("Here")
      yield* TestClock.adjust(100)
      assert.strictEqual(reader.text, "Here")
      yield* reader.close
      yield* move
      const back = yield* read(uuid, reader.place, reader.text)
      const late = yield* read(uuid)
      yield* TestClock.adjust(1000)
      assert.deepStrictEqual([back.text, late.text], ["Here", ""])
      const answer = yield* append(" it is")
      assert.deepStrictEqual(answer, { status: "processing", applied: false, next: null })
      yield* turn("Here it is")
      yield* TestClock.adjust(100)
      yield* complete("Here it is.")
      yield* TestClock.adjust(100)
      assert.deepStrictEqual([back.text, late.text], ["Here it is.", "Here it is."])
      assert.isAtMost(back.replaced, 1)
    })))

  it.effect("of a new run expect its first append, whichever comes first", () =>
    test(Effect.gen(function*() {
      const { begin } = yield* makeWorld()
      const { append, appendAt } = yield* begin
      assert.deepStrictEqual(yield* appendAt(2, "c"), { status: "processing", applied: false, next: 0 })
      assert.deepStrictEqual(yield* append("a"), { status: "processing", applied: true, next: 1 })
    })))
})
