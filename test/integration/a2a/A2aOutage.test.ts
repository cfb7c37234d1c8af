/** A stream of a task ends with an error when the database is away. */
import { assert, it } from "vitest"
import { Proxy } from "../../chaos/Proxy.ts"
import { openDatabase } from "../../kit/databases.ts"
import { ScriptedCore } from "../../kit/ScriptedCore.ts"
import { mint, Service } from "../../kit/Service.ts"
import { use } from "../../kit/suite.ts"
import { atOnce, clientOf, messageOf } from "./A2a.ts"

const url = new URL((await use(openDatabase())).url)
const proxy = await use(new Proxy({ port: Number(url.port) }).listen())
url.port = String(proxy.port)
const core = await use(new ScriptedCore().listen())
const service = await use(Service.start({ DATABASE_URL: url.href, CORE_URL: core.url, FACADE_MODELS: "writer=4" }))

it("ends with an error that says so", async () => {
  const client = await clientOf(service, "ann")
  const { body } = await client.call("SendMessage", { message: messageOf("x"), configuration: atOnce })
  const { id } = body.result.task
  await core.run(id)
  const response = await fetch(`${service.url}/a2a`, {
    method: "POST",
    headers: { authorization: `Bearer ${await mint("ann")}`, "content-type": "application/json", "a2a-version": "1.0" },
    body: JSON.stringify({ jsonrpc: "2.0", id: 8, method: "SubscribeToTask", params: { id } })
  })
  await proxy.refuse()
  const last = (await response.text()).split("\n\n").findLast((event) => event.startsWith("data: ")) ?? ""
  const { error, id: answered } = JSON.parse(last.slice("data: ".length))
  assert.strictEqual(answered, 8)
  assert.strictEqual(error.message, "The service is not available at the moment. Try again later.")
  assert.strictEqual(error.data[0].reason, "UNAVAILABLE")
})
