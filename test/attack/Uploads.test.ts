import { afterAll, assert, beforeAll, describe, it } from "vitest"
import { RawClient } from "../kit/RawClient.ts"
import { ScriptedBackend } from "../kit/ScriptedBackend.ts"
import { eventually, mint } from "../kit/Service.ts"
import { startVictim, type Victim } from "./kit/Victim.ts"

const begun = "--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.txt\"\r\n\r\n" + "x".repeat(100_000)

describe("uploads that never end", () => {
  let backend: ScriptedBackend
  let victim: Victim

  beforeAll(async () => {
    backend = await new ScriptedBackend().listen()
    backend.onUpload = (request) => void request.resume()
    victim = await startVictim({ ASSISTANT_BACKEND_URL: backend.url })
  })

  afterAll(async () => {
    await victim.close()
    await backend.close()
  })

  it("are limited to a hundred for one user, take little memory and do not block other users", async () => {
    const clients: Array<RawClient> = []
    const start = async (token: string) => {
      const client = await RawClient.open(victim.service.url)
      clients.push(client)
      return client.send(
        `POST /api/files HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${token}\r\nContent-Length: 9000000\r\n`
          + `Content-Type: multipart/form-data; boundary=x\r\n\r\n${begun}`
      )
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
    for (const client of clients) client.close()
    assert.isBelow(peakMemory - baseMemory, 100)
  })
})
