/** `?include=turn` of the event stream: the texts of partial turns. */
import { Effect, Layer, Redacted } from "effect"
import { FetchHttpClient } from "effect/http"
import { assert, describe, it } from "vitest"
import { TaskService } from "../../src/http/client/EffectTaskClient.ts"
import { TaskServiceClient } from "../../src/http/client/promise/TaskServiceClient.ts"
import { complete, interrupt, report, type StartedRun, toolCall, turnOf } from "../kit/ScriptedCore.ts"
import { eventually, mint } from "../kit/Service.ts"
import { sharedSystem } from "../kit/System.ts"

const system = await sharedSystem()
const { core, runOf, service } = system

const question = { assistant_id: 1, input: [{ type: "text", text: "Why?" }] } as const

const begin = async (sub: string) => {
  const token = await mint(sub)
  const client = new TaskServiceClient({ baseUrl: service.url, token })
  const { uuid } = await client.tasks.create(question)
  return { client, token, uuid, run: await runOf(uuid) }
}

const progress = (run: StartedRun, turn: object) => report(run, { type: "progress", turn })

describe("GET /api/tasks/{uuid}/events?include=turn", () => {
  it("sends each text once, as it is reported, and the current one after Last-Event-ID", async () => {
    const { client, run, uuid } = await begin("reader")
    const events = client.tasks.events(uuid, { include: "turn" })
    const textOfNext = async () => {
      const { value } = await events.next()
      return [value?.revision, value?.event, value?.text]
    }
    assert.deepStrictEqual(await textOfNext(), [0, "pending", undefined])
    await progress(run, turnOf("Be"))
    assert.deepStrictEqual(await textOfNext(), [1, "progress", "Be"])
    await progress(run, { output: [{ type: "text", text: "Because" }, { type: "text", text: "so" }] })
    assert.deepStrictEqual(await textOfNext(), [2, "progress", "Because\n\nso"])
    await progress(run, { ...turnOf("Because\n\nso"), metadata: { tokens: 2 } })
    assert.deepStrictEqual(await textOfNext(), [3, "progress", undefined])
    await progress(run, { shape: "another" })
    assert.deepStrictEqual(await textOfNext(), [4, "progress", undefined])
    await progress(run, turnOf("x".repeat(65_535) + "😀"))
    assert.deepStrictEqual(await textOfNext(), [5, "progress", "x".repeat(65_535)])
    await progress(run, { ...turnOf("hidden"), messages: ["x".repeat(256 * 1024)] })
    assert.deepStrictEqual(await textOfNext(), [6, "progress", undefined])
    await progress(run, turnOf("short"))
    assert.deepStrictEqual(await textOfNext(), [7, "progress", "short"])

    const texts: Array<readonly [number, boolean]> = []
    const resumed = client.tasks.events(uuid, { after: 1, include: "turn" })
    const plain = client.tasks.events(uuid)
    await complete(run, "short and done")
    for await (const { revision, text } of resumed) texts.push([revision, text !== undefined])
    assert.deepStrictEqual(texts.map(([revision]) => revision), [2, 3, 4, 5, 6, 7, 8])
    assert.deepStrictEqual(texts.filter(([, has]) => has), [[7, true]])
    for await (const event of plain) assert.notProperty(event, "text")
    assert.deepStrictEqual(await textOfNext(), [8, "completed", undefined])
  })
})

/** Reports partial texts, each after the client has seen the one before, with an interrupt in between. */
const play = async (lastText: () => string | undefined, tasksBefore: number) => {
  const first = (await eventually(async () => core.runs.at(tasksBefore), (run) => run !== undefined))!
  const say = async (run: StartedRun, text: string) => {
    await progress(run, turnOf(text))
    await eventually(async () => lastText(), (last) => last === text)
  }
  await say(first, "Let me")
  await say(first, "Let me look")
  await interrupt(first)
  const second = await runOf(first.task_id, first)
  await say(second, "Found")
  await complete(second, "Found it")
}

const expected: Array<[string, string | undefined]> = [["Let me", "Let me"], ["Let me look", " look"], [
  "Found",
  undefined
], ["Found it", " it"]]

describe("tasks.run with onText", () => {
  it("reports each text with its added part, and the whole text at the end", async () => {
    const { tasks } = new TaskServiceClient({ baseUrl: service.url, token: await mint("promise") })
    const seen: Array<[string, string | undefined]> = []
    const before = core.runs.length
    const running = tasks.run(question, {
      tools: { [toolCall.name]: () => "found" },
      onText: (text, delta) => seen.push([text, delta])
    })
    await play(() => seen.at(-1)?.[0], before)
    assert.strictEqual((await running).status, "completed")
    assert.deepStrictEqual(seen, expected)
  })

  it("rejects with the error of the callback", async () => {
    const { tasks } = new TaskServiceClient({ baseUrl: service.url, token: await mint("thrower") })
    const before = core.runs.length
    const running = tasks.run(question, {
      onText: () => {
        throw new Error("no room")
      }
    }).catch(({ message }: Error) => message)
    const run = (await eventually(async () => core.runs.at(before), (run) => run !== undefined))!
    await progress(run, turnOf("x"))
    assert.strictEqual(await running, "no room")
  })

  it("does the same in the Effect client", async () => {
    const token = Effect.succeed(Redacted.make(await mint("effect")))
    const layer = TaskService.layer({ baseUrl: service.url, token }).pipe(Layer.provide(FetchHttpClient.layer))
    const seen: Array<[string, string | undefined]> = []
    const before = core.runs.length
    const running = Effect.runPromise(
      Effect.flatMap(
        TaskService,
        ({ tasks }) =>
          tasks.run({ ...question, client_tools: [{ type: "function", name: toolCall.name }] }, {
            [toolCall.name]: () => Effect.succeed("found")
          }, { onText: (text, delta) => Effect.sync(() => void seen.push([text, delta])) })
      ).pipe(Effect.provide(layer))
    )
    await play(() => seen.at(-1)?.[0], before)
    assert.strictEqual((await running).status, "completed")
    assert.deepStrictEqual(seen, expected)
  })
})
