import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Fiber, Layer, Logger, Redacted } from "effect"
import { TestClock } from "effect/testing"
import { CoreUnavailable } from "../../../src/domain/DispatchRetry.ts"
import { OpaqueJson } from "../../../src/domain/json/OpaqueJson.ts"
import { RunId, TaskId } from "../../../src/domain/Task.ts"
import { now } from "../../../src/domain/Timestamp.ts"
import { CoreClient, CoreTransport } from "../../../src/services/core/CoreClient.ts"

const runId = RunId.make("019ac5d2-8001-7b10-a5f3-90b1c2d3e4f5")
const otherRunId = RunId.make("019ac5d2-8001-7b10-a5f3-90b1c2d3e4f6")

const run = Effect.map(now, (deadline) => ({
  taskId: TaskId.make("019ac5d2-8000-7b10-a5f3-90b1c2d3e4f5"),
  runId,
  principal: { sub: "ann", tokenId: "jti:1", issuedAt: null },
  userToken: Redacted.make("token"),
  deadline,
  request: OpaqueJson.make(`{"assistant_id":1}`),
  resume: null
}))

describe("CoreClient", () => {
  it.effect("delays a stop until the start of its run has ended, but not for other runs", () =>
    Effect.gen(function*() {
      const answered = yield* Deferred.make<void>()
      const calls: Array<string> = []
      const transport = Layer.succeed(CoreTransport, {
        connect: () => Effect.void,
        post: (url) =>
          Effect.suspend(() => {
            calls.push(new URL(url).pathname)
            const isStart = url.endsWith("/runs")
            return Effect.as(isStart ? Deferred.await(answered) : Effect.void, { status: 202, retryAfter: undefined })
          })
      })
      yield* Effect.gen(function*() {
        const core = yield* CoreClient
        const starting = yield* Effect.forkChild(core.start(yield* run), { startImmediately: true })
        const stopping = yield* Effect.forkChild(core.stop(runId, "canceled"), { startImmediately: true })
        yield* core.stop(otherRunId, "canceled")
        assert.deepStrictEqual(calls, ["/runs", `/runs/${otherRunId}/stop`])
        yield* Deferred.succeed(answered, undefined)
        yield* Fiber.join(starting)
        yield* Fiber.join(stopping)
        assert.deepStrictEqual(calls.slice(2), [`/runs/${runId}/stop`])
        yield* core.stop(runId, "canceled")
      }).pipe(
        Effect.provide(
          CoreClient.layer({ url: "http://core", tokens: [], eventsUrl: "http://us/events" }).pipe(
            Layer.provide(transport)
          )
        )
      )
    }))

  it.effect("logs why the core is unavailable, once in ten seconds", () =>
    Effect.gen(function*() {
      const lines: Array<unknown> = []
      const logger = Logger.make(({ message }) => void lines.push(message))
      const core = CoreClient.make({
        start: () => Effect.fail(new CoreUnavailable({ reason: "status 503", retryAfter: null })),
        stop: () => Effect.succeed(true)
      })
      const start = Effect.flip(Effect.provide(core.start(yield* run), Logger.layer([logger])))
      yield* start
      yield* start
      const line = ["The core is unavailable: status 503. Runs are retried until their tasks expire"]
      assert.deepStrictEqual(lines, [line])
      yield* TestClock.adjust("10 seconds")
      yield* start
      assert.deepStrictEqual(lines, [line, line])
    }))
})
