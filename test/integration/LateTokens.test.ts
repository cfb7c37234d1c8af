/** Tokens that expire or are revoked before their request has arrived completely or has been answered. */
import { assert, describe, it } from "vitest"
import { RawClient, requestHead } from "../kit/RawClient.ts"
import { ScriptedBackend } from "../kit/ScriptedBackend.ts"
import { interrupt } from "../kit/ScriptedCore.ts"
import { eventually, internalToken, mint } from "../kit/Service.ts"
import { use } from "../kit/suite.ts"
import { startSystem } from "../kit/System.ts"

const backend = await use(new ScriptedBackend().listen())
const system = await use(startSystem({ ASSISTANT_BACKEND_URL: backend.url, WEBHOOK_ALLOW_PRIVATE: "true" }))

const revoke = (jti: string) => system.service.call("POST", "/internal/tokens/revoke", internalToken, { jti })

const json = "application/json"
const form = "multipart/form-data; boundary=b"
const creation = JSON.stringify({ assistant_id: 1, input: [{ type: "text", text: "Why?" }] })
const upload = "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.txt\"\r\n\r\ntext\r\n--b--\r\n"

/** Begins a request whose token is accepted before its body arrives. `finish` sends the rest. */
const begin = async (token: string, path: string, type: string, body: string) => {
  const raw = await RawClient.open(system.service.url)
  const [bearer, length] = [`Authorization: Bearer ${token}`, `Content-Length: ${body.length}`]
  raw.send(requestHead(`POST ${path}`, bearer, length, `Content-Type: ${type}`, "Expect: 100-continue"))
  assert.strictEqual((await raw.answer()).status, 100)
  raw.send(body.slice(0, -20))
  return { answer: () => raw.answer(1), finish: () => raw.send(body.slice(-20)).answer(1) }
}

/** An interrupted task of the user with its delivery. */
const interrupted = async (sub: string) => {
  const token = await mint(sub)
  const created = await system.service.create(token, "Why?", { callback_url: "http://127.0.0.1:9/" })
  const { uuid } = created.body
  await interrupt(await system.runOf(uuid))
  const path = `/api/tasks/${uuid}/deliveries`
  const { body } = await eventually(() => system.service.call("GET", path, token), ({ body }) => body.data.length > 0)
  return { uuid, id: body.data[0].id, token }
}

const cases = [
  ["create", () => "/api/tasks", json, creation],
  ["tool-results", (uuid) => `/api/tasks/${uuid}/tool-results`, json, `{"results":[{"tool_call_id":"c1","output":1}]}`],
  ["cancel", (uuid) => `/api/tasks/${uuid}/cancel`, json, `{"reason":"no longer needed"}`],
  ["stop", (uuid) => `/api/tasks/${uuid}/stop`, json, `{"reason":"no longer needed"}`],
  ["redeliver", (uuid, id) => `/api/tasks/${uuid}/deliveries/${id}/redeliver`, json, `{"callback_secret":"secret"}`],
  ["a wrong body", () => "/api/tasks", json, `{"assistant_id":"one","input":[]}`],
  ["upload", () => "/api/files", form, upload]
] satisfies ReadonlyArray<readonly [string, (uuid: string, id: string) => string, string, string]>

describe("a token that is revoked while the body arrives", () => {
  it.each([
    ["a large create", "/api/tasks", json, creation.replace("Why?", "Why? ".repeat(50_000))],
    ["an upload", "/api/files", form, upload]
  ])("ends it at once: %s", async (name, path, type, body) => {
    const { answer } = await begin(await mint("late-arrival", { jti: name }), path, type, body)
    await revoke(name)
    const { head, status } = await answer()
    assert.strictEqual(status, 401)
    assert.match(head, /www-authenticate: bearer/i)
  })

  it.each(cases)("is refused: %s", async (name, pathOf, type, body) => {
    const sub = `late-${name}`
    const { id, token: reader, uuid } = await interrupted(sub)
    const { finish } = await begin(await mint(sub, { jti: sub }), pathOf(uuid, id), type, body)
    await revoke(sub)
    const { body: text, head, status } = await finish()
    assert.strictEqual(status, 401, text)
    assert.match(head, /www-authenticate: bearer/i)
    const { body: list } = await system.service.call("GET", "/api/tasks", reader)
    assert.strictEqual(list.meta.total, 1)
    assert.strictEqual(list.data[0].status, "interrupted")
    if (name === "upload") {
      await eventually(async () => backend.last?.state, (state) => state === undefined || state === "aborted")
    }
  })
})

describe("a token that expires while the body arrives", () => {
  it.each([cases[0]!, cases[5]!])("is refused: %s", async (name, pathOf, type, body) => {
    const exp = Math.floor(Date.now() / 1000) + 4
    const token = await mint(`expiring-${name}`, { exp })
    const { finish } = await begin(token, pathOf("", ""), type, body)
    await eventually(() => system.service.call("GET", "/api/tasks", token), ({ status }) => status === 401)
    assert.strictEqual((await finish()).status, 401)
  })
})
