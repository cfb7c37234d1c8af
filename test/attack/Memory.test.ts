/** All entry points with large texts at the same time: what a node holds of them is at most the sum of its two budgets. */
import { randomUUID } from "node:crypto"
import { createServer, type Socket } from "node:net"
import { afterAll, assert, beforeAll, describe, it } from "vitest"
import { sizes } from "../../src/services/limits/Memory.ts"
import { pause } from "../kit/pause.ts"
import { RawClient } from "../kit/RawClient.ts"
import { report, turnOf } from "../kit/ScriptedCore.ts"
import { internalToken, mint } from "../kit/Service.ts"
import { startVictim, type Victim } from "./kit/Victim.ts"

const mebibyte = 1024 * 1024
const turnBytes = 12 * mebibyte
const count = 8
/** MiB of the two budgets. */
const budgets = { users: 208, core: 226 }
/** MiB. Usually about 300: what is counted, and copies of what is parsed, read or sent at the moment. */
const growth = 400

let victim: Victim
const sockets = new Set<Socket>()
const hanging = createServer((socket) => sockets.add(socket.pause().on("error", () => {})))

beforeAll(async () => {
  victim = await startVictim({ WEBHOOK_ALLOW_PRIVATE: "true" })
  await new Promise<void>((resolve) => hanging.listen(0, "0.0.0.0", resolve))
})
afterAll(async () => {
  for (const socket of sockets) socket.destroy()
  hanging.close()
  await victim.close()
})

/** By metric and `budget use`. */
const readMetrics = async () => {
  const { body } = await victim.service.call("GET", "/internal/metrics", internalToken)
  const found = new Map<string, number>()
  for (const [, metric, labels = "", value] of String(body).matchAll(/^memory_(\w+)\{([^}]*)\} (\d+)/gm)) {
    const label = (name: string) => new RegExp(`${name}="(\\w+)"`).exec(labels)?.[1]
    found.set(`${metric} ${label("budget")} ${label("use")}`, Number(value))
  }
  return found
}

const sumOf = (metrics: ReadonlyMap<string, number>, prefix: string) =>
  [...metrics].reduce((sum, [key, value]) => key.startsWith(`${prefix} `) ? sum + value / mebibyte : sum, 0)

const most = new Map<string, number>()

const sample = async () => {
  const metrics = await readMetrics()
  for (const budget of ["users", "core"]) metrics.set(`sum ${budget}`, sumOf(metrics, `in_use_bytes ${budget}`))
  for (const [key, value] of metrics) most.set(key, Math.max(most.get(key) ?? 0, value))
}

/** Sends a part of a body, and no more. */
const stall = async (path: string, token: string, announced: number, begin: string) => {
  const client = await RawClient.open(victim.service.url)
  client.send(
    `POST ${path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${token}\r\n`
      + `Content-Length: ${announced}\r\n\r\n${begin}${"x".repeat(turnBytes)}`
  )
}

describe("large texts at every entry point at the same time", () => {
  it("take at most the memory of two budgets", async () => {
    const { port } = hanging.address() as { readonly port: number }
    const owners = await Promise.all(Array.from({ length: count }, () => mint(randomUUID())))
    const turn = turnOf("x".repeat(turnBytes))
    const { baseMemory, peakMemory } = await victim.observe(async () => {
      const over = new AbortController()
      const sampling = (async () => {
        while (!over.signal.aborted) {
          await sample()
          await pause(50)
        }
      })()
      for (const [n, token] of owners.entries()) {
        // A delivery to a target that hangs, each to another origin, and a reader that reads nothing.
        const { body } = await victim.service.create(token, "x", { callback_url: `http://127.0.0.${n + 1}:${port}/` })
        assert.strictEqual((await report(await victim.runOf(body.uuid), { type: "completed", turn })).status, 200)
        const reader = await RawClient.open(victim.service.url)
        reader.send(`GET /api/tasks/${body.uuid} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${token}\r\n\r\n`)
        reader.socket.pause()
      }
      await Promise.all(owners.flatMap((token) => [
        stall("/api/tasks", token, 16 * mebibyte, `{"assistant_id":1,"input":[{"type":"text","text":"`),
        stall("/internal/core/events", internalToken, 30 * mebibyte, `{"type":"completed","turn":"`),
        stall("/rpc", internalToken, 40 * mebibyte, `{"_tag":"Request","payload":"`)
      ]))
      await pause(5000)
      over.abort()
      await sampling
    })

    const last = await readMetrics()
    for (const [budget, limit] of Object.entries(budgets)) {
      assert.strictEqual(Math.round(sumOf(last, `limit_bytes ${budget}`)), limit)
      assert.isAtMost(most.get(`sum ${budget}`) ?? Infinity, limit)
    }
    // Those of a façade are not tried here.
    for (const [use, { budget }] of Object.entries(sizes)) {
      if (use !== "composed") assert.isAbove(most.get(`in_use_bytes ${budget} ${use}`) ?? 0, mebibyte, use)
    }
    assert.isAbove(most.get("in_use_bytes core calls") ?? 0, mebibyte)
    for (const use of ["users bodies", "core events"]) {
      assert.isAbove(most.get(`waiting ${use}`) ?? 0, 0, use)
    }
    assert.isBelow(peakMemory - baseMemory, growth)
  }, 120_000)
})
