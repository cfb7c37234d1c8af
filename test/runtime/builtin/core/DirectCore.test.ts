import { assert, describe, it } from "@effect/vitest"
import { Deferred, Duration, Effect, Queue, Redacted, type Schema, Stream } from "effect"
import { TestClock } from "effect/testing"
import type { CoreReport } from "../../../../src/domain/CoreProtocol.ts"
import { CoreRefused } from "../../../../src/domain/DispatchRetry.ts"
import { OpaqueJson } from "../../../../src/domain/json/OpaqueJson.ts"
import * as Limits from "../../../../src/domain/Limits.ts"
import { StoreUnavailable } from "../../../../src/domain/StoreUnavailable.ts"
import { RunId, TaskId } from "../../../../src/domain/Task.ts"
import { RunSuperseded } from "../../../../src/domain/TaskErrors.ts"
import { now } from "../../../../src/domain/Timestamp.ts"
import type { TurnLine } from "../../../../src/runtime/builtin/AssistantProtocol.ts"
import type { Backend } from "../../../../src/runtime/builtin/Backend.ts"
import * as DirectCore from "../../../../src/runtime/builtin/core/DirectCore.ts"
import * as NodeCrypto from "../../../../src/runtime/node/NodeCrypto.ts"
import type { Run } from "../../../../src/services/core/CoreClient.ts"
import type { Tasks } from "../../../../src/services/tasks/Tasks.ts"

const runId = RunId.make("019ac5d2-8001-7b10-a5f3-90b1c2d3e4f5")

const request = {
  assistant_id: 1,
  input: [{ type: "text", text: "Why?" }],
  turns: [],
  client_tools: [],
  llm_model_id: null,
  image_generator_id: null
}

const runOf = (text: string) =>
  Effect.map(now, (deadline): Run => ({
    taskId: TaskId.make("019ac5d2-8000-7b10-a5f3-90b1c2d3e4f5"),
    runId,
    principal: { sub: "ann", tokenId: "jti:1", issuedAt: null },
    userToken: Redacted.make("token"),
    deadline,
    request: OpaqueJson.make(text),
    resume: null
  }))

const completed: TurnLine = { type: "completed", turn: { output: [{ type: "text", text: "Because." }] } }

/** A core whose backend makes `turn`, and the reports that it makes. */
const makeCore = Effect.fnUntraced(function*(
  turn: ReturnType<Backend["createTurn"]>,
  record: (report: CoreReport) => ReturnType<Tasks["Service"]["report"]> = () =>
    Effect.succeed({ status: "processing", applied: true }),
  maxRuns = 32
) {
  const reports = yield* Queue.unbounded<CoreReport>()
  const backend: Backend = {
    createChat: () => Effect.succeed("chat"),
    createTurn: () => turn,
    transcribe: () => Effect.succeed("")
  }
  const report: Tasks["Service"]["report"] = (made) => Effect.andThen(Queue.offer(reports, made), record(made))
  return { core: yield* DirectCore.make(backend, Effect.succeed(report), maxRuns), reports }
}, Effect.provide(NodeCrypto.layerRandom))

const start = Effect.fnUntraced(function*(
  { start }: Effect.Success<ReturnType<typeof DirectCore.make>>,
  input: ReadonlyArray<Schema.Json> = request.input
) {
  yield* start(yield* runOf(JSON.stringify({ ...request, input })))
})

describe("DirectCore", () => {
  it.effect("reports an event again, with the same id, until the service has recorded it", () =>
    Effect.gen(function*() {
      let attempts = 0
      const { core, reports } = yield* makeCore(Effect.succeed([Effect.succeed(completed)]), () => {
        attempts++
        if (attempts === 1) return Effect.fail(new StoreUnavailable({ cause: "down" }))
        return attempts === 2 ? Effect.die("broken") : Effect.succeed({ status: "completed", applied: true })
      })
      yield* start(core)
      const first = yield* Queue.take(reports)
      yield* TestClock.adjust("5 seconds")
      assert.deepStrictEqual(yield* Queue.takeN(reports, 2), [first, first])
      assert.isTrue(first.recordsAcceptance)
      assert.strictEqual(first.event._tag, "Completed")
      yield* TestClock.adjust("1 minute")
      assert.strictEqual(yield* Queue.size(reports), 0)
    }))

  it.effect("ends a run that the service does not want, and closes its turn", () =>
    Effect.gen(function*() {
      const closed = yield* Deferred.make<void>()
      const lines = Stream.concat(Stream.make<[TurnLine]>({ type: "progress", turn: {} }), Stream.never).pipe(
        Stream.ensuring(Deferred.succeed(closed, undefined))
      )
      const { core, reports } = yield* makeCore(Effect.succeed(lines), ({ event }) =>
        event._tag === "Progressed"
          ? Effect.fail(new RunSuperseded({ status: "canceled" }))
          : Effect.succeed({ status: "processing", applied: true }))
      yield* start(core)
      yield* Deferred.await(closed)
      assert.deepStrictEqual((yield* Queue.takeAll(reports)).map(({ event }) => event._tag), ["Accepted", "Progressed"])
    }))

  it.effect("completes a run whose turn has NUL and half a surrogate pair, and fails one whose turn is too large", () =>
    Effect.gen(function*() {
      const reportOf = Effect.fnUntraced(function*(text: string) {
        const turn = { output: [{ type: "text", text }] }
        const { core, reports } = yield* makeCore(Effect.succeed([Effect.succeed({ type: "completed", turn })]))
        yield* start(core)
        return (yield* Queue.take(reports)).event
      })
      const turn = String.raw`{"output":[{"type":"text","text":"\u0000\ud83d"}]}`
      assert.deepStrictEqual(yield* reportOf("\0\ud83d"), {
        _tag: "Completed",
        turn: OpaqueJson.make(turn),
        report: null
      })
      assert.containSubset(yield* reportOf("x".repeat(Limits.coreEventBytes)), {
        _tag: "Failed",
        error: "The result of the task is too large.",
        turn: null
      })
    }))

  it.effect("reports the events of a large request in a later turn of the event loop", () =>
    Effect.gen(function*() {
      const { core, reports } = yield* makeCore(Effect.succeed([Effect.succeed(completed)]))
      yield* start(core)
      assert.strictEqual(yield* Queue.size(reports), 1)
      yield* core.stop(runId, "the next run has the same id")
      yield* start(core, [{ type: "text", text: "x".repeat(100_000) }])
      assert.strictEqual(yield* Queue.size(reports), 1)
      yield* Queue.takeN(reports, 2)
    }))

  it.effect("fails a run whose tool calls are larger than the body of an event may be", () =>
    Effect.gen(function*() {
      const text = "x".repeat(Limits.coreEventBytes)
      const line: TurnLine = { type: "tool_calls", tool_calls: [{ id: "c", name: "look", arguments: { text } }] }
      const { core, reports } = yield* makeCore(Effect.succeed([Effect.succeed(line)]))
      yield* start(core)
      const events = Stream.map(Stream.fromQueue(reports), ({ event }) => event._tag)
      const seen = yield* Stream.runCollect(
        Stream.takeUntil(events, (tag) => tag === "Failed" || tag === "Interrupted")
      )
      assert.strictEqual(seen.at(-1), "Failed")
    }))

  it.effect("has room again when it reports the end of a run, and when it stops one", () =>
    Effect.gen(function*() {
      const recorded = yield* Deferred.make<void>()
      const end = Effect.as(Deferred.await(recorded), { status: "completed", applied: true } as const)
      const { core, reports } = yield* makeCore(Effect.succeed([Effect.succeed(completed)]), () => end, 1)
      yield* start(core)
      yield* Queue.take(reports)
      // The service has not yet answered: whoever records an end may send the next run immediately.
      const run = { ...(yield* runOf(JSON.stringify(request))), runId: RunId.make(`${runId.slice(0, -1)}6`) }
      yield* core.start(run)
      yield* Queue.take(reports)

      const slow = (yield* makeCore(Effect.never, undefined, 1)).core
      yield* start(slow)
      yield* start(slow)
      const busy = yield* Effect.flip(slow.start(run))
      assert.containSubset(busy, { _tag: "CoreHasNoRoom", retryAfter: Duration.seconds(1) })
      yield* slow.stop(runId, "canceled")
      yield* slow.start(run)
    }))

  it.effect("stops a run, and refuses a request that it cannot read", () =>
    Effect.gen(function*() {
      const stopped = yield* Deferred.make<void>()
      const { core } = yield* makeCore(Effect.onInterrupt(Effect.never, () => Deferred.succeed(stopped, undefined)))
      yield* start(core)
      assert.isTrue(yield* core.stop(runId, "canceled"))
      yield* Deferred.await(stopped)
      assert.isFalse(yield* core.stop(runId, "canceled"))
      const refused = yield* Effect.flip(Effect.flatMap(runOf("{"), core.start))
      assert.instanceOf(refused, CoreRefused)
    }))
})
