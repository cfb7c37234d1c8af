import { assert, describe, it } from "vitest"
import { pause } from "../kit/pause.ts"
import { RawClient, requestHead } from "../kit/RawClient.ts"
import { ScriptedBackend } from "../kit/ScriptedBackend.ts"
import { eventually, mint } from "../kit/Service.ts"
import { use } from "../kit/suite.ts"
import { startVictim } from "./kit/Victim.ts"

const begun = "--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.txt\"\r\n\r\n" + "x".repeat(100_000)

const form = "Content-Type: multipart/form-data; boundary=x"

describe("uploads of 1 GB to a backend that reads slowly", async () => {
  const backend = await use(new ScriptedBackend().listen())
  backend.onUpload = (request) => {
    const timer = setInterval(() => request.read(65_536), 100)
    request.on("readable", () => {}).on("close", () => clearInterval(timer))
  }
  const victim = await use(startVictim({ ASSISTANT_BACKEND_URL: backend.url }))

  it("hold their clients back, and cost constant memory", async () => {
    const token = await mint("sender")
    const chunk = Buffer.alloc(1024 * 1024, "x")
    const observed = await victim.observe(async () => {
      for (let count = 0; count < 20; count++) {
        const client = await RawClient.open(victim.service.url)
        const length = `Content-Length: ${1_024_000_000}`
        client.send(requestHead("POST /api/files", `Authorization: Bearer ${token}`, length, form) + begun)
        const feed = () => {
          while (client.socket.write(chunk));
        }
        client.socket.on("drain", feed)
        feed()
      }
      await eventually(async () => backend.uploads.length, (count) => count === 20)
      await pause(5000)
    })
    assert.isBelow(observed.peakMemory - observed.baseMemory, 150)
    assert.isBelow(observed.longestTurn, 150)
  })
})

describe("uploads that never end", async () => {
  const backend = await use(new ScriptedBackend().listen())
  backend.onUpload = (request) => void request.resume()
  const victim = await use(startVictim({ ASSISTANT_BACKEND_URL: backend.url }))

  it("are limited to a hundred for one user, take little memory and do not block other users", async () => {
    const clients: Array<RawClient> = []
    const start = async (token: string) => {
      const client = await RawClient.open(victim.service.url)
      clients.push(client)
      const head = requestHead("POST /api/files", `Authorization: Bearer ${token}`, "Content-Length: 9000000", form)
      return client.send(head + begun)
    }
    const [greedy, modest] = [await mint("greedy"), await mint("modest")]
    const { baseMemory, peakMemory } = await victim.observe(async () => {
      for (let count = 0; count < 100; count++) await start(greedy)
      await eventually(async () => backend.uploads.length, (count) => count === 100)
    })
    const refused = await (await start(greedy)).answer()
    assert.strictEqual(refused.status, 429)
    assert.match(refused.head, /retry-after: \d+/i)
    await start(modest)
    await eventually(async () => backend.uploads.length, (count) => count === 101)
    clients[0]?.close()
    await eventually(async () => backend.uploads.some(({ state }) => state === "aborted"), (isAborted) => isAborted)
    await start(greedy)
    await eventually(async () => backend.uploads.length, (count) => count === 102)
    assert.isBelow(peakMemory - baseMemory, 100)
  })
})
