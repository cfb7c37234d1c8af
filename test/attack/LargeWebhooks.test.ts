/** Webhooks with large bodies to targets that never respond. */
import { randomUUID } from "node:crypto"
import { createServer, type Socket } from "node:net"
import { afterAll, assert, beforeAll, describe, it } from "vitest"
import { report, turnOf } from "../kit/ScriptedCore.ts"
import { mint } from "../kit/Service.ts"
import { startVictim, type Victim } from "./kit/Victim.ts"

const turnBytes = 12 * 1024 * 1024
const deliveries = 24
/** MiB. Usually about 250: six bodies, one that is read, and a report that arrives. Without a limit, all bodies alone take 288. */
const growth = 350

let victim: Victim
const sockets = new Set<Socket>()
const target = createServer((socket) => sockets.add(socket.pause().on("error", () => {})))

beforeAll(async () => {
  victim = await startVictim({ WEBHOOK_ALLOW_PRIVATE: "true" })
  await new Promise<void>((resolve) => target.listen(0, "0.0.0.0", resolve))
})
afterAll(async () => {
  for (const socket of sockets) socket.destroy()
  target.close()
  await victim.close()
})

describe(`${deliveries} webhooks of 12 MiB to targets that hang`, () => {
  it("take little memory", async () => {
    const { port } = target.address() as { readonly port: number }
    const turn = turnOf("x".repeat(turnBytes))
    const { baseMemory, peakMemory } = await victim.observe(async () => {
      for (let n = 0; n < deliveries; n++) {
        const { body } = await victim.service.create(await mint(randomUUID()), "x", {
          // Each name is another origin.
          callback_url: `http://127.0.0.${n + 1}:${port}/`
        })
        const run = await victim.runOf(body.uuid)
        assert.strictEqual((await report(run, { type: "completed", turn })).status, 200)
      }
      await new Promise((resolve) => setTimeout(resolve, 2000))
    })
    assert.isBelow(peakMemory - baseMemory, growth)
  }, 60_000)
})
