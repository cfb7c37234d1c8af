/** The OpenAI façade with the official SDK: streams, files and webhooks. */
import type { Response } from "openai/resources/responses/responses"
import { assert, describe, it, onTestFinished } from "vitest"
import { complete as completeRun, interrupt, report, type StartedRun, turnOf } from "../../kit/ScriptedCore.ts"
import { WebhookTarget } from "../../kit/ScriptedService.ts"
import { eventually } from "../../kit/Service.ts"
import { expectQuiet, use } from "../../kit/suite.ts"
import { startSystem } from "../../kit/System.ts"
import { all, callsOf, clientOf, complete, ended, refusal, toolCalls, tools, uuidOf } from "./OpenAi.ts"

const { core, service } = await use(startSystem({ WEBHOOK_ALLOW_PRIVATE: "true", FACADE_MODELS: "gpt-5=1" }))
expectQuiet(service)

const runOf = (id: string, earlier?: StartedRun) => core.run(uuidOf(id), earlier)

describe("a stream", () => {
  it("has the text as deltas, and continues after every number while the task runs and after its end", async () => {
    const client = await clientOf(service, "streamer")
    const { id } = await client.responses.create({ model: "gpt-5", input: "x", background: true })
    const run = await runOf(id)
    const read = async (after?: number) => {
      const stream = await client.responses.retrieve(id, {
        stream: true,
        ...(after === undefined ? {} : { starting_after: after })
      })
      return all(stream)
    }
    await report(run, { type: "progress", turn: turnOf("Hel") })
    const live = read()
    const resumed = read(5)
    await report(run, { type: "progress", turn: turnOf("Hello wor") })
    await report(run, { type: "completed", turn: turnOf("Hello world") })
    const events = await live
    assert.deepStrictEqual(events.slice(0, 5).map(({ type }) => type), [
      "response.created",
      "response.queued",
      "response.in_progress",
      "response.output_item.added",
      "response.content_part.added"
    ])
    const textOf = (found: typeof events) =>
      found.map((event) => event.type === "response.output_text.delta" ? event.delta : "").join("")
    assert.strictEqual(textOf(events), "Hello world")
    assert.strictEqual(textOf(await resumed), "ello world")
    const last = events.at(-1)
    assert.strictEqual(last?.type, "response.completed")
    assert.strictEqual(complete((last as { response: Response }).response).id, id)
    await Promise.all(events.map(async ({ sequence_number: after }, index) => {
      const rest = await read(after)
      assert.strictEqual(textOf(events.slice(0, index + 1)) + textOf(rest), "Hello world")
      assert.deepStrictEqual(rest.at(-1), index === events.length - 1 ? undefined : last)
    }))
    const helped = client.responses.stream({ response_id: id, starting_after: 2 })
    assert.strictEqual((await helped.finalResponse()).output_text, "Hello world")
    assert.deepStrictEqual(
      await refusal(client.responses.retrieve(id, { stream: true, starting_after: -1 })),
      [400, null, "starting_after"]
    )
  })

  it("of a core that appends has its words as they come, and goes on after every tenth event", async () => {
    const client = await clientOf(service, "appended")
    const { id } = await client.responses.create({ model: "gpt-5", input: "x", background: true })
    const run = await runOf(id)
    const words = Array.from({ length: 40 }, (_, index) => `word ${index} 😀 `)
    let received = ""
    let streams = 0
    const read = async () => {
      let after: number | undefined
      for (;;) {
        streams++
        const stream = await client.responses.retrieve(id, {
          stream: true,
          ...(after === undefined ? {} : { starting_after: after })
        })
        let count = 0
        for await (const event of stream) {
          after = event.sequence_number
          if (event.type === "response.output_text.delta") received += event.delta
          if (event.type === "response.completed") return event.response.output_text
          if (++count === 10) break
        }
      }
    }
    const reading = read()
    for (const [index, text] of words.entries()) {
      await report(run, { type: "progress", append: { index, text } })
      await eventually(async () => received, (received) => received.endsWith(text))
    }
    const whole = words.join("")
    assert.strictEqual(received, whole)
    await completeRun(run, `${whole}.`)
    await reading
    assert.strictEqual(received, `${whole}.`)
    assert.isAbove(streams, 4)
  }, 60_000)

  const versions: ReadonlyArray<readonly [string, ReadonlyArray<string>, object, string]> = [
    [
      "notes",
      ["Thinking", "Let me see"],
      { type: "completed", turn: turnOf("The answer is 42.") },
      "The answer is 42."
    ],
    ["another text", ["Hel", "Hello", "Bye"], { type: "completed", turn: turnOf("Bye now") }, "Bye now"],
    ["a shorter text", ["Hello world"], { type: "completed", turn: turnOf("Hello") }, "Hello"],
    ["a text that comes back", ["a b", "x", "a b c"], { type: "completed", turn: turnOf("a") }, "a"],
    ["no text", ["Hello"], { type: "completed", turn: { output: [], messages: [], metadata: {} } }, ""],
    ["the text of a failure", ["Hello"], { type: "failed", code: "internal", turn: turnOf("Sorry") }, "Sorry"],
    [
      "a text and calls",
      ["Hello"],
      { type: "interrupted", tool_calls: toolCalls(1), turn: turnOf("I look.") },
      "I look."
    ]
  ]

  it.each(versions)(
    "that a core replaces by %s adds up to the final text, for every reader and after every cut",
    async (
      what,
      texts,
      end,
      text
    ) => {
      const client = await clientOf(service, `replaced by ${what}`)
      const { id } = await client.responses.create({ model: "gpt-5", input: "x", background: true, tools })
      const run = await runOf(id)
      const read = async (after?: number) =>
        all(
          await client.responses.retrieve(id, {
            stream: true,
            ...(after === undefined ? {} : { starting_after: after })
          })
        )
      const textOf = (found: Awaited<ReturnType<typeof read>>) =>
        found.map((event) => event.type === "response.output_text.delta" ? event.delta : "").join("")
      const live = [read()]
      for (const version of texts) {
        await report(run, { type: "progress", turn: turnOf(version) })
        assert.strictEqual((await client.responses.retrieve(id)).output_text, version)
        live.push(read())
      }
      const helped = client.responses.stream({ response_id: id })
      let snapshot = ""
      helped.on("response.output_text.delta", (event) => void ({ snapshot } = event))
      await report(run, end)
      for (const events of await Promise.all(live)) {
        assert.strictEqual(textOf(events), text)
        assert.strictEqual((events.at(-1) as { response: Response }).response.output_text ?? text, text)
      }
      assert.strictEqual((await helped.finalResponse()).output_text, text)
      assert.strictEqual(snapshot, text)
      const whole = await live[0]!
      for (const [index, { sequence_number }] of whole.entries()) {
        assert.strictEqual(textOf(whole.slice(0, index + 1)) + textOf(await read(sequence_number)), text)
      }
    }
  )

  it("has the text as it grows with FACADE_LIVE_TEXT", async () => {
    const system = await use(startSystem({ FACADE_LIVE_TEXT: "true" }), onTestFinished)
    const client = await clientOf(system.service, "live")
    const { id } = await client.responses.create({ model: "1", input: "x", background: true })
    const run = await system.core.run(uuidOf(id))
    const seen: Array<string> = []
    const texts = ["Hel", "Hello", "Hello world"]
    for await (const event of await client.responses.retrieve(id, { stream: true })) {
      if (event.type === "response.in_progress") await report(run, { type: "progress", turn: turnOf("Hel") })
      if (event.type !== "response.output_text.delta") continue
      seen.push(event.delta)
      const next = texts[seen.length]
      if (next !== undefined) await report(run, { type: "progress", turn: turnOf(next) })
      else await completeRun(run, "Hello world!")
      if (event.delta === "!") break
    }
    assert.deepStrictEqual(seen, ["Hel", "lo", " world", "!"])
  }, 30_000)

  it("of a create ends with the calls of an interrupted task, and the next leg begins without their text", async () => {
    const client = await clientOf(service, "caller")
    const stream = await client.responses.create({ model: "gpt-5", input: "stream", stream: true, tools })
    const isOurs = ({ input }: StartedRun) => input[0]?.text === "stream"
    const run = await eventually(async () => core.runs.find(isOurs), (found) => found !== undefined)
    await interrupt(run!, { tool_calls: toolCalls(2), turn: turnOf("Looking.") })
    const events = await all(stream)
    assert.deepStrictEqual(
      events.flatMap((event) => event.type === "response.function_call_arguments.done" ? [event.arguments] : []),
      ["{\"index\":0}", "{\"index\":1}"]
    )
    const first = (events.at(-1) as { response: Response }).response
    const next = await client.responses.create({
      model: "gpt-5",
      input: callsOf(first).map(({ call_id }) => ({ type: "function_call_output", call_id, output: "1" })),
      previous_response_id: first.id,
      stream: true
    })
    await completeRun(await runOf(first.id, run), "Found.")
    const later = await all(next)
    const done = later.find((event) => event.type === "response.output_text.done")
    assert.strictEqual(done?.text, "Found.")
    assert.notInclude(JSON.stringify(later), "Looking.")
  })
})

describe("webhooks", () => {
  it("are events of the API, which the SDK verifies, with the response of each leg", async () => {
    const client = await clientOf(service, "called")
    const target = await use(new WebhookTarget().listen(), onTestFinished)
    const secret = `whsec_${Buffer.alloc(24, 3).toString("base64")}`
    const callback = { callback_url: `${target.url}/hook`, callback_secret: secret }
    const first = await client.responses.create({ model: "gpt-5", input: "x", background: true, tools, ...callback })
    const received = async (count: number) => {
      const posts = await eventually(async () => target.received, ({ length }) => length === count)
      const { body, headers } = posts.at(-1)!
      return { headers, event: await client.webhooks.unwrap(body, new Headers(headers as HeadersInit), secret) }
    }
    const run = await runOf(first.id)
    await interrupt(run, { tool_calls: toolCalls(1) })
    const { event, headers } = await received(1)
    assert.deepStrictEqual(event, {
      id: String(headers["webhook-id"]),
      object: "event",
      created_at: event.created_at,
      type: "response.completed",
      data: { id: first.id }
    })
    assert.closeTo(event.created_at, Date.now() / 1000, 30)
    const second = await client.responses.create({
      model: "gpt-5",
      input: [{ type: "function_call_output", call_id: "c0", output: "1" }],
      previous_response_id: first.id,
      background: true
    })
    await report(await runOf(second.id, run), { type: "failed", code: "internal" })
    const failed = (await received(2)).event
    assert.deepStrictEqual([failed.type, failed.data], ["response.failed", { id: second.id }])
  })
})

describe("files", () => {
  it("are uploaded to the backend, described by their ids, and downloaded from the storage", async () => {
    const client = await clientOf(service, "filer")
    const file = await client.files.create({ file: new File(["a,b\n"], "Zahlen ü.csv"), purpose: "user_data" })
    assert.deepStrictEqual([file.bytes, file.filename, file.object], [4, "Zahlen ü.csv", "file"])
    assert.deepStrictEqual(await client.files.retrieve(file.id), file)
    assert.strictEqual(await (await client.files.content(file.id)).text(), "a,b\n")
    const { id } = await client.responses.create({
      model: "gpt-5",
      input: [{ role: "user", content: [{ type: "input_file", file_id: file.id }] }],
      background: true
    })
    const [item] = (await runOf(id)).input
    assert.deepInclude(item, { type: "file" })
    const stored = (item as unknown as { file: { name: string; provider_data: { path: string } } }).file
    assert.strictEqual(stored.name, "Zahlen ü.csv")
    const output = [{ type: "text", text: "See" }, { type: "file", file: stored }]
    await report(await runOf(id), { type: "completed", turn: { output, messages: [], metadata: {} } })
    const { output_text } = await ended(client, id)
    const [, link] = /^See\n\n\[Zahlen ü\.csv\]\((.+)\)$/.exec(output_text) ?? []
    assert.strictEqual(await (await fetch(link!)).text(), "a,b\n")
    assert.deepStrictEqual(await refusal(client.files.retrieve("file-x")), [404, "not_found", "id"])
  })
})
