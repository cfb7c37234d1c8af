import { assert, it } from "@effect/vitest"
import { Effect, Queue, Stream } from "effect"
import { LanguageModel, type Response, Tool } from "effect/ai"
import { TestClock } from "effect/testing"
import type { TurnLine } from "../../../../src/domain/AssistantProtocol.ts"
import * as Agent from "../../../../src/runtime/builtin/backend/Agent.ts"

const usage = { inputTokens: { total: 1 }, outputTokens: { total: 1 } }
const image = { type: "image" }

it.effect("reports what a tool returned while the model has not responded to it", () =>
  Effect.gen(function*() {
    const responses: Array<Stream.Stream<Response.StreamPartEncoded>> = [
      Stream.make({ type: "tool-call", id: "a", name: "draw", params: {} }, {
        type: "finish",
        reason: "tool-calls",
        usage
      }),
      Stream.never
    ]
    const model = yield* LanguageModel.make({
      streamText: () => responses.shift() ?? Stream.empty,
      generateText: () => Effect.die("unused")
    })
    const draw: Agent.OwnTool = {
      tool: Tool.dynamic("draw", { parameters: { type: "object", properties: {} } }),
      run: () => Effect.as(Effect.sleep("1 minute"), { content: "Drawn.", output: image })
    }
    const agent = {
      model,
      modelName: "model",
      instructions: "",
      maxRounds: 8,
      tools: [draw],
      loadImage: () => Effect.undefined
    }
    const lines = yield* Queue.unbounded<TurnLine>()
    const request = { input: [], turns: [], client_tools: [] }
    yield* Agent.run(agent, request, [{ role: "user", content: "Draw." }], undefined).pipe(
      Stream.runForEach((line) => Queue.offer(lines, line)),
      Effect.forkScoped
    )
    yield* TestClock.adjust("1 minute")
    yield* TestClock.adjust("1 second")
    const reported = yield* Queue.clear(lines)
    assert.deepStrictEqual(reported.map(({ turn }) => turn?.["output"]), [[], [image]])
  }))
