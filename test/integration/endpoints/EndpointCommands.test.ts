/** The commands `endpoints` and `listen`, and the calls of RPC, against a running service. */
import { execFile, spawn } from "node:child_process"
import { once } from "node:events"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { buffer } from "node:stream/consumers"
import { promisify } from "node:util"
import { Webhook } from "standardwebhooks"
import { assert, describe, it, onTestFinished } from "vitest"
import { verifyWebhook } from "../../../src/http/client/Webhooks.ts"
import { complete } from "../../kit/ScriptedCore.ts"
import { WebhookTarget } from "../../kit/ScriptedService.ts"
import { eventually, internalToken, mint } from "../../kit/Service.ts"
import { use } from "../../kit/suite.ts"
import { startSystem } from "../../kit/System.ts"

const target = await use(new WebhookTarget().listen())
const { runOf, service } = await use(startSystem({ WEBHOOK_ALLOW_PRIVATE: "true" }))
const environment = {
  ...process.env,
  TASK_SERVICE_URL: service.url,
  INTERNAL_TOKENS: internalToken,
  NO_COLOR: "1"
}

const run = async (...args: ReadonlyArray<string>) =>
  (await promisify(execFile)(process.execPath, ["src/runtime/cli/Cli.ts", ...args], {
    env: environment,
    timeout: 45_000
  })).stdout.trim()
const json = async (...args: ReadonlyArray<string>) => JSON.parse(await run(...args, "--json"))

const end = async (more: object = {}) => {
  const { body: { uuid } } = await service.create(await mint("commands"), "Hello", more)
  await complete(await runOf(uuid))
  return String(uuid)
}

describe("the commands endpoints", () => {
  it("register, show, change, test, replay and delete", async () => {
    const created = await json(
      "endpoints",
      "create",
      `${target.url}/cli`,
      "--events",
      "task.completed",
      "--metadata",
      "a=b"
    )
    assert.match(created.secret, /^whsec_/)
    assert.deepStrictEqual(created.metadata, { a: "b" })
    const uuid = await end({ metadata: { a: "b" } })
    const [post] = await eventually(
      async () => target.received.filter(({ path }) => path === "/cli"),
      (posts) => posts.length > 0
    )
    assert.strictEqual((await verifyWebhook({ ...post!, secret: created.secret })).taskId, uuid)
    assert.match(await run("endpoints", "list"), new RegExp(`${created.id} +enabled .* default `))
    assert.include(await run("endpoints", "show", created.id), "a=b")
    const printed = await eventually(
      () => run("endpoints", "deliveries", created.id),
      (text) => text.includes("delivered"),
      20_000
    )
    assert.match(printed, new RegExp(`evt_${uuid}-\\d+ +task.completed +delivered`))
    assert.match(await run("endpoints", "test", created.id, "--event", "task.failed"), /Result +delivered/)
    const event = String(post!.headers["webhook-id"])
    assert.strictEqual(await run("endpoints", "redeliver", created.id, event), "pending")
    const hourAgo = new Date(Date.now() - 3_600_000).toISOString()
    assert.match(await run("endpoints", "replay", created.id, "--from", hourAgo, "--failed-only"), /^0 events/)
    const rotated = await json("endpoints", "rotate-secret", created.id, "--keep-old-for", "60")
    assert.notStrictEqual(rotated.secret, created.secret)
    assert.include(await run("endpoints", "update", created.id, "--disable"), "disabled (manual)")
    const refused = await run("endpoints", "update", created.id, "--to", "http://10.0.0.1/").catch((error) => error)
    assert.include(refused.stderr, "url: Webhooks may not go to this host")
    assert.strictEqual(await run("endpoints", "delete", created.id), `deleted ${created.id}`)
    assert.strictEqual(await run("endpoints", "list"), "No webhook endpoints.")
  }, 90_000)
})

/** The process of the command `listen`, and what it has printed. */
const listen = (...args: ReadonlyArray<string>) => {
  const child = spawn(process.execPath, ["src/runtime/cli/Cli.ts", "listen", ...args], { env: environment })
  onTestFinished(() => void child.kill("SIGKILL"))
  const output = { text: "", errors: "" }
  child.stdout.on("data", (chunk) => {
    output.text += chunk
  })
  child.stderr.on("data", (chunk) => {
    output.errors += chunk
  })
  return { child, output, ended: once(child, "close") }
}

describe("the command listen", () => {
  it("prints events and posts them to a local URL, and leaves no endpoint", async () => {
    const posts: Array<{ readonly body: string; readonly headers: Record<string, string> }> = []
    const local = createServer(async (request, response) => {
      posts.push({
        body: (await buffer(request)).toString(),
        headers: request.headers as Record<string, string>
      })
      response.writeHead(202).end()
    }).listen(0, "127.0.0.1")
    onTestFinished(() => void local.close())
    await new Promise((resolve) => local.once("listening", resolve))
    const { port } = local.address() as AddressInfo
    const to = `http://127.0.0.1:${port}/events`
    const { child, ended, output } = listen("--forward", to, "--metadata", "for=listen")
    await eventually(async () => output.errors, (text) => text.includes("Waiting for events"), 20_000)
    await end()
    const uuid = await end({ metadata: { for: "listen" } })
    await eventually(async () => output.text, (text) => text.includes(uuid))
    assert.match(output.text, new RegExp(`^\\S+Z  task.completed  ${uuid}  202\n$`))
    const [secret = ""] = /whsec_\S+/.exec(output.errors) ?? []
    assert.lengthOf(posts, 1)
    new Webhook(secret).verify(posts[0]!.body, posts[0]!.headers)
    child.kill("SIGINT")
    await ended
    assert.deepStrictEqual((await json("endpoints", "list")).data, [])
  }, 90_000)

  it("ends when its endpoint is deleted, and leaves one that got a URL", async () => {
    for (
      const [method, reason, body] of [
        ["DELETE", /The endpoint of this command was deleted/],
        ["PATCH", /The endpoint of this command, whe_\w+, has a URL now and is kept/, { url: `${target.url}/listen` }]
      ] as const
    ) {
      const { ended, output } = listen()
      await eventually(async () => output.errors, (text) => text.includes("Waiting for events"), 20_000)
      const [{ id }] = (await json("endpoints", "list")).data
      await service.call(method, `/internal/webhook-endpoints/${id}`, internalToken, body)
      assert.deepStrictEqual(await ended, [1, null])
      assert.match(output.errors, reason)
    }
    const [kept, ...others] = (await json("endpoints", "list")).data
    assert.strictEqual(kept.url, `${target.url}/listen`)
    assert.deepStrictEqual(others, [])
    await run("endpoints", "delete", kept.id)
  }, 90_000)

  it("says what a local URL is, as it was given", async () => {
    const { ended, output } = listen("--forward", "nourl")
    assert.deepStrictEqual(await ended, [2, null])
    assert.match(output.errors, /--forward: "nourl".*an http or https URL/)
  }, 30_000)
})
