/** The responses of every operation that needs the database while it is away. */
import { assert, describe, it } from "vitest"
import { Proxy } from "../chaos/Proxy.ts"
import { callRpc } from "../kit/callRpc.ts"
import { calls } from "../kit/calls.ts"
import { openDatabase } from "../kit/databases.ts"
import { operations, pathFor } from "../kit/operations.ts"
import { internalToken, mint, Service } from "../kit/Service.ts"
import { use } from "../kit/suite.ts"

const message = "The service cannot reach its database at the moment. Try again soon."

const url = new URL((await use(openDatabase())).url)
const proxy = await use(new Proxy({ port: Number(url.port) }).listen())
url.port = String(proxy.port)
const service = await use(Service.start({ DATABASE_URL: url.href }))
const token = await mint("ann")
await proxy.refuse()

const uuid = crypto.randomUUID()

describe("during an outage of the database", () => {
  const isSpared = (id: string) => ["uploadFile", "getStorageBase", "getMetrics"].includes(id)
  for (
    const [method, path, body] of [
      ...operations.filter(({ id }) => !isSpared(id)).map((operation) =>
        [operation.method, pathFor(operation, uuid), operation.body] as const
      ),
      ["GET", `/api/tasks/${uuid}?wait=5`]
    ] as const
  ) {
    it(`${method} ${path.replace(uuid, ":uuid")} returns 503`, async () => {
      const answer = await service.call(method, path, path.startsWith("/internal") ? internalToken : token, body)
      assert.deepStrictEqual([answer.status, answer.body], [503, { message, code: "store_unavailable" }])
      assert.strictEqual(answer.headers.get("retry-after"), "5")
    })
  }

  // Revocations are in memory.
  for (const { payloadFor, tag } of calls.filter(({ tag }) => tag !== "Tokens.isRevoked")) {
    it(`${tag} fails with Unavailable`, async () => {
      const outcome = await callRpc(service, tag, payloadFor({ sub: "ann", uuid }))
      assert.deepStrictEqual(outcome, { _tag: "Unavailable", message })
    })
  }
})
