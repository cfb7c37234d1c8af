/** Live text over two nodes: appends and readers of any node meet at the owner of the task. */
import { assert, describe, it, onTestFinished } from "vitest"
import * as TaskShard from "../../src/domain/TaskShard.ts"
import { settled, startCluster } from "../kit/ClusterSystem.ts"
import { LiveReader } from "../kit/LiveReader.ts"
import { report, type StartedRun, turnOf } from "../kit/ScriptedCore.ts"
import { eventually, mint, type Service } from "../kit/Service.ts"
import { use } from "../kit/suite.ts"

const system = await use(startCluster({ MAX_ACTIVE_TASKS: "1000" }))
const first = system.service
const token = await mint("ann")

const join = async () => {
  const other = await system.startNode()
  onTestFinished(() => other.stop("SIGKILL").then(() => settled([first])).then(() => {}))
  await settled([first, other])
  return other
}

/** A task that `owner` owns: a node creates tasks in its own shards. */
const begin = async (owner: Service) => {
  const uuid: string = (await owner.create(token, "Why?")).body.uuid
  const run = await system.runOf(uuid)
  let index = 0
  return {
    uuid,
    run,
    append: (node: Service, text: string, at = index++) =>
      reportTo(node, run, { type: "progress", append: { index: at, text } }),
    read: async (node: Service, lastId?: string, text?: string) => {
      const reader = await LiveReader.open(node.url, token, uuid, lastId, text)
      onTestFinished(() => reader.close())
      return reader
    }
  }
}

const reportTo = (node: Service, run: StartedRun, event: object) =>
  report({ ...run, events_url: `${node.url}/internal/core/events` }, event)

describe("two nodes", () => {
  it("pass appends on to the owner, whose text readers of both get", async () => {
    const other = await join()
    for (const owner of [first, other]) {
      const { append, read, run, uuid } = await begin(owner)
      assert.isNumber(TaskShard.of(uuid as never))
      const readers = [await read(first), await read(other)]
      let expected = ""
      for (const [index, node] of [first, other, other, first].entries()) {
        const { body, status } = await append(node, `${index} 😀 `)
        assert.deepStrictEqual([status, body], [200, { status: "processing", applied: true, next: index + 1 }])
        expected += `${index} 😀 `
      }
      for (const reader of readers) await reader.has(expected)
      // A turn that came to either node says which appends it has.
      for (const [node, next_append] of [[first, 4], [other, 5]] as const) {
        const turn = turnOf(expected)
        assert.deepStrictEqual(
          (await reportTo(node, run, { type: "progress", turn, next_append })).body["next"],
          next_append
        )
      }
      assert.strictEqual((await append(other, "end", 5)).body["next"], 6)
      expected += "end"
      for (const reader of readers) await reader.has(expected)
      // A reader goes on at the other node.
      const [one, two] = readers as [LiveReader, LiveReader]
      const [moved, back] = [await read(other, one.lastId, one.text), await read(first, two.lastId, two.text)]
      await append(first, ".", 6)
      await reportTo(other, run, { type: "completed", turn: turnOf(`${expected}.!`) })
      for (const reader of [one, two, moved, back]) {
        await reader.ended()
        assert.deepStrictEqual([reader.text, reader.replaced], [`${expected}.!`, 0])
      }
    }
  }, 60_000)

  it("refuse appends of an older run, and the route between them without its key", async () => {
    const other = await join()
    const { append, uuid } = await begin(first)
    await append(other, "a")
    assert.strictEqual((await first.call("POST", `/api/tasks/${uuid}/stop`, token)).status, 200)
    const late = await append(other, "b")
    assert.deepStrictEqual([late.status, late.body["status"]], [409, "canceled"])
    for (const given of ["", "Bearer nonsense"]) {
      const response = await fetch(`${first.url}/internal/live/shards`, {
        headers: given === "" ? {} : { authorization: given }
      })
      assert.strictEqual(response.status, 401)
    }
  }, 60_000)

  it("go on after the owner was killed: the core sends a turn, and a reader loses nothing", async () => {
    const other = await join()
    const { append, read, run } = await begin(other)
    const reader = await read(first)
    await append(first, "One ")
    await append(first, "two ")
    await reportTo(first, run, { type: "progress", turn: turnOf("One two "), next_append: 2 })
    await append(first, "three ")
    await reader.has("One two three ")
    await other.stop("SIGKILL")
    await settled([first])
    const { body } = await eventually(
      () => append(first, "four", 3),
      ({ body, status }) => status === 200 && body["next"] === null,
      20_000
    )
    assert.deepStrictEqual(body, { status: "processing", applied: false, next: null })
    await reportTo(first, run, { type: "progress", turn: turnOf("One two three four"), next_append: 4 })
    await reader.has("One two three four")
    await reportTo(first, run, { type: "completed", turn: turnOf("One two three four five") })
    await reader.ended()
    assert.strictEqual(reader.text, "One two three four five")
    assert.strictEqual(reader.replaced, 0)
  }, 60_000)

  it("fall back to stored turns while the owner is stopped", async () => {
    const other = await join()
    const { append, read, run } = await begin(other)
    const reader = await read(first)
    await append(first, "One ")
    await reader.has("One ")
    other.process.kill("SIGSTOP")
    onTestFinished(() => void other.process.kill("SIGCONT"))
    const lost = await append(first, "two ", 1)
    assert.deepStrictEqual([lost.status, lost.body["next"]], [200, null])
    await reportTo(first, run, { type: "progress", turn: turnOf("One two three"), next_append: 3 })
    await reader.has("One two three")
    await reportTo(first, run, { type: "completed", turn: turnOf("One two three four") })
    await reader.ended()
    assert.deepStrictEqual([reader.text, reader.replaced], ["One two three four", 0])
  }, 60_000)
})
