import { once } from "node:events"
import { type AddressInfo, connect, createServer } from "node:net"
import { assert, it } from "vitest"
import { pause } from "../kit/pause.ts"
import { Proxy } from "./Proxy.ts"

it("keeps the order of bytes when the link becomes shorter", async () => {
  const server = createServer({ allowHalfOpen: true }).listen(0, "127.0.0.1")
  await once(server, "listening")
  const proxy = await new Proxy(server.address() as AddressInfo).listen()
  const accepted = once(server, "connection")
  const client = connect(proxy.port, "127.0.0.1")
  const [peer] = await accepted
  proxy.link.latency = 200
  client.write("one ")
  await pause(50)
  proxy.link.latency = 0
  client.write("two")
  let received = ""
  for await (const chunk of peer) {
    received += chunk
    if (received.length === "one two".length) break
  }
  assert.strictEqual(received, "one two")
  await proxy.close()
  server.close()
})
