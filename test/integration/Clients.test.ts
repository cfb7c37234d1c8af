/** The Promise and the Effect client against the whole service with its built-in core and demo assistants. */
import { Effect, Layer, Redacted, Stream } from "effect"
import { FetchHttpClient } from "effect/http"
import { assert, describe, it } from "vitest"
import { outputText } from "../../src/domain/Turn.ts"
import { TaskService } from "../../src/http/client/EffectTaskClient.ts"
import { ConflictError, ValidationError } from "../../src/http/client/promise/ApiErrors.ts"
import { TaskServiceClient } from "../../src/http/client/promise/TaskServiceClient.ts"
import { NotFound } from "../../src/http/contract/Errors.ts"
import { mint } from "../kit/Service.ts"
import { use, useDirectory } from "../kit/suite.ts"
import { startSystem } from "../kit/System.ts"

const { service } = await use(startSystem({ CORE_URL: "", DATA_DIR: useDirectory() }))

const clientOf = (sub: string) => new TaskServiceClient({ baseUrl: service.url, token: () => mint(sub) })
const ask = (text: string, assistant_id = 1) => ({ assistant_id, input: [{ type: "text", text } as const] })

describe("the Promise client", () => {
  it("runs a task with tools and reports a tool that throws", async () => {
    const client = clientOf("bob")
    const updates: Array<string> = []
    const task = await client.tasks.run(ask("call weather, clock and nothing", 2), {
      tools: {
        weather: {
          parameters: { type: "object", properties: { city: { type: "string" } } },
          execute: async ({ city }) => ({ city, sky: "clear" })
        },
        clock: () => {
          throw new Error("no battery")
        }
      },
      onUpdate: ({ status }) => updates.push(status)
    })
    assert.strictEqual(task.status, "completed")
    assert.include(outputText(task), `call_weather answered {"city":"call weather, clock and nothing","sky":"clear"}`)
    assert.include(outputText(task), `call_clock failed with "no battery"`)
    assert.deepStrictEqual(updates.slice(-3), ["interrupted", "processing", "completed"])
  })

  it("stops waiting when the task is interrupted, and cancels it", async () => {
    const client = clientOf("cleo")
    const interrupt = async () => {
      const { uuid } = await client.tasks.create({
        ...ask("call look", 2),
        client_tools: [{ type: "function", name: "look" }]
      })
      const task = await client.tasks.waitFor(uuid)
      assert.deepStrictEqual([task.status, task.pending_tool_calls?.[0]?.name], ["interrupted", "look"])
      return uuid
    }
    const uuid = await interrupt()
    assert.deepStrictEqual(await client.tasks.cancel(uuid, { reason: "no" }), { uuid, status: "canceled" })
    const again = await client.tasks.cancel(uuid).catch((error: unknown) => error)
    assert.instanceOf(again, ConflictError)
    const other = await interrupt()
    assert.deepStrictEqual(await client.tasks.cancelInterrupted(), { canceled: 1, uuids: [other] })
  })

  it("uploads buffers and streams with progress, and returns the download link", async () => {
    const client = clientOf("fay")
    const bytes = new Uint8Array(3 * 1024 * 1024).fill(97)
    const chunks = async function*() {
      for (let at = 0; at < bytes.length; at += 100_000) yield bytes.subarray(at, at + 100_000)
    }
    const contents = {
      bytes,
      blob: new Blob([bytes]),
      stream: new Blob([bytes]).stream(),
      generator: chunks()
    }
    for (const [kind, content] of Object.entries(contents)) {
      const progress: Array<readonly [number, number | null]> = []
      const uploaded = await client.files.upload(content, {
        name: `${kind} "quoted".txt`,
        type: "text/plain",
        onProgress: ({ loaded, total }) => progress.push([loaded, total])
      })
      assert.strictEqual(uploaded.file.mime_type, "text/plain")
      assert.strictEqual(progress.at(-1)?.[0], bytes.length, kind)
      assert.strictEqual(progress.at(-1)?.[1], kind === "bytes" || kind === "blob" ? bytes.length : null)
      const downloaded = await (await fetch(await client.files.url(uploaded))).bytes()
      assert.strictEqual(Buffer.compare(downloaded, bytes), 0, kind)
      const task = await client.tasks.run({ assistant_id: 1, input: [uploaded] })
      assert.strictEqual(task.status, "completed")
    }
    const refused = await client.files.upload(bytes, { name: "virus.exe" }).catch((reason: unknown) => reason)
    assert.instanceOf(refused, ValidationError)
    const aborted = AbortSignal.timeout(50)
    const endless = async function*() {
      for (;;) {
        await new Promise((resolve) => setTimeout(resolve, 10))
        yield new Uint8Array(1000).fill(97)
      }
    }
    const stopped = await client.files.upload(endless(), { name: "a.txt", signal: aborted }).catch((reason: unknown) =>
      reason
    )
    assert.strictEqual((stopped as Error).name, "AbortError", String((stopped as Error).cause))
  })
})

describe("the Effect client", () => {
  const runWith = (sub: string) => <A, E>(effect: Effect.Effect<A, E, TaskService>) => {
    const layer = TaskService.layer({
      baseUrl: service.url,
      token: Effect.map(Effect.promise(() => mint(sub)), (token) => Redacted.make(token))
    }).pipe(Layer.provide(FetchHttpClient.layer))
    return Effect.runPromise(Effect.provide(effect, layer))
  }

  it("runs a task with tools, reports a tool that fails, and follows the events", () =>
    runWith("gus")(Effect.gen(function*() {
      const { tasks } = yield* TaskService
      const tool = (name: string) => ({ type: "function", name }) as const
      const task = yield* tasks.run(
        { ...ask("call weather, clock and look", 2), client_tools: ["weather", "clock", "look"].map(tool) },
        { weather: () => Effect.succeed({ sky: "clear" }), clock: () => Effect.fail("no battery") }
      )
      assert.strictEqual(task.status, "completed")
      assert.strictEqual(
        outputText(task),
        `call_weather answered {"sky":"clear"}\ncall_clock failed with "no battery"\ncall_look failed with "There is no tool named look"`
      )
      const events = yield* Stream.runCollect(tasks.events(task.uuid))
      assert.deepStrictEqual([events[0]?.event, events.at(-1)?.event], ["pending", "completed"])
      const rest = yield* Stream.runCollect(tasks.events(task.uuid, events.at(-2)?.revision))
      assert.deepStrictEqual(rest, events.slice(-1))
      assert.deepStrictEqual(yield* Stream.runCollect(tasks.events(task.uuid, 99)), [])
    })))

  it("labels, finds and reruns a task", () =>
    runWith("ida")(Effect.gen(function*() {
      const { tasks } = yield* TaskService
      const { uuid } = yield* tasks.run({ ...ask("echo x"), metadata: { n: "1" } })
      const again = yield* tasks.rerun({ params: { uuid }, payload: { metadata: { n: "2" } } })
      const { data } = yield* tasks.list({ query: { "metadata[n]": "2", include: "metadata" } })
      assert.deepStrictEqual(data.map((task) => [task.uuid, task.metadata]), [[again.uuid, { n: "2" }]])
      const { request } = yield* tasks.get({ params: { uuid }, query: { include: ["request", "metadata"] } })
      assert.deepStrictEqual(request?.input, ask("echo x").input)
    })))

  it("fails with typed errors, uploads a file, and returns the download link", () =>
    runWith("hal")(Effect.gen(function*() {
      const { files, tasks } = yield* TaskService
      const missing = yield* Effect.flip(tasks.get({ params: { uuid: "none" } }))
      assert.instanceOf(missing, NotFound)
      assert.deepStrictEqual((yield* tasks.list()).data, [])
      assert.deepStrictEqual((yield* tasks.list({ query: { status: ["failed", "canceled"] } })).meta.per_page, 25)
      assert.instanceOf(yield* Effect.flip(Stream.runDrain(tasks.events("none"))), NotFound)
      const payload = new FormData()
      payload.append("file", new Blob(["hello"], { type: "text/plain" }), "hello.txt")
      const uploaded = yield* files.upload({ payload })
      const link = yield* files.url(uploaded)
      assert.strictEqual(yield* Effect.promise(() => fetch(link).then((answer) => answer.text())), "hello")
    })))
})
