import { NodeServices } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Layer, Stream } from "effect"
import { TestClock } from "effect/testing"
import * as path from "node:path"
import * as FileReader from "../../../../src/runtime/builtin/backend/FileReader.ts"
import * as FileStorage from "../../../../src/runtime/builtin/backend/FileStorage.ts"
import * as StorageQuota from "../../../../src/runtime/builtin/backend/StorageQuota.ts"
import * as DemoAssistants from "../../../../src/runtime/builtin/demo/DemoAssistants.ts"
import * as NodeCrypto from "../../../../src/runtime/node/NodeCrypto.ts"
import { cpuTimer } from "../../../kit/cpu.ts"
import { useDirectory } from "../../../kit/suite.ts"
import { isThorough } from "../../../kit/thorough.ts"

const directory = useDirectory()

const platform = Layer.mergeAll(NodeServices.layer, NodeCrypto.layerRandom)

const makeAssistants = Effect.gen(function*() {
  const quota = StorageQuota.make({ directory: path.join(directory, "usage"), userBytes: 2 ** 40, freeBytes: 0 })
  const storage = yield* FileStorage.make({ root: path.join(directory, "storage"), quota })
  return { storage, assistants: DemoAssistants.make(storage, FileReader.make()) }
})

const { crash, painter, rules, slow, tools } = DemoAssistants.ids

/** Characters and pairs at which a pattern may begin, continue or end. */
const units = [
  "?",
  "=",
  " ",
  "\n",
  "\t",
  ".",
  ". ",
  "!",
  "? ",
  "\n ",
  " \n",
  ".\n",
  "a",
  "ab ",
  "a.",
  "abcd ",
  "abcd. ",
  "é",
  "漢",
  "😀",
  "\u00a0",
  "\u2028",
  "0",
  "1.",
  ".1",
  "1+",
  "(",
  "-",
  "^1",
  "1^",
  "/",
  "\\",
  "\"",
  "{",
  "[",
  "_",
  "-a",
  "get",
  "İ",
  "ẞ"
]

/** A megabyte of each unit, alone and around another text: usually one of these. */
const texts = units.flatMap((unit, index) => {
  const run = unit.repeat(Math.ceil(1_000_000 / unit.length))
  const all = [run, `x${run}x`, `echo ${run}.`, `summarize: ${run}x`, `what is ${run}`]
  return isThorough ? all : [all[index % all.length]!]
})

/** Maximum CPU milliseconds of this thread for one answer. */
const maxCpu = 150

const cpuOf = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.suspend(() => {
    const elapsed = cpuTimer()
    return Effect.map(effect, elapsed)
  })

const clientTools = Array.from({ length: 128 }, (_, n) => ({
  type: "function",
  name: `${"a".repeat(60)}_${n}`.slice(-64),
  parameters: {
    type: "object",
    properties: Object.fromEntries(Array.from({ length: 200 }, (_, key) => [`p${key}`, { type: "string" }]))
  }
}))

const firstLines = (lines: ReturnType<DemoAssistants.DemoAssistant>) =>
  Stream.runCollect(Stream.take(Effect.isEffect(lines) ? Stream.fromEffect(lines) : lines, 2))

const request = (text: string, more: ReadonlyArray<object> = []) => ({
  input: [{ type: "text", text }, ...more],
  turns: [],
  client_tools: clientTools
} as never)

describe("the demo assistants", () => {
  for (const [name, id] of Object.entries({ rules, tools, slow, crash })) {
    it.effect(
      `${name} takes time linear in the size of a text of a megabyte, whatever its content`,
      () =>
        Effect.gen(function*() {
          const { assistants } = yield* makeAssistants
          const assistant = assistants.get(id)!
          let worst = { cpu: 0, text: "" }
          for (const text of texts) {
            const answer = firstLines(assistant(request(text), "someone"))
            const cpu = yield* cpuOf(Effect.gen(function*() {
              const fiber = yield* Effect.forkChild(answer)
              yield* TestClock.adjust("10 seconds")
              yield* Fiber.join(fiber)
            }))
            if (cpu > worst.cpu) worst = { cpu, text: text.slice(0, 20) }
          }
          assert.isBelow(worst.cpu, maxCpu, JSON.stringify(worst.text))
        }).pipe(Effect.provide(platform)),
      120_000
    )
  }

  it.effect("painter takes little more time for a megabyte than for a word", () =>
    Effect.gen(function*() {
      const { assistants } = yield* makeAssistants
      for (const text of ["x", ...texts.slice(0, 20)]) {
        const cpu = yield* cpuOf(firstLines(assistants.get(painter)!(request(text), "someone")))
        assert.isBelow(cpu, 2 * maxCpu, JSON.stringify(text.slice(0, 20)))
      }
    }).pipe(Effect.provide(platform)), 60_000)

  it.live(
    "rules takes time linear in the size of a file of a megabyte, whatever its content",
    () =>
      Effect.gen(function*() {
        const { assistants, storage } = yield* makeAssistants
        for (const unit of ["?", ". ", "\n", "abcd. ", " ", "a"]) {
          const content = Stream.make(Buffer.from(unit.repeat(1_000_000 / unit.length)))
          const file = yield* storage.store("someone", "a.txt", "text/plain", content)
          for (const question of ["", "abcd ".repeat(200_000)]) {
            const asked = request(question, [{ type: "file", file }])
            const cpu = yield* cpuOf(firstLines(assistants.get(rules)!(asked, "someone")))
            assert.isBelow(cpu, 2 * maxCpu, JSON.stringify([unit, question.slice(0, 10)]))
          }
        }
      }).pipe(Effect.provide(platform)),
    60_000
  )

  it.effect("tools bounds the total size of its arguments", () =>
    Effect.gen(function*() {
      const { assistants } = yield* makeAssistants
      const named = clientTools.map(({ name }) => name).join(" ")
      const text = `${named} ${"x".repeat(1_000_000)}`
      const lines = yield* firstLines(assistants.get(tools)!(request(text), "someone"))
      const calls = Array.from(lines).flatMap((line) => line.type === "tool_calls" ? line.tool_calls : [])
      assert.strictEqual(calls.length, 128)
      assert.isBelow(JSON.stringify(calls).length, 16_000_000)
    }).pipe(Effect.provide(platform)))
})
