/** Held answers and streams of one user, slow readers, and messages that are costly to read. */
import { connect } from "node:net"
import { assert, it } from "vitest"
import { complete, report, turnOf } from "../../kit/ScriptedCore.ts"
import { eventually, mint } from "../../kit/Service.ts"
import { use } from "../../kit/suite.ts"
import { assertBounded, startVictim } from "../kit/Victim.ts"

const victim = await use(startVictim({ FACADE_MODELS: "analyst=20" }))
const { service } = victim

const message = (parts: ReadonlyArray<object>, more: object = {}) => ({
  messageId: crypto.randomUUID(),
  role: "ROLE_USER",
  parts,
  ...more
})

const post = async (token: string, method: string, params: unknown, signal?: AbortSignal) =>
  fetch(`${service.url}/a2a`, {
    method: "POST",
    headers: { authorization: `Bearer ${token}`, "content-type": "application/json", "a2a-version": "1.0" },
    body: JSON.stringify({ jsonrpc: "2.0", id: 1, method, params }),
    signal: signal ?? null
  })

// oxlint-disable-next-line typescript/no-explicit-any -- tests look into answers of every shape
const send = async (token: string, method: string, params: unknown): Promise<any> =>
  (await post(token, method, params)).json()

const start = async (sub: string, text = "x") => {
  const token = await mint(sub)
  const given = { message: message([{ text }]), configuration: { returnImmediately: true } }
  const { result } = await send(token, "SendMessage", given)
  return { token, id: result.task.id as string, run: await victim.runOf(result.task.id) }
}

it("refuses streams of one user above 1,000, and ends the others with their task", async () => {
  const { id, run, token } = await start("streamer")
  await report(run, { type: "processing" })
  const open = () => post(token, "SubscribeToTask", { id })
  const streams: Array<Response> = []
  for (let group = 0; group < 10; group++) {
    streams.push(...await Promise.all(Array.from({ length: 100 }, open)))
  }
  await report(run, { type: "progress", turn: turnOf("x".repeat(50_000)) })
  await new Promise((resolve) => setTimeout(resolve, 2000))
  const { health } = await victim.observe(() => new Promise((resolve) => setTimeout(resolve, 3000)))
  assert.isBelow(health.at(-1) ?? 0, 100, "ms of /healthz")
  const refused = await eventually(open, ({ headers }) => headers.get("content-type") === "application/json")
  const { error } = await refused.json() as { error: { code: number } }
  assert.strictEqual(error.code, -32603)
  // A message is refused before it has an effect.
  const blocking = await send(token, "SendMessage", { message: message([{ text: "y" }]) })
  assert.strictEqual(blocking.error.data[0].reason, "TOO_MANY_WAITING_REQUESTS")
  assert.strictEqual((await send(token, "ListTasks", {})).result.totalSize, 1)
  const observation = await victim.observe(async () => {
    const texts = Promise.all(streams.map((stream) => stream.text()))
    await complete(run, "x".repeat(50_000))
    for (const text of await texts) assert.include(text, "TASK_STATE_COMPLETED")
  })
  assertBounded(observation, 300)
}, 120_000)

// oxlint-disable-next-line vitest/expect-expect -- `assertBounded` asserts
it("keeps neither the request nor the first text of a task for each of its streams", async () => {
  const { id, run, token } = await start("writer", "x".repeat(200_000))
  await report(run, { type: "progress", turn: turnOf("y".repeat(200_000)) })
  const abort = new AbortController()
  const open = async () => {
    const { body } = await post(token, "SubscribeToTask", { id }, abort.signal)
    const reader = body!.getReader()
    let size = 0
    while (size < 265_000) size += (await reader.read()).value?.length ?? 0
  }
  const observation = await victim.observe(async () => {
    for (let group = 0; group < 50; group++) await Promise.all(Array.from({ length: 10 }, open))
  })
  abort.abort()
  await complete(run)
  // 32 MiB of texts, connections, and what the collector has not taken yet. With all of both it is 330 MiB.
  assertBounded(observation, 250)
}, 120_000)

it("holds 1,000 answers of one user, and lets clients that leave cancel nothing", async () => {
  const { id, run, token } = await start("holder")
  const abort = new AbortController()
  const given = { message: message([{ text: "x" }]) }
  const held = Array.from({ length: 999 }, () => post(token, "SendMessage", given, abort.signal).catch(() => undefined))
  const { result } = await eventually(
    () => send(token, "ListTasks", {}),
    ({ result }) => result.totalSize === 2,
    30_000
  )
  const other = result.tasks.find((task: { id: string }) => task.id !== id).id as string
  const { health } = await victim.observe(() => new Promise((resolve) => setTimeout(resolve, 3000)))
  assert.isBelow(health.at(-1) ?? 0, 100, "ms of /healthz")
  abort.abort()
  await Promise.all(held)
  await complete(await victim.runOf(other))
  await complete(run)
  await service.until(token, other, "completed")
}, 120_000)

// oxlint-disable-next-line vitest/expect-expect -- `assertBounded` asserts
it("keeps no long answer for clients that do not read it", async () => {
  const { id, run, token } = await start("slow reader")
  await complete(run, "x".repeat(20_000_000))
  const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "GetTask", params: { id } })
  const observation = await victim.observe(async () => {
    const sockets = Array.from({ length: 50 }, () => {
      const socket = connect({ host: "127.0.0.1", port: Number(new URL(service.url).port) })
      socket.write(
        `POST /a2a HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${token}\r\na2a-version: 1.0\r\n`
          + `content-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`
      )
      socket.on("error", () => {})
      return socket.pause()
    })
    await new Promise((resolve) => setTimeout(resolve, 5000))
    for (const socket of sockets) socket.destroy()
  })
  assertBounded(observation, 300)
}, 120_000)

it("reads large and deep messages within its bounds", async () => {
  const token = await mint("sender")
  const text = "x".repeat(15_000_000)
  const many = (count: number, item: unknown) => Array.from({ length: count }, () => item)
  const bodies: ReadonlyArray<Record<string, unknown>> = [
    { message: text },
    { message: message(many(1_000_000, {}) as Array<object>) },
    { message: message([{ text: "x" }], { messageId: text, taskId: "x" }) },
    { message: message([{ text: "x" }], { extensions: many(500_000, "x") }) },
    { message: message([{ text: "x" }], { contextId: text }) },
    { message: message([{ raw: "A".repeat(12_000_000), filename: "a.exe" }]) },
    { message: message([{ data: many(300_000, { a: 1 }) }], { taskId: "x" }) }
  ]
  const observation = await victim.observe(async () => {
    for (const body of bodies) assert.property(await send(token, "SendMessage", body), "error")
    for (const method of ["GetTask", "SubscribeToTask", "ListTasks"]) {
      assert.property(await send(token, method, { id: text, pageToken: text }), "error")
    }
  })
  assertBounded(observation, 250)
}, 120_000)
