/** The receivers of test/examples/endpoints as processes, registered as webhook endpoints of a running service. */
import { type ChildProcess, execFileSync, spawn } from "node:child_process"
import * as path from "node:path"
import { afterAll, assert, describe, it } from "vitest"
import { complete, interrupt } from "../../kit/ScriptedCore.ts"
import { eventually, freePort, internalToken, mint } from "../../kit/Service.ts"
import { use } from "../../kit/suite.ts"
import { startSystem } from "../../kit/System.ts"

const { runOf, service } = await use(startSystem({ WEBHOOK_ALLOW_PRIVATE: "true" }))
const root = path.resolve(import.meta.dirname, "../../..")
const examples = path.join(root, "test/examples/endpoints")
const python = path.join(root, "src/http/client/python")
const call = (method: string, address: string, body?: unknown) =>
  service.call(method, `/internal/webhook-endpoints${address}`, internalToken, body)

const processes: Array<ChildProcess> = []
afterAll(() => {
  for (const child of processes) child.kill("SIGKILL")
})

const hasFlask = (() => {
  try {
    execFileSync("python3", ["-c", "import flask"], { stdio: "ignore" })
    return true
  } catch {
    return false
  }
})()

const receivers = ["express.ts", "fastify.ts", "hono.ts", "receiver.py"]

describe("the example", () => {
  it.each(receivers)("%s verifies both secrets and every format", async (name) => {
    if (name === "receiver.py" && !hasFlask) {
      assert.isUndefined(process.env["CI"], "Flask is not installed")
      return
    }
    const port = await freePort()
    const { body: endpoint } = await call("POST", "", { url: `http://127.0.0.1:${port}/events`, format: "cloudevents" })
    const { body: rotated } = await call("POST", `/${endpoint.id}/rotate-secret`)
    const start = (secret: string) => {
      const child = spawn(name.endsWith(".py") ? "python3" : process.execPath, [path.join(examples, name)], {
        env: { PATH: process.env["PATH"], PORT: String(port), ENDPOINT_SECRET: secret, PYTHONPATH: python }
      })
      processes.push(child)
      const output = { text: "" }
      for (const stream of [child.stdout, child.stderr]) {
        stream.on("data", (chunk) => {
          output.text += chunk
        })
      }
      return { child, output }
    }
    const token = await mint(`receiver-${name}`)
    const end = async () => {
      const { body: { uuid } } = await service.create(token, "Hello")
      await complete(await runOf(uuid))
      return String(uuid)
    }
    const prints = (output: { readonly text: string }, line: string) =>
      eventually(async () => output.text, (text) => text.includes(line), 15_000)
    const reachable = () =>
      eventually(
        () =>
          fetch(`http://127.0.0.1:${port}/events`, {
            method: "POST",
            headers: { "content-type": "application/json" },
            body: "{}"
          }).catch(() => undefined),
        (response) => response?.status === 401,
        15_000
      )

    // With the old secret alone, as before the receiver knows the new one.
    const before = start(endpoint.secret)
    await reachable()
    await prints(before.output, `task.completed ${await end()}`)
    before.child.kill("SIGKILL")
    const after = start(`${rotated.secret},old`)
    await reachable()
    for (const format of ["default", "full", "thin"]) {
      await call("PATCH", `/${endpoint.id}`, { format })
      await prints(after.output, `task.completed ${await end()}`)
    }
    const { body: { uuid } } = await service.create(token, "Hello")
    await interrupt(await runOf(uuid))
    await prints(after.output, `task.interrupted ${uuid}`)
    await call("DELETE", `/${endpoint.id}`)
  }, 60_000)
})
