import { createAdaptorServer } from "@hono/node-server"
import { createHmac } from "node:crypto"
import { once } from "node:events"
import * as fs from "node:fs"
import type { AddressInfo, Server } from "node:net"
import * as path from "node:path"
import { Webhook } from "standardwebhooks"
import { assert, describe, it } from "vitest"
import * as Limits from "../../../src/domain/Limits.ts"
import { type ReceivedWebhook, verifyWebhook, WebhookVerificationError } from "../../../src/http/client/Webhooks.ts"
import { amount } from "../../kit/thorough.ts"
import * as express from "./receivers/express.ts"
import * as fastify from "./receivers/fastify.ts"
import * as hono from "./receivers/hono.ts"
import * as next from "./receivers/next.ts"
import * as node from "./receivers/node.ts"

const secret = "the secret of the tests, é"
const id = "019ac5d2-7f3e-7c41-9b1a-2f60c8a7d913-2"
const body = `{"uuid":"019ac5d2-7f3e-7c41-9b1a-2f60c8a7d913","status":"completed","turn":{"output":["é"]}}`

/** Headers of a webhook, signed by independent implementations. */
const signed = (at = new Date(), by = secret, text = body): Record<string, string> => ({
  "content-type": "application/json",
  "webhook-id": id,
  "webhook-timestamp": String(Math.floor(at.getTime() / 1000)),
  "webhook-signature": new Webhook(new TextEncoder().encode(by), { format: "raw" }).sign(id, at, text),
  "x-signature": createHmac("sha256", by).update(text).digest("hex")
})

const problemOf = async (received: Partial<ReceivedWebhook>) => {
  try {
    await verifyWebhook({ body, headers: signed(), secret, ...received })
    return "none"
  } catch (error) {
    assert.instanceOf(error, WebhookVerificationError)
    return (error as WebhookVerificationError).problem
  }
}

describe("verifyWebhook", () => {
  it("accepts bodies and headers in the forms of all common servers", async () => {
    const bytes = new TextEncoder().encode(body)
    for (const form of [body, bytes, bytes.buffer, Buffer.from(body)]) {
      const { id: found, task, taskId } = await verifyWebhook({ body: form, headers: signed(), secret })
      assert.deepStrictEqual([found, taskId, task], [id, JSON.parse(body).uuid, JSON.parse(body)])
    }
    assert.strictEqual(await problemOf({ headers: new Headers(signed()) }), "none")
    const upper = Object.fromEntries(Object.entries(signed()).map(([name, value]) => [name.toUpperCase(), [value]]))
    assert.strictEqual(await problemOf({ headers: upper }), "none")
  })

  it("accepts any of several secrets, and a whsec_ secret of Standard Webhooks", async () => {
    assert.strictEqual(await problemOf({ secret: ["old", secret] }), "none")
    assert.strictEqual(await problemOf({ secret: ["old", "older"] }), "wrong_signature")
    const whsec = `whsec_${Buffer.from("a key of this many bytes").toString("base64")}`
    const headers = {
      ...signed(),
      "webhook-signature": new Webhook(whsec).sign(id, new Date(), body),
      "x-signature": createHmac("sha256", whsec).update(body).digest("hex")
    }
    assert.strictEqual(await problemOf({ secret: whsec, headers }), "none")
  })

  it("verifies events of webhook endpoints by the signature of Standard Webhooks, in every format", async () => {
    const keys = ["old", "new"].map((key) => `whsec_${Buffer.from(key.padEnd(32, "-")).toString("base64")}`)
    const eventId = `evt_${id}`
    const task = { uuid: id.slice(0, 36), status: "failed" }
    const envelope = JSON.stringify({ id: eventId, type: "task.failed", created_at: "", data: { task } })
    const sign = (text: string, by: ReadonlyArray<string>) => ({
      "webhook-id": eventId,
      "webhook-timestamp": String(Math.floor(Date.now() / 1000)),
      "webhook-signature": by.map((key) => new Webhook(key).sign(eventId, new Date(), text)).join(" ")
    })
    for (const text of [envelope, JSON.stringify({ task })]) {
      for (const key of keys) {
        const verified = await verifyWebhook({ body: text, headers: sign(text, keys), secret: key })
        assert.deepStrictEqual(verified, { id: eventId, type: "task.failed", taskId: task.uuid, task })
      }
      assert.strictEqual(
        await problemOf({ body: text, headers: sign(text, keys), secret: "another" }),
        "wrong_signature"
      )
      assert.strictEqual(
        await problemOf({ body: `${text} `, headers: sign(text, keys), secret: keys }),
        "wrong_signature"
      )
      const { "webhook-signature": _, ...unsigned } = sign(text, keys)
      assert.strictEqual(await problemOf({ body: text, headers: unsigned, secret: keys }), "missing_signature")
    }
    // A task's webhook whose X-Signature was removed is none of an endpoint.
    const stripped = JSON.stringify(task)
    assert.strictEqual(
      await problemOf({ body: stripped, headers: sign(stripped, keys), secret: keys }),
      "missing_signature"
    )
    const foreign = envelope.replace(eventId, "evt_other")
    assert.strictEqual(await problemOf({ body: foreign, headers: sign(foreign, keys), secret: keys }), "malformed_body")
  })

  it("rejects a wrong secret and any changed body or signed header", async () => {
    assert.strictEqual(await problemOf({ secret: "another" }), "wrong_signature")
    assert.strictEqual(await problemOf({ body: body.replace("completed", "failed") }), "wrong_signature")
    assert.strictEqual(await problemOf({ body: `${body} ` }), "wrong_signature")
    const changed = {
      "webhook-id": `${id}0`,
      "webhook-timestamp": String(Math.floor(Date.now() / 1000) + 1),
      "x-signature": "0".repeat(64),
      "webhook-signature": `v1,${Buffer.alloc(32).toString("base64")}`
    }
    for (const [name, value] of Object.entries(changed)) {
      assert.strictEqual(await problemOf({ headers: { ...signed(), [name]: value } }), "wrong_signature", name)
    }
  })

  it("rejects a missing or unreadable signature, id or timestamp", async () => {
    for (const name of ["x-signature", "webhook-signature"]) {
      for (const value of [undefined, "", "v1,", "v2,abc", "zz", "0".repeat(63), "v1a,AAAA"]) {
        assert.strictEqual(await problemOf({ headers: { ...signed(), [name]: value } }), "missing_signature")
      }
    }
    for (const name of ["webhook-id", "webhook-timestamp"]) {
      assert.strictEqual(await problemOf({ headers: { ...signed(), [name]: undefined } }), "missing_timestamp")
    }
    assert.strictEqual(await problemOf({ headers: { ...signed(), "webhook-timestamp": "1e9" } }), "missing_timestamp")
  })

  it("rejects a timestamp outside of the tolerance", async () => {
    const now = Math.floor(Date.now() / 1000)
    const headers = signed(new Date(now * 1000))
    assert.strictEqual(await problemOf({ headers, now: now + 300 }), "none")
    assert.strictEqual(await problemOf({ headers, now: now + 301 }), "too_old")
    assert.strictEqual(await problemOf({ headers, now: now - 300 }), "none")
    assert.strictEqual(await problemOf({ headers, now: now - 301 }), "too_new")
    assert.strictEqual(await problemOf({ headers, now: now + 11, tolerance: 10 }), "too_old")
  })

  it("says that it needs the raw body when it gets a parsed one, or none", async () => {
    for (const parsed of [JSON.parse(body), undefined, null, 1]) {
      const error = await verifyWebhook({ body: parsed, headers: signed(), secret }).catch((error: unknown) => error)
      assert.instanceOf(error, TypeError)
      assert.match((error as Error).message, /pass the raw body/)
    }
  })

  it("has a limit that takes the largest webhook in each line that people copy", async () => {
    const root = path.resolve(import.meta.dirname, "../../..")
    const pages = [
      "src/http/client/Webhooks.ts",
      "src/http/client/README.md",
      "src/http/client/promise/README.md",
      "src/http/client/python/README.md",
      "src/http/client/python/async_task_service_client/webhooks.py",
      "test/http/client/receivers/express.ts",
      "test/http/client/receivers/fastify.ts",
      "test/examples/webhook.ts"
    ]
    const texts = pages.map((page) => fs.readFileSync(path.join(root, page), "utf8").replaceAll("\\\"", "\""))
    const parsers = texts.flatMap((text) => text.match(/express\.(raw|json|text)\([^)]*\)|fastify\([^)]*\)/g) ?? [])
    assert.isAtLeast(parsers.length, 5)
    for (const parser of parsers) assert.match(parser, /limit: "33mb"|bodyLimit: 33 \* 1024 \* 1024/i)
    for (const text of texts) {
      if (text.includes("Django")) {
        assert.include(text, `DATA_UPLOAD_MAX_MEMORY_SIZE = ${Limits.webhookBytes / 1024 ** 2} * 1024 * 1024`)
      }
    }
  })

  it("rejects a signed body that is not a task", async () => {
    for (const text of ["", "{", "[]", "null", `{"uuid":1}`]) {
      const headers = signed(new Date(), secret, text)
      assert.strictEqual(await problemOf({ body: text, headers }), "malformed_body", text)
    }
  })
})

type MakeServer = (...given: Parameters<typeof node.makeReceiver>) => Server | Promise<Server>

const makeServers: Readonly<Record<string, MakeServer>> = {
  "plain Node": node.makeReceiver,
  Express: express.makeReceiver,
  Fastify: async (...given) => {
    const app = fastify.makeReceiver(...given)
    await app.ready()
    return app.server
  },
  Hono: (...given) => hono.makeReceiver(...given) as Server,
  "Next.js": (...given) => createAdaptorServer({ fetch: next.makeReceiver(...given) }) as Server
}

describe.each(Object.entries(makeServers))(
  "a receiver on %s",
  (_, makeServer) => {
    it("accepts a genuine webhook and rejects all others", async () => {
      const tasks: Array<object> = []
      let isHealthy = false
      const onTask = (task: object) => {
        if (!isHealthy) throw new Error("the handler failed")
        tasks.push(task)
      }
      const server = await makeServer(secret, onTask)
      server.listen(0, "127.0.0.1")
      await once(server, "listening")
      const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
      const post = async (text: string, headers: Record<string, string>) =>
        (await fetch(url, { method: "POST", headers: { ...headers, connection: "close" }, body: text })).status
      assert.strictEqual(await post(body, signed()), 500)
      isHealthy = true
      assert.strictEqual(await post(body, signed()), 204)
      assert.deepStrictEqual(tasks, [JSON.parse(body)])
      assert.strictEqual(await post(body.replace("completed", "failed"), signed()), 401)
      assert.strictEqual(await post(body, signed(new Date(Date.now() - 3_600_000))), 401)
      assert.strictEqual(await post(body, { "content-type": "application/json" }), 401)
      assert.strictEqual(tasks.length, 1)
      // By default Express takes 100 KB and Fastify 1 MB.
      const large = body.replace("é", "x".repeat(amount(1.5 * 1024 ** 2, Limits.coreEventBytes)))
      assert.strictEqual(await post(large, signed(new Date(), secret, large)), 204)
      await new Promise((resolve) => server.close(resolve))
    })
  }
)
