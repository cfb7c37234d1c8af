/** Live text by the clients: each character once, also over connections that break. */
import { Effect, Layer, Redacted, Stream } from "effect"
import { FetchHttpClient } from "effect/http"
import { assert, describe, it } from "vitest"
import { TaskService } from "../../src/http/client/EffectTaskClient.ts"
import { TaskServiceClient } from "../../src/http/client/promise/TaskServiceClient.ts"
import { complete, report, turnOf } from "../kit/ScriptedCore.ts"
import { eventually, mint } from "../kit/Service.ts"
import { sharedSystem } from "../kit/System.ts"

const system = await sharedSystem()
const { runOf, service } = system

const question = { assistant_id: 1, input: [{ type: "text", text: "Why?" }] } as const
const parts = ["Be", "cause 😀", " it", " is", "."]
const whole = parts.join("")

const begin = async (sub: string, fetch = globalThis.fetch) => {
  const token = await mint(sub)
  const client = new TaskServiceClient({ baseUrl: service.url, token, fetch })
  const { uuid } = await client.tasks.create(question)
  const run = await runOf(uuid)
  let index = 0
  return {
    client,
    token,
    uuid,
    run,
    append: (text: string) => report(run, { type: "progress", append: { index: index++, text } })
  }
}

/** Reads until the end; `text` is what has been read so far. */
const collect = (texts: AsyncIterable<string>) => {
  const read = { text: "", ended: Promise.resolve() }
  read.ended = (async () => {
    for await (const text of texts) read.text += text
  })()
  return read
}

describe("the Promise client", () => {
  it("iterates the text of a task as it is written, to its end", async () => {
    const { append, client, run, uuid } = await begin("reader")
    const read = collect(client.tasks.text(uuid))
    for (const part of parts) {
      const before = read.text
      await append(part)
      await eventually(async () => read.text, (text) => text === before + part)
    }
    await report(run, { type: "progress", turn: turnOf(whole), next_append: parts.length })
    await complete(run, `${whole} Yes.`)
    await read.ended
    assert.strictEqual(read.text, `${whole} Yes.`)
    const again = collect(client.tasks.text(uuid))
    await again.ended
    assert.strictEqual(again.text, `${whole} Yes.`)
  })

  it("goes on without a gap or a repetition after connections that break, and says when the text is another one", async () => {
    let cuts = 0
    const breaking: typeof fetch = async (input, init) => {
      const response = await fetch(input, init)
      if (!String(input).includes("/events")) return response
      // Each connection ends in the middle of a text event.
      let left = 400
      const cut = new TransformStream<Uint8Array, Uint8Array>({
        transform: (chunk, controller) => {
          controller.enqueue(chunk.subarray(0, left))
          left -= chunk.length
          if (left <= 0) {
            cuts++
            controller.terminate()
          }
        }
      })
      return new Response(response.body!.pipeThrough(cut), response)
    }
    const { append, client, run, uuid } = await begin("broken", breaking)
    let replaced = 0
    const read = collect(client.tasks.text(uuid, { onReplaced: () => replaced++ }))
    for (const part of parts) {
      const before = read.text
      await append(part)
      await eventually(async () => read.text, (text) => text === before + part)
    }
    await complete(run, whole)
    await read.ended
    assert.strictEqual(read.text, whole)
    assert.isAbove(cuts, 0)
    assert.strictEqual(replaced, 0)
  })

  it("reports the text of a run as it is written", async () => {
    const token = await mint("runner")
    const client = new TaskServiceClient({ baseUrl: service.url, token })
    const seen: Array<readonly [string, string | undefined]> = []
    const ended = client.tasks.run(question, { onText: (text, delta) => void seen.push([text, delta]) })
    const [started] = await eventually(
      async () => system.core.runs.filter(({ user }) => (user as { sub: string }).sub === "runner"),
      ({ length }) => length > 0
    )
    for (const [index, text] of ["a", "b"].entries()) {
      await report(started!, { type: "progress", append: { index, text } })
      await eventually(async () => seen.length, (length) => length > index)
    }
    await complete(started!, "abc")
    assert.strictEqual((await ended).status, "completed")
    assert.deepStrictEqual(seen, [["a", "a"], ["ab", "b"], ["abc", "c"]])
  })

  it("ends the reading by a signal, and the task by a stop", async () => {
    const { append, client, run, uuid } = await begin("stopper")
    const controller = new AbortController()
    const read = collect(client.tasks.text(uuid, { signal: controller.signal }))
    await append("a")
    await eventually(async () => read.text, (text) => text === "a")
    controller.abort()
    assert.isTrue(await read.ended.then(() => false, () => true))
    assert.strictEqual((await client.tasks.get(uuid)).status, "processing")
    assert.deepStrictEqual(await client.tasks.stop(uuid, { reason: "enough" }), { uuid, status: "canceled" })
    await system.core.stopped(run)
    assert.strictEqual((await client.tasks.get(uuid)).error, "enough")
  })
})

describe("the Effect client", () => {
  it("streams the text of a task, and stops it", async () => {
    const { append, run, token, uuid } = await begin("effect")
    const layer = TaskService.layer({ baseUrl: service.url, token: Effect.succeed(Redacted.make(token)) }).pipe(
      Layer.provide(FetchHttpClient.layer)
    )
    const read = Effect.runPromise(
      Effect.flatMap(TaskService, ({ tasks }) => Stream.runCollect(tasks.text(uuid))).pipe(Effect.provide(layer))
    )
    for (const part of parts) await append(part)
    await complete(run, whole)
    assert.strictEqual((await read).join(""), whole)
    const other = await begin("effect")
    const stop = Effect.flatMap(TaskService, ({ tasks }) => tasks.stop({ params: { uuid: other.uuid }, payload: {} }))
    assert.strictEqual((await Effect.runPromise(Effect.provide(stop, layer))).status, "canceled")
  })
})
