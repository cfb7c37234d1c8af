/**
 * Random plans of a core, two nodes and readers that are cut off and come back: each text that a reader has is the beginning of one that
 * the core wrote, and ends as the task's own.
 */
import { assert, describe, it } from "@effect/vitest"
import { Cause, Effect, Exit, Schema, Scope } from "effect"
import { TestClock } from "effect/testing"
import { fromValue } from "../../../src/domain/json/OpaqueJson.ts"
import { type RunId, TaskEvent } from "../../../src/domain/Task.ts"
import type { Place } from "../../../src/services/live/LiveReading.ts"
import { layerStore, makeNodes, type Received, turnOf } from "../../kit/live/LiveNodes.ts"
import { call, newRunId, stored } from "../../kit/StoredTasks.ts"
import { amount } from "../../kit/thorough.ts"

const between = (minimum: number, maximum: number) => Schema.Int.check(Schema.isBetween({ minimum, maximum }))
const node = between(0, 1)
/** Halves of surrogate pairs, combining characters and plain ones. */
const Piece = Schema.Array(Schema.Literals(["a", "b", " ", "é", "e\u0301", "😀", "\ud83d", "\ude00", "👩‍💻", "\u0000"]))
  .check(
    Schema.isMaxLength(6)
  )

const Step = Schema.Union([
  Schema.Struct({ type: Schema.Literal("append"), node, piece: Piece }),
  Schema.Struct({ type: Schema.Literal("append"), node, piece: Piece }),
  Schema.Struct({ type: Schema.Literal("lose"), piece: Piece }),
  Schema.Struct({ type: Schema.Literal("repeat"), node }),
  Schema.Struct({ type: Schema.Literal("swap"), node, first: Piece, second: Piece }),
  Schema.Struct({ type: Schema.Literal("turn"), node, counts: Schema.Boolean }),
  Schema.Struct({ type: Schema.Literal("another"), node, piece: Piece }),
  Schema.Struct({ type: Schema.Literal("long"), node, units: between(1, 4) }),
  Schema.Struct({ type: Schema.Literal("resume"), node, said: Schema.Boolean }),
  Schema.Struct({ type: Schema.Literal("read"), node }),
  Schema.Struct({ type: Schema.Literal("cut"), node, back: between(0, 4), reader: between(0, 9) }),
  Schema.Struct({ type: Schema.Literal("cut"), node, back: between(0, 4), reader: between(0, 9) }),
  Schema.Struct({ type: Schema.Literal("move"), isKilled: Schema.Boolean }),
  Schema.Struct({ type: Schema.Literal("wait"), millis: between(1, 400) })
])
type Step = typeof Step.Type
const Plan = Schema.Array(Step).check(Schema.isMinLength(10), Schema.isMaxLength(50))

/** A reader between two events. */
interface State {
  readonly place: Place
  /** The offset of its text: only the beginning of a long one may be unknown. */
  readonly start: number
  readonly text: string
}

const isCut = (before: string, after: string) => /[\ud800-\udbff]$/.test(before) && /^[\udc00-\udfff]/.test(after)

const carryOut = Effect.fnUntraced(function*(plan: ReadonlyArray<Step>) {
  const { commit, move, read, report } = yield* makeNodes()
  const { runId: first, uuid } = yield* stored({ maxExecutionTime: 86_400 })
  const failures: Array<unknown> = []

  const core = { runId: first as RunId, text: "", pieces: [] as Array<string>, isAcknowledged: true }
  /** All that the core has written, in the newest state of each text. */
  const texts = [""]
  let eventNumber = 0
  const runOf = () => ({ uuid, runId: core.runId, eventId: `e${eventNumber++}` })
  const write = (piece: string) => {
    core.pieces.push(piece)
    core.text += piece
    texts[texts.length - 1] = core.text
    return { index: core.pieces.length - 1, text: piece }
  }
  const progress = Effect.fnUntraced(function*(at: number, counts: boolean) {
    const event = TaskEvent.cases.Progressed.make({ turn: turnOf(core.text) })
    const answer = yield* report(at, runOf(), event, undefined, counts ? core.pieces.length : undefined)
    if (!counts) return
    assert.strictEqual(answer !== undefined && "next" in answer && answer.next, core.pieces.length)
    core.isAcknowledged = true
  })
  /** As cores do: after a gap from the index that is expected, after null a turn. */
  const send = Effect.fnUntraced(function*(at: number, index: number) {
    core.isAcknowledged = false
    for (let from = index; from < core.pieces.length;) {
      const answer = yield* report(at, runOf(), undefined, [{ index: from, text: core.pieces[from]! }])
      if (answer === undefined || !("next" in answer)) {
        throw new Error(`the append was refused: ${JSON.stringify(answer)}`)
      }
      if (answer.next === null) return yield* progress(at, true)
      assert.isAtMost(answer.next, core.pieces.length)
      from = answer.next
    }
    core.isAcknowledged = true
  })

  const readers: Array<{ states: Array<State>; at: number; scope: Scope.Closeable; hasEnded: boolean }> = []
  let mayReplace = false
  const open = Effect.fnUntraced(function*(reader: typeof readers[number], at: number) {
    reader.at = at
    reader.scope = yield* Scope.make()
    const take = ({ id, text: part }: Received) => {
      const { start, text } = reader.states.at(-1)!
      if (part === undefined) return void reader.states.push({ place: id, start, text })
      const isReplaced = part.replaced === true
      if (isReplaced) assert.isTrue(mayReplace, "a text was replaced for no reason")
      else assert.strictEqual(part.offset, start + text.length, "a text begins where the one before ends")
      assert.isFalse(!isReplaced && isCut(text, part.text), "a pair was cut")
      const next = isReplaced
        ? { place: id, start: part.offset, text: part.text }
        : { place: id, start, text: text + part.text }
      assert.strictEqual(id.end, next.start + next.text.length)
      if (!texts.some((whole) => whole.startsWith(next.text, next.start))) {
        const shown = [text, part, ...texts].map((each) => JSON.stringify(each).slice(0, 80))
        throw new Error(`the core never wrote ${next.start}: ${next.text.length} units of ${shown.join(", ")}`)
      }
      reader.states.push(next)
    }
    yield* read(at, uuid, reader.states.at(-1)!.place, take).pipe(
      Effect.andThen(Effect.sync(() => {
        reader.hasEnded = true
      })),
      Effect.catchCause((cause) =>
        Effect.sync(() => Cause.hasInterruptsOnly(cause) || failures.push(Cause.squash(cause)))
      ),
      Effect.forkIn(reader.scope)
    )
  })
  const attach = (at: number) => {
    const reader = {
      states: [{ place: { revision: -1, end: 0 }, start: 0, text: "" }],
      at,
      scope: undefined as never,
      hasEnded: false
    }
    readers.push(reader)
    return open(reader, at)
  }
  const cut = Effect.fnUntraced(function*(reader: typeof readers[number], at: number, back: number) {
    yield* Scope.close(reader.scope, Exit.void)
    reader.states.splice(Math.max(1, reader.states.length - back))
    yield* open(reader, at)
  })

  const resume = Effect.fnUntraced(function*(at: number, isSaid: boolean) {
    const [toolCalls, turn] = [fromValue([call]), isSaid ? turnOf(core.text) : null]
    yield* report(at, runOf(), TaskEvent.cases.Interrupted.make({ toolCalls, state: fromValue({}), turn }))
    const runId = yield* newRunId
    const results = TaskEvent.cases.ToolResultsSubmitted.make({
      results: fromValue([{ tool_call_id: call.id, output: 1 }]),
      runId,
      principal: { sub: "user", tokenId: "token", issuedAt: 1_700_000_000 },
      userToken: "sealed"
    })
    yield* TestClock.adjust(1)
    yield* commit(at, uuid, results, { runId: core.runId, coreEventId: `results${eventNumber++}` })
    Object.assign(core, { runId, text: "", pieces: [], isAcknowledged: true })
    texts.push("")
  })

  const carry = Effect.fnUntraced(function*(step: Step) {
    switch (step.type) {
      case "append":
        return yield* send(step.node, write(step.piece.join("")).index)
      case "lose":
        write(step.piece.join(""))
        core.isAcknowledged = false
        return
      case "repeat":
        return core.pieces.length === 0 ? undefined : yield* send(step.node, core.pieces.length - 1)
      case "swap": {
        const [one, two] = [write(step.first.join("")), write(step.second.join(""))]
        yield* report(step.node, runOf(), undefined, [two])
        return yield* send(step.node, one.index)
      }
      case "turn":
        return yield* progress(step.node, step.counts || !core.isAcknowledged)
      case "another":
        mayReplace = true
        core.text = `${step.piece.join("")}!`
        texts.push(core.text)
        return yield* progress(step.node, true)
      case "long":
        mayReplace = true
        for (let index = 0; index < step.units; index++) {
          yield* send(step.node, write(`${core.pieces.length} `.padEnd(60_000, "😀-")).index)
        }
        return
      case "resume":
        mayReplace = true
        return yield* resume(step.node, step.said)
      case "read":
        return readers.length < 10 ? yield* attach(step.node) : undefined
      case "cut": {
        const reader = readers[step.reader % Math.max(1, readers.length)]
        return reader === undefined ? undefined : yield* cut(reader, step.node, step.back)
      }
      case "move": {
        mayReplace = true
        const killed = yield* move(step.isKilled)
        for (const reader of readers) if (reader.at === killed) yield* cut(reader, 1 - reader.at, 0)
        return
      }
      case "wait":
        return yield* TestClock.adjust(step.millis)
    }
  })

  yield* commit(0, uuid, TaskEvent.cases.Accepted.make({}), { runId: first, coreEventId: "accepted" })
  yield* attach(0)
  for (const step of plan) {
    yield* carry(step)
    yield* TestClock.adjust(1)
  }
  yield* TestClock.adjust(1000)
  write(".")
  const turn = turnOf(core.text)
  yield* report(0, runOf(), TaskEvent.cases.Completed.make({ turn }))
  yield* attach(1)
  yield* TestClock.adjust(20_000)
  if (failures.length > 0) throw failures[0]
  for (const { hasEnded, states } of readers) {
    assert.isTrue(hasEnded, "a stream did not end")
    const { start, text } = states.at(-1)!
    assert.deepStrictEqual([start, text], [0, core.text])
  }
})

describe("a live text", () => {
  it.effect.prop(
    "reaches each reader whole and in order, whatever is lost, repeated, cut and moved",
    [Plan],
    ([plan]) => Effect.scoped(carryOut(plan)).pipe(Effect.provide(layerStore, { local: true })),
    { arbitrary: { runs: amount(100, 2000) }, timeout: amount(60_000, 300_000) }
  )

  it.effect("reaches a reader that came back while another text of the same length began", () =>
    carryOut([
      { type: "append", node: 0, piece: [" "] },
      { type: "wait", millis: 1 },
      { type: "read", node: 0 },
      { type: "wait", millis: 1 },
      { type: "wait", millis: 41 },
      { type: "move", isKilled: false },
      { type: "read", node: 0 },
      { type: "cut", node: 0, back: 0, reader: 0 },
      { type: "read", node: 1 },
      { type: "another", node: 0, piece: [] }
    ]).pipe(Effect.scoped, Effect.provide(layerStore, { local: true })))

  it.effect("goes on after tool results where another node has begun it", () =>
    carryOut([
      { type: "read", node: 1 },
      { type: "append", node: 0, piece: [] },
      { type: "repeat", node: 0 },
      { type: "resume", node: 0, said: false },
      { type: "another", node: 0, piece: [] },
      { type: "append", node: 0, piece: [] },
      { type: "move", isKilled: false },
      { type: "repeat", node: 0 },
      { type: "lose", piece: ["a"] },
      { type: "repeat", node: 0 }
    ]).pipe(Effect.scoped, Effect.provide(layerStore, { local: true })))
})
