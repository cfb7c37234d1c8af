/** `createCore`, called as the service calls it, with the events of its runs at a scripted service. */
import { afterEach, assert, beforeEach, describe, it, onTestFinished } from "vitest"
import {
  AssistantNotAvailable,
  createCore,
  Failure,
  InsufficientBalance,
  type Run,
  RunStopped
} from "../../../../src/http/client/Core.ts"
import type { CoreOptions } from "../../../../src/http/client/core/CoreTypes.ts"
import { EventReceiver } from "../../../kit/EventReceiver.ts"
import { answerJson } from "../../../kit/LoopbackServer.ts"
import { eventually } from "../../../kit/Service.ts"

let service: EventReceiver
/** What the core logged. */
let logged: Array<string>

beforeEach(async () => {
  service = await new EventReceiver().listen()
  logged = []
})
afterEach(() => service.close())

const makeCore = (run: CoreOptions["run"], more: Partial<CoreOptions> = {}) => {
  const log = {
    info: () => {},
    error: (message: string, cause?: unknown) => logged.push(`${message} ${String(cause)}`)
  }
  const core = createCore({ run, log, ...service.tokens, ...more })
  onTestFinished(() => core.close({ drainSeconds: 0 }))
  const post = (path: string, body: unknown, token?: string) => core.fetch(service.request(path, body, token))
  return {
    ...core,
    post,
    /** Hands a run over and returns its id. */
    start: async (more: object = {}) => {
      const body = service.run(more)
      assert.strictEqual((await post("/runs", body)).status, 202)
      return body.run_id
    }
  }
}

/** The final event of a run of `work`. */
const outcome = async (work: CoreOptions["run"], type: string, more?: object) => {
  const core = makeCore(work)
  return service.until(await core.start(more), type)
}

/** A promise that a test resolves. */
const gate = <A = void>() => {
  let open: (value: A) => void = () => {}
  const opened = new Promise<A>((resolve) => {
    open = resolve
  })
  return { open, opened }
}

const aborted = ({ signal }: Run) => new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()))

describe("the run", () => {
  it("has the fields of the dispatch", async () => {
    const seen = gate<Run>()
    const core = makeCore((run) => seen.open(run))
    const body = service.run({
      input: [{ type: "text", text: "One" }, { type: "file", file: { id: "1", name: "a", mime_type: "b" } }, {
        type: "text",
        text: "Two"
      }],
      turns: [{ role: "user", content: "before" }],
      client_tools: [{ type: "function", name: "look" }],
      llm_model_id: 7,
      options: { max_output_tokens: 5 }
    })
    await core.post("/runs", body)
    const run = await seen.opened
    assert.deepInclude(run, {
      taskId: body.task_id,
      runId: body.run_id,
      assistantId: 1,
      input: body.input as Run["input"],
      prompt: "One\n\nTwo",
      turns: [{ role: "user", content: "before" }],
      messages: [{ role: "user", content: "before" }, { role: "user", content: "One\n\nTwo" }],
      clientTools: [{ type: "function", name: "look" }],
      llmModelId: 7,
      imageGeneratorId: null,
      user: { sub: "user-1" },
      userToken: "token-of-the-user",
      options: { max_output_tokens: 5 },
      deadline: new Date(body.deadline_at),
      resumed: false,
      results: [],
      state: null
    })
    assert.isFalse(run.signal.aborted)
  })

  it("begins when the service has taken its acceptance, which is its first event", async () => {
    let begun = 0
    const core = makeCore(() => String(++begun))
    service.answer = () => ({ status: service.events.length < 3 ? 503 : 200 })
    const runId = await core.start()
    await service.until(runId, "completed")
    assert.deepStrictEqual(service.of(runId).map(({ type }) => type), [
      ...Array.from({ length: 4 }, () => "processing"),
      "completed"
    ])
    assert.lengthOf(new Set(service.of(runId).map(({ event_id }) => event_id)), 2)
    assert.strictEqual(begun, 1)
  })

  it("downloads files of the user by the service's storage", async () => {
    service.other = ({ headers, url }, response) => {
      if (url !== "/api/storage/base") return response.writeHead(url === "/s/a/b.txt" ? 200 : 404).end("content")
      answerJson(response, headers.authorization === "Bearer token-of-the-user" ? 200 : 401, {
        url: `${service.url}/s`
      })
    }
    const file = { id: "1", name: "b.txt", mime_type: "text/plain", provider_data: { path: "a/b.txt" } }
    const { turn } = await outcome(
      async ({ files, input }) => (await files.download(input[0] as { file: typeof file })).text(),
      "completed",
      { input: [{ type: "file", file }] }
    )
    assert.strictEqual(turn.output[0].text, "content")
  })
})

describe("the result", () => {
  const hello = [{ role: "user", content: [{ type: "text", text: "Hello" }] }]
  for (
    const [kind, result, text] of [
      ["a text", "Hi", "Hi"],
      ["a JSON object", { answer: 42 }, "{\"answer\":42}"],
      ["the state of a graph", { messages: [], x: 2 }, "{\"messages\":[],\"x\":2}"],
      ["a number", 7, "7"],
      ["null", null, "null"]
    ] as const
  ) {
    it(`is a turn with the conversation, for ${kind}`, async () => {
      const { turn } = await outcome(() => result, "completed")
      assert.deepStrictEqual(turn, {
        output: [{ type: "text", text }],
        messages: [...hello, { role: "assistant", content: text }],
        metadata: {}
      })
    })
  }

  it("is the turn that the function returns, with what it lacks", async () => {
    const output = [{ type: "text", text: "a" }, { type: "image", file: { id: "1" } }]
    const { turn } = await outcome(() => ({ output, messages: undefined, metadata: { model: "m" } }), "completed")
    assert.deepStrictEqual(turn, {
      output,
      messages: [...hello, { role: "assistant", content: "a" }],
      metadata: { model: "m" }
    })
  })

  it("is what run.text has written when the function returns nothing", async () => {
    const { turn } = await outcome(({ text }) => {
      text("Hel")
      text("lo")
    }, "completed")
    assert.strictEqual(turn.output[0].text, "Hello")
  })

  it("has the sum of what was used, in the names of OpenAI and the AI SDK too", async () => {
    const { turn } = await outcome(({ usage }) => {
      usage({ model: "m", input_tokens: 1, output_tokens: 2, total_tokens: 3 })
      usage({ inputTokens: 10, outputTokens: 20, totalTokens: 30, cachedInputTokens: 4, reasoningTokens: 5 })
      usage({ prompt_tokens: 100, completion_tokens: 200, prompt_tokens_details: { cached_tokens: 6 } })
      return "x"
    }, "completed")
    assert.deepStrictEqual(turn.metadata, {
      model: "m",
      usage: {
        input_tokens: 111,
        output_tokens: 222,
        total_tokens: 333,
        input_tokens_details: { cached_tokens: 10 },
        output_tokens_details: { reasoning_tokens: 5 }
      }
    })
  })
})

describe("the stored turn continues the conversation", () => {
  const turns = [{ role: "user", content: "before" }, { role: "assistant", content: "Yes" }]
  const said = [...turns, { role: "user", content: [{ type: "text", text: "Hello" }] }]
  const textOf = (text: string) => ({ output: [{ type: "text" as const, text }] })
  const continued = (text: string, before: ReadonlyArray<object> = said) => ({
    ...textOf(text),
    messages: [...before, { role: "assistant", content: text }],
    metadata: { usage: { input_tokens: 1, output_tokens: 2, total_tokens: 3 } }
  })
  const calls = [{ name: "look" }]
  const ends: Record<string, readonly [type: string, text: string, end: CoreOptions["run"]]> = {
    "nothing is returned": ["completed", "Hello", () => undefined],
    "a text is returned": ["completed", "Bye", () => "Bye"],
    "a turn is returned": ["completed", "Bye", () => textOf("Bye")],
    "it fails": ["failed", "Hello", () => Promise.reject(new Failure("No"))],
    "it breaks": ["failed", "Hello", () => Promise.reject(new Error("No"))],
    "it is interrupted": ["interrupted", "Hello", (run) => run.interrupt({ calls })],
    "it is interrupted with a text": ["interrupted", "Bye", (run) => run.interrupt({ calls, turn: "Bye" })],
    "it is interrupted with a turn": ["interrupted", "Bye", (run) => run.interrupt({ calls, turn: textOf("Bye") })]
  }
  const writes: Record<string, (run: Run) => void> = {
    "text": ({ text }) => ["Hel", "lo"].forEach(text),
    "a text as progress": ({ progress }) => progress("Hello"),
    "a turn as progress": ({ progress }) => progress(textOf("Hello")),
    "text after a text as progress": ({ progress, text }) => [progress("Hel"), text("lo")],
    "text after a turn as progress": ({ progress, text }) => [progress(textOf("Hel")), text("lo")],
    "progress after text": ({ progress, text }) => [text("Old"), progress("Hello")]
  }
  for (const [kind, write] of Object.entries(writes)) {
    const wrote = (run: Run) => {
      write(run)
      run.usage({ input_tokens: 1, output_tokens: 2 })
    }
    for (const [ending, [type, text, end]] of Object.entries(ends)) {
      it(`after ${kind}, when ${ending}`, async () => {
        const work = (run: Run) => [wrote(run), end(run)][1]
        assert.deepStrictEqual((await outcome(work, type, { turns }))["turn"], continued(text))
      })
    }

    it(`after ${kind}, when it is stopped`, async () => {
      // As a node that knows nothing of the run, which makes the text be stored at once.
      service.answer = ({ append }) => ({ status: 200, body: append === undefined ? {} : { next: null } })
      const core = makeCore((run) => {
        wrote(run)
        return aborted(run)
      })
      const runId = await core.start({ turns })
      const turn = () => Promise.resolve(service.of(runId, "progress").find((event) => event["turn"])?.["turn"])
      const stored = await eventually(turn, (found) => found !== undefined)
      await core.post(`/runs/${runId}/stop`, { reason: "canceled" })
      assert.deepStrictEqual(stored, continued("Hello"))
    })
  }

  it("in the function's own messages, to which text adds one", async () => {
    const own = [{ role: "user", content: "Shortened" }]
    const { turn } = await outcome((run) => {
      run.progress({ output: [], messages: own })
      run.usage({ input_tokens: 1, output_tokens: 2 })
      run.text("Hello")
    }, "completed")
    assert.deepStrictEqual(turn, continued("Hello", own))
  })
})

describe("an error", () => {
  for (
    const [error, fields] of [
      [new AssistantNotAvailable(), { code: "assistant_not_found" }],
      [new InsufficientBalance(), { code: "payment_required" }],
      [new Failure("The file is too long"), { code: "internal", message: "The file is too long" }]
    ] as const
  ) {
    it(`${error.name} is the failure that it says`, async () => {
      assert.deepInclude(
        await outcome(() => {
          throw error
        }, "failed"),
        fields
      )
      assert.deepStrictEqual(logged, [])
    })
  }

  it.each([
    ["a\0b\ud800c😀", "a\ufffdb\ufffdc😀"],
    ["x".repeat(2_000_000), "x".repeat(1024 * 1024 - 2)],
    ["", ""]
  ])("Failure has words that the service can store", async (given, words) => {
    const { message } = await outcome(() => Promise.reject(new Failure(given)), "failed")
    assert.isTrue(message === words)
  })

  it("of another class is internal: logged and not sent, with the text so far", async () => {
    const event = await outcome(({ text }) => {
      text("The answer")
      throw new Error("password of the database")
    }, "failed")
    assert.strictEqual(event["code"], "internal")
    assert.strictEqual(event["turn"].output[0].text, "The answer")
    assert.notInclude(JSON.stringify(service.events), "password")
    assert.include(logged.join(), "password")
  })

  it("is internal when the result, the state or a progress is no JSON", async () => {
    const circular: Record<string, unknown> = {}
    circular["self"] = circular
    for (const value of [1n, circular]) {
      const turn = { output: [{ type: "text" as const, text: "x" }], metadata: { value } }
      assert.deepInclude(await outcome(() => turn as never, "failed"), { code: "internal" })
      const asked = await outcome(
        (run) => run.interrupt({ calls: [{ id: "c", name: "look" }], state: value as never }),
        "failed"
      )
      assert.deepInclude(asked, { code: "internal" })
      const failed = await outcome(({ progress }) => {
        progress(turn as never)
        throw new Error("x")
      }, "failed")
      assert.isUndefined(failed["turn"])
    }
  })

  it("of a final event that the service cannot read is reported as a failure", async () => {
    service.answer = ({ type }) => ({ status: type === "completed" ? 422 : 200 })
    assert.deepInclude(await outcome(() => "x", "failed"), { code: "internal" })
  })
})

describe("an interrupt", () => {
  const calls = [{ id: "c", name: "look", arguments: { at: 1 } }, { name: "ask" }]

  it("ends the run with the calls and the author's state, which the resumed run gets", async () => {
    const state = { messages: [1, { two: [] }], done: false }
    const event = await outcome((run) => run.interrupt({ calls, state }), "interrupted")
    assert.deepStrictEqual(event["state"], state)
    assert.deepStrictEqual(event["tool_calls"][0], calls[0])
    assert.deepInclude(event["tool_calls"][1], { name: "ask", arguments: {} })
    assert.match(event["tool_calls"][1].id, /^call_\w{32}$/)
    const results = [{ tool_call_id: "c", output: { found: true } }]
    const resumed = gate<Run>()
    await makeCore((run) => resumed.open(run)).start({ resume: { state: event["state"], results } })
    assert.deepInclude(await resumed.opened, { resumed: true, results, state })
  })

  it("keeps what was used, for the turn of the resumed run", async () => {
    const first = await outcome((run) => {
      run.usage({ input_tokens: 1, output_tokens: 2 })
      return run.interrupt({ calls, state: "left" })
    }, "interrupted")
    const { turn } = await outcome(
      (run) => {
        run.usage({ input_tokens: 10, output_tokens: 20 })
        return run.state
      },
      "completed",
      { resume: { state: first["state"], results: [] } }
    )
    assert.strictEqual(turn.output[0].text, "left")
    assert.deepStrictEqual(turn.metadata.usage, { input_tokens: 11, output_tokens: 22, total_tokens: 33 })
  })

  it("without calls is an error of the function", async () => {
    await outcome((run) => run.interrupt({ calls: [] }), "failed")
    assert.include(logged.join(), "at least one call")
  })
})

describe("live text", () => {
  const write = (until: Promise<unknown>) => async ({ text }: Run) => {
    for (let index = 0; index < 30; index++) {
      text(`${index} `)
      await new Promise((resolve) => setTimeout(resolve, 10))
    }
    await until
  }
  const expected = Array.from({ length: 30 }, (_, index) => `${index} `).join("")

  it("goes as numbered appends, one in 40 ms at most, to a service that has it", async () => {
    service.answer = ({ append }) => ({
      status: 200,
      body: append === undefined ? {} : { next: append.index + 1 }
    })
    const { open, opened } = gate()
    const begun = performance.now()
    const runId = await makeCore(write(opened)).start()
    const appends = () => service.of(runId, "progress").filter(({ append }) => append !== undefined)
    const textOf = () => appends().map(({ append }) => append.text).join("")
    await eventually(() => Promise.resolve(textOf()), (text) => text === expected)
    assert.deepStrictEqual(appends().map(({ append }) => append.index), Array.from(appends(), (_, index) => index))
    assert.isAtLeast(appends().length, 3)
    // Each may arrive late, but none before it was sent.
    assert.isAtMost(appends().length, (appends().at(-1)!.at - begun) / 40 + 2)
    // The whole turn is stored too.
    const turn = await eventually(
      () => Promise.resolve(service.of(runId, "progress").find((event) => event["turn"] !== undefined)),
      (event) => event !== undefined
    )
    assert.strictEqual(turn?.["turn"].output[0].text, expected)
    assert.strictEqual(turn?.["next_append"], appends().length)
    open()
    assert.strictEqual((await service.until(runId, "completed"))["turn"].output[0].text, expected)
  })

  it("of several runs goes in one request in 40 ms, and each run gets its answer", async () => {
    const lost = new Set<string>()
    const unwanted = new Set<string>()
    service.answer = ({ append, event_id, next_append: next, run_id }) => {
      if (append === undefined) return { status: 200, body: { next } }
      if (unwanted.has(run_id)) return { status: 409 }
      // The second append of each run is lost once.
      const isLost = append.index === 1 && !lost.has(event_id)
      if (isLost) lost.add(event_id)
      return isLost ? { status: 503 } : { status: 200, body: { next: append.index + 1 } }
    }
    const { open, opened } = gate()
    const ends: Array<string> = []
    const core = makeCore(async (run) => {
      run.signal.addEventListener("abort", () => ends.push(run.runId))
      await write(opened)(run)
    }, { runs: 21 })
    const runIds = await Promise.all(Array.from({ length: 21 }, () => core.start()))
    const [stopped = "", ...others] = runIds
    await eventually(() => Promise.resolve(service.of(stopped, "progress").length), (count) => count > 2)
    unwanted.add(stopped)
    const isSeen = () => lost.size >= 20 && Math.max(...service.batches) > 10 && ends.join() === stopped
    assert.isTrue(await eventually(() => Promise.resolve(isSeen()), (seen) => seen))
    open()
    for (const runId of others) {
      assert.strictEqual((await service.until(runId, "completed"))["turn"].output[0].text, expected)
    }
  })

  it("goes on as whole turns, one by one, when a service without it answers at the same URL", async () => {
    service.answer = ({ append, next_append: next }) => ({ status: 200, body: { next: append?.index + 1 || next } })
    const { open, opened } = gate()
    const core = makeCore(write(opened))
    const runIds = await Promise.all([core.start(), core.start()])
    await eventually(() => Promise.resolve(Math.max(...service.batches)), (size) => size === 2)
    service.takesBatches = false
    service.answer = ({ events }) => ({ status: events === undefined ? 200 : 422 })
    for (const runId of runIds) {
      const turn = await eventually(
        () => Promise.resolve(service.of(runId, "progress").findLast((event) => event["turn"] !== undefined)?.["turn"]),
        (found) => found?.output[0].text === expected
      )
      assert.strictEqual(turn.output[0].text, expected)
    }
    open()
  })

  it("is a whole turn after a gap, and for a node that knows nothing of the run", async () => {
    let answers = 0
    service.answer = ({ append, turn }) =>
      append !== undefined && ++answers === 1
        ? { status: 200, body: { next: null } }
        : { status: 200, body: { next: append === undefined ? turn && 1 : append.index + 1 } }
    const { open, opened } = gate()
    const runId = await makeCore(async ({ text }) => {
      text("one ")
      await opened
    }).start()
    const event = await eventually(
      () => Promise.resolve(service.of(runId, "progress").find(({ turn }) => turn !== undefined)),
      (found) => found !== undefined
    )
    assert.deepInclude(event, { next_append: 1 })
    assert.strictEqual(event?.["turn"].output[0].text, "one ")
    open()
  })

  it("is whole turns, one a second at most, for a service without it", async () => {
    const { open, opened } = gate()
    const runId = await makeCore(write(opened)).start()
    const turns = () => service.of(runId, "progress").filter(({ turn }) => turn !== undefined)
    await eventually(
      () => Promise.resolve(turns().at(-1)?.["turn"].output[0].text),
      (text) => text === expected
    )
    const times = turns().map(({ at }) => at)
    for (const [index, at] of times.entries()) if (index > 0) assert.isAbove(at - times[index - 1]!, 900)
    // The first text was an append, which such a service ignores.
    assert.lengthOf(service.of(runId, "progress").filter(({ append }) => append !== undefined), 1)
    open()
  })

  it("is cut into appends of 64 KiB, between characters", async () => {
    service.answer = ({ append }) => ({ status: 200, body: append === undefined ? {} : { next: append.index + 1 } })
    const long = "😀".repeat(30_000)
    const { open, opened } = gate()
    const runId = await makeCore(async ({ text }) => {
      text(`x${long}`)
      await opened
    }).start()
    const texts = () => service.of(runId, "progress").flatMap(({ append }) => append === undefined ? [] : [append.text])
    await eventually(() => Promise.resolve(texts().join("")), (text) => text === `x${long}`)
    for (const text of texts()) {
      assert.isAtMost(Buffer.byteLength(text), 65_536)
      assert.isTrue(text.isWellFormed())
    }
    open()
  })

  it("does not hold up the end while progress gets no answer", async () => {
    service.answer = ({ type }) => ({ status: type === "progress" ? 503 : 200 })
    const runId = await makeCore(async ({ text }) => {
      text("x")
      await eventually(() => Promise.resolve(service.events.length), (count) => count > 2)
      return "y"
    }).start()
    assert.strictEqual((await service.until(runId, "completed"))["turn"].output[0].text, "y")
  })
})

describe("the calls", () => {
  it("executes a run once, however often it is dispatched, also after its end", async () => {
    let begun = 0
    const { open, opened } = gate()
    const core = makeCore(() => {
      begun++
      return opened
    })
    const body = service.run()
    const statuses = await Promise.all([1, 2, 3].map(async () => (await core.post("/runs", body)).status))
    open()
    await service.until(body.run_id, "completed")
    statuses.push((await core.post("/runs", body)).status)
    assert.deepStrictEqual(statuses, [202, 202, 202, 202])
    assert.strictEqual(begun, 1)
  })

  it("answers 429 with Retry-After while all places are taken, but 202 for a run that has one", async () => {
    const { open, opened } = gate()
    const core = makeCore(() => opened, { runs: 2 })
    const first = service.run()
    await core.post("/runs", first)
    await core.start()
    const full = await core.post("/runs", service.run())
    assert.strictEqual(full.status, 429)
    assert.match(full.headers.get("retry-after") ?? "", /^\d+$/)
    assert.match((await full.json()).message, /2 runs/)
    assert.strictEqual((await core.post("/runs", first)).status, 202)
    open()
    await service.until(first.run_id, "completed")
    await eventually(async () => (await core.post("/runs", service.run())).status, (status) => status === 202)
  })

  it("declares a silence, and gives signs of life", async () => {
    const { open, opened } = gate()
    const core = makeCore(() => opened, { silenceSeconds: 10 })
    const body = service.run()
    const answer = await core.post("/runs", body)
    assert.deepStrictEqual(await answer.json(), { silence_seconds: 10 })
    const sign = await eventually(
      () => Promise.resolve(service.of(body.run_id, "progress")[0]),
      (event) => event !== undefined
    )
    assert.notProperty(sign, "turn")
    open()
    assert.deepStrictEqual(await (await makeCore(() => "").post("/runs", service.run())).json(), {
      silence_seconds: 60
    })
    const silent = makeCore(() => "", { silenceSeconds: null })
    assert.deepStrictEqual(await (await silent.post("/runs", service.run())).json(), {})
  }, 20_000)

  it("stops a run with the reason, and reports nothing more of it", async () => {
    const seen = gate<Run>()
    const core = makeCore(async (run) => {
      seen.open(run)
      await aborted(run)
      throw run.signal.reason
    })
    const runId = await core.start()
    const { signal } = await seen.opened
    assert.strictEqual((await core.post(`/runs/${runId}/stop`, { reason: "canceled" })).status, 202)
    assert.instanceOf(signal.reason, RunStopped)
    assert.strictEqual(signal.reason.reason, "canceled")
    await eventually(
      async () => (await (await core.fetch(new Request("http://c/healthz"))).json()).active,
      (n) => n === 0
    )
    assert.strictEqual((await core.post(`/runs/${runId}/stop`, { reason: "canceled" })).status, 404)
    assert.deepStrictEqual(service.of(runId).map(({ type }) => type), ["processing"])
    assert.deepStrictEqual(logged, [])
  })

  for (const status of [404, 409]) {
    it(`aborts a run whose event is answered ${status}`, async () => {
      service.answer = ({ type }) => ({ status: type === "progress" ? status : 200 })
      const seen = gate<Run>()
      const runId = await makeCore((run) => {
        seen.open(run)
        run.text("x")
        return aborted(run)
      }).start()
      const run = await seen.opened
      await aborted(run)
      assert.strictEqual(run.signal.reason.reason, "superseded")
      assert.deepStrictEqual(service.of(runId).map(({ type }) => type), ["processing", "progress"])
    })

    it(`does not begin a run whose acceptance is answered ${status}`, async () => {
      service.answer = () => ({ status })
      let begun = 0
      const core = makeCore(() => begun++)
      const runId = await core.start()
      await eventually(() => Promise.resolve(service.of(runId).length), (count) => count === 1)
      await core.close()
      assert.strictEqual(begun, 0)
    })
  }

  it("aborts a run at its deadline", async () => {
    const seen = gate<Run>()
    const core = makeCore((run) => {
      seen.open(run)
      return aborted(run)
    })
    await core.start({ deadline_at: new Date(Date.now() + 300).toISOString() })
    const run = await seen.opened
    await aborted(run)
    assert.strictEqual(run.signal.reason.reason, "deadline")
  })

  it("keeps the place of a stopped run until its function has ended", async () => {
    const { open, opened } = gate()
    const begun = gate()
    const core = makeCore(() => {
      begun.open()
      return opened
    }, { runs: 1 })
    const runId = await core.start()
    await begun.opened
    await core.post(`/runs/${runId}/stop`, {})
    assert.strictEqual((await core.post("/runs", service.run())).status, 429)
    open()
    await eventually(async () => (await core.post("/runs", service.run())).status, (status) => status === 202)
  })

  it("refuses a wrong token before it reads the body, and what it cannot read", async () => {
    const core = makeCore(() => "")
    for (const token of ["", "wrong", `${service.coreToken}x`, service.coreToken.slice(1), service.eventToken]) {
      assert.strictEqual((await core.post("/runs", "{", token)).status, 401)
      assert.strictEqual((await core.post("/runs/x/stop", "{", token)).status, 401)
    }
    assert.strictEqual((await core.fetch(new Request("http://c/runs", { method: "POST" }))).status, 401)
    for (
      const [field, body] of Object.entries({
        body: "[]",
        run_id: service.run({ run_id: 1 }),
        task_id: {},
        input: service.run({ input: null }),
        resume: service.run({ resume: 5 })
      })
    ) {
      const answer = await core.post("/runs", body)
      assert.strictEqual(answer.status, 422)
      assert.property((await answer.json()).errors, field)
    }
    assert.strictEqual((await core.post("/runs", service.run({ events_url: "file:///etc/passwd" }))).status, 422)
    assert.strictEqual((await core.post("/other", {})).status, 404)
    assert.strictEqual((await core.fetch(new Request("http://c/runs"))).status, 405)
    const endless = {
      method: "POST",
      headers: { authorization: `Bearer ${service.coreToken}` },
      body: new ReadableStream({ pull: (controller) => controller.enqueue(new Uint8Array(1024 * 1024)) }),
      duplex: "half"
    }
    const large = new Request("http://c/runs", endless)
    assert.strictEqual((await core.fetch(large)).status, 413)
  })

  it("accepts each of several tokens", async () => {
    const core = makeCore(() => "", { token: ["old", "new"] })
    for (const token of ["old", "new"]) assert.strictEqual((await core.post("/runs", service.run(), token)).status, 202)
  })

  it("sends events to serviceUrl alone, when it is set", async () => {
    const core = makeCore(() => "x", { serviceUrl: `${service.url}/` })
    const runId = await core.start({ events_url: "http://127.0.0.1:9/internal/core/events" })
    assert.strictEqual((await service.until(runId, "completed"))["turn"].output[0].text, "x")
  })

  it("repeats events while the token is refused, and says which setting differs", async () => {
    const core = makeCore(() => "x", { eventToken: "other" })
    const runId = await core.start()
    await eventually(() => Promise.resolve(service.of(runId).length), (count) => count > 1)
    assert.lengthOf(logged, 1)
    assert.match(logged[0] ?? "", /CORE_EVENT_TOKENS/)
  })
})

describe("close", () => {
  it("takes no more runs, and waits for those in progress", async () => {
    const { open, opened } = gate()
    const core = makeCore(() => opened)
    const runId = await core.start()
    const closed = core.close()
    const refused = await core.post("/runs", service.run())
    assert.strictEqual(refused.status, 429)
    assert.isNotNull(refused.headers.get("retry-after"))
    assert.strictEqual((await (await core.fetch(new Request("http://c/healthz"))).json()).status, "draining")
    open()
    await closed
    assert.lengthOf(service.of(runId, "completed"), 1)
  })

  it("aborts what is left and reports nothing of it, so that it is begun again", async () => {
    const seen = gate<Run>()
    const core = makeCore(async (run) => {
      seen.open(run)
      await aborted(run)
      return "half"
    })
    const runId = await core.start()
    const { signal } = await seen.opened
    await core.close({ drainSeconds: 0.1 })
    assert.strictEqual(signal.reason.reason, "shutdown")
    assert.deepStrictEqual(service.of(runId).map(({ type }) => type), ["processing"])
  })
})

describe("the options", () => {
  it("are refused with the name of what is wrong", () => {
    const run = () => ""
    for (
      const [options, message] of [
        [{ runs: 0 }, /runs/],
        [{ runs: 1.5 }, /runs/],
        [{ silenceSeconds: 5 }, /silenceSeconds/],
        [{ drainSeconds: -1 }, /drainSeconds/],
        [{ token: "" }, /CORE_TOKEN/],
        [{ eventToken: "" }, /CORE_EVENT_TOKENS/],
        [{ serviceUrl: "x" }, /serviceUrl/]
      ] as const
    ) {
      assert.throws(() => createCore({ run, ...service.tokens, ...options }), message)
    }
  })
})
