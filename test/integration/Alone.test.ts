import { randomUUID } from "node:crypto"
import * as fs from "node:fs"
import { json } from "node:stream/consumers"
import { assert, describe, it } from "vitest"
import { HostileProvider } from "../attack/kit/HostileProvider.ts"
import { answerJson, LoopbackServer } from "../kit/LoopbackServer.ts"
import { eventually, freePort, internalToken, mint, Service } from "../kit/Service.ts"
import { use, useDirectory } from "../kit/suite.ts"

const directory = useDirectory()

interface Event {
  readonly run_id: string
  readonly type: string
  // oxlint-disable-next-line typescript/no-explicit-any -- tests read turns of every shape
  readonly turn?: any
  readonly code?: string
  readonly message?: string
}

const events: Array<Event> = []
const userToken = await mint("someone")

/** A stand-in for the service: receives the core's events. */
const service = await use(
  new LoopbackServer(async (request, response) => {
    assert.strictEqual(request.headers.authorization, `Bearer ${internalToken}`)
    events.push(await json(request) as Event)
    answerJson(response, 200, { status: "processing", applied: true })
  }).listen()
)
const provider = await use(new HostileProvider().listen())

const start = async (part: "core" | "backend", settings: Readonly<Record<string, string>>) => {
  const port = await freePort()
  const command = ["src/runtime/cli/Cli.ts", "serve", "--only", part]
  return Service.start({ DATA_DIR: directory, ...settings }, port, command, "/healthz")
}

const backend = await use(
  start("backend", { OPENAI_BASE_URL: provider.url, OPENAI_API_KEY: "key-of-the-provider", OPENAI_MODEL: "talker" })
)
const core = await use(
  start("core", {
    ASSISTANT_BACKEND_URL: backend.url,
    CORE_TOKEN: "token-of-the-core",
    CORE_EVENT_TOKENS: `${internalToken},next`,
    INTERNAL_TOKENS: "another"
  })
)

const post = (url: string, body: object, token = "token-of-the-core") =>
  fetch(url, {
    method: "POST",
    headers: { "content-type": "application/json", authorization: `Bearer ${token}` },
    body: JSON.stringify(body)
  })

const startOf = (assistant_id: number, text: string, more: object = {}) => ({
  task_id: randomUUID(),
  run_id: randomUUID(),
  assistant_id,
  input: [{ type: "text", text }],
  turns: [],
  client_tools: [],
  llm_model_id: null,
  image_generator_id: null,
  user: { sub: "someone" },
  user_token: userToken,
  deadline_at: "2100-01-01T00:00:00.000000Z",
  events_url: service.url,
  resume: null,
  ...more
})

const run = async (assistant_id: number, text: string, more: object = {}) => {
  const body = startOf(assistant_id, text, more)
  assert.strictEqual((await post(`${core.url}/runs`, body)).status, 202)
  return body.run_id
}

const eventsOf = (id: string) => events.filter(({ run_id }) => run_id === id)

describe("the core and the backend, each served alone", () => {
  it("complete a run over HTTP", async () => {
    const id = await run(1, "What is 6 * 7?")
    await eventually(async () => eventsOf(id), (all) => all.length === 2)
    assert.deepStrictEqual(eventsOf(id).map(({ type }) => type), ["processing", "completed"])
    assert.strictEqual(eventsOf(id)[1]?.turn.output[0].text, "42")
  })

  it("require their tokens", async () => {
    assert.strictEqual((await post(`${core.url}/runs`, {}, "another")).status, 401)
    assert.strictEqual((await post(`${core.url}/runs/${randomUUID()}/stop`, {}, "another")).status, 401)
    assert.strictEqual((await post(`${core.url}/runs`, {}, "")).status, 401)
    assert.strictEqual((await fetch(`${backend.url}/chats`, { method: "POST" })).status, 401)
  })

  it("accept only tokens that the service accepts", async () => {
    const chat = { assistant_id: 1 }
    assert.strictEqual((await post(`${backend.url}/chats`, chat, userToken)).status, 201)
    assert.strictEqual((await post(`${backend.url}/chats`, chat, "token-of-the-user")).status, 401)
    const past = Math.floor(Date.now() / 1000) - 60
    assert.strictEqual((await post(`${backend.url}/chats`, chat, await mint("someone", { exp: past }))).status, 401)
  })

  it("accept only application/json, which a page of another origin cannot send without a CORS preflight", async () => {
    const send = (url: string, type: string, token: string) =>
      fetch(url, {
        method: "POST",
        headers: { "content-type": type, origin: "https://evil.example", authorization: `Bearer ${token}` },
        body: JSON.stringify({ ...startOf(1, "x"), assistant_id: 1 })
      }).then(({ status }) => status)
    for (const type of ["text/plain", "application/x-www-form-urlencoded", "text/plain; application/json", ""]) {
      assert.strictEqual(await send(`${core.url}/runs`, type, "token-of-the-core"), 415, type)
      assert.strictEqual(await send(`${backend.url}/chats`, type, userToken), 415, type)
    }
    assert.strictEqual(await send(`${backend.url}/chats`, "application/json; charset=utf-8", userToken), 201)
  })

  const upload = async (body: FormData | Blob) => {
    const headers = { authorization: `Bearer ${userToken}` }
    const response = await fetch(`${backend.url}/files`, { method: "POST", headers, body })
    return { status: response.status, body: await response.json() as object }
  }

  const formOf = (...files: ReadonlyArray<readonly [field: string, name: string, content: string]>) => {
    const form = new FormData()
    for (const [field, name, content] of files) form.append(field, new Blob([content]), name)
    return form
  }

  it("store one file per request, and nothing of a form that is refused", async () => {
    const contentOf = (folder: string) => {
      const entries = fs.readdirSync(`${directory}/${folder}`, { recursive: true, withFileTypes: true })
      const files = entries.filter((entry) => entry.isFile())
      return files.map(({ name, parentPath }) => [name, fs.readFileSync(`${parentPath}/${name}`, "utf8")])
    }
    const stored = () => [contentOf("storage"), contentOf("storage-usage")]
    assert.strictEqual((await upload(formOf(["file", "a.txt", "a"]))).status, 201)
    const before = stored()
    const { body, status } = await upload(
      formOf(["file", "a.txt", "a"], ["file", "b.txt", "b"], ["file", "c.txt", "c"])
    )
    assert.strictEqual(status, 422)
    assert.containSubset(body, { errors: { file: ["Only one file may be sent at a time"] } })
    const part = "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.txt\"\r\n\r\na\r\n"
    const withoutEnd = new Blob([`${part}--b\r\n`], { type: "multipart/form-data; boundary=b" })
    assert.strictEqual((await upload(withoutEnd)).status, 422)
    assert.deepStrictEqual(stored(), before)
  })

  it("ignore large files in other fields", async () => {
    const other = ["other", "b.txt", "b".repeat(3_000_000)] as const
    const { body, status } = await upload(formOf(other, ["file", "a.txt", "a"], other))
    assert.strictEqual(status, 201)
    assert.containSubset(body, { name: "a.txt" })
  })

  it("send events and their token only to the service's origin", async () => {
    const elsewhere = [
      "https://evil.example/internal/core/events",
      "http://127.0.0.1.evil.example/",
      "http://10.0.0.1/",
      "http://user@evil.example/",
      "file:///etc/passwd",
      "nothing"
    ]
    for (const events_url of elsewhere) {
      const response = await post(`${core.url}/runs`, startOf(1, "x", { events_url }))
      assert.strictEqual(response.status, 422, events_url)
      assert.deepStrictEqual(Object.keys((await response.json()).errors), ["events_url"])
    }
  })

  it("log an error when the service rejects the core's token", async () => {
    const refusing = await new LoopbackServer((_, response) => response.writeHead(401).end()).listen()
    const events_url = refusing.url
    await run(1, "hello", { events_url })
    const said = await eventually(async () => core.output, (output) => output.includes(events_url))
    assert.include(
      said,
      `${events_url} refuses this core: CORE_EVENT_TOKENS, or else INTERNAL_TOKENS, has to be the same here and there`
    )
    await refusing.close()
  })

  it("close the provider's socket when a run is stopped, and report progress at a bounded rate", async () => {
    const id = await run(10, "talk")
    const started = performance.now()
    await eventually(async () => eventsOf(id), (all) => all.filter(({ type }) => type === "progress").length >= 3)
    const seconds = (performance.now() - started) / 1000
    const call = provider.sent.get("talker")!
    assert.strictEqual(call.authorization, "Bearer key-of-the-provider")
    const told = eventsOf(id).filter(({ type }) => type === "progress")
    assert.isAtMost(told.length, 2 * seconds + 1)
    assert.match(told.at(-1)?.turn.output[0].text, /^word0 word1 [^]*word50 /)
    assert.isFalse(call.isClosed)

    assert.strictEqual((await post(`${core.url}/runs/${id}/stop`, { reason: "no longer wanted" })).status, 202)
    await eventually(async () => call.isClosed, (closed) => closed)
    const after = eventsOf(id).length
    assert.strictEqual((await post(`${core.url}/runs/${id}/stop`, { reason: "no longer wanted" })).status, 404)
    assert.strictEqual(eventsOf(id).length, after)
  })

  it("fail a task with voice and a clear message when no transcription is configured", async () => {
    const id = await run(10, "", {
      input: [{ type: "voice", voice: { id: randomUUID(), name: "v.wav", mime_type: "audio/wav" } }]
    })
    await eventually(async () => eventsOf(id), (all) => all.some(({ type }) => type === "failed"))
    assert.deepInclude(eventsOf(id).at(-1), {
      code: "internal",
      message: "Voice input cannot be transcribed: no transcription service is configured"
    })
  })

  it("report missing settings in production", async () => {
    const failureOf = (part: "core" | "backend", settings: Readonly<Record<string, string>>) =>
      start(part, { NODE_ENV: "production", ...settings }).then(() => "started", (error: Error) => error.message)
    assert.match(
      await failureOf("core", { INTERNAL_TOKENS: "" }),
      /production: PUBLIC_URL, CORE_TOKEN, CORE_EVENT_TOKENS or INTERNAL_TOKENS, ASSISTANT_BACKEND_URL["\\]/
    )
    assert.match(
      await failureOf("backend", { JWT_SECRET: "" }),
      /production: JWT_SECRET or JWT_PUBLIC_KEY or JWT_JWKS_URL["\\]/
    )
  })
})

describe("a core alone without CORE_TOKEN", () => {
  it("accepts the token in DATA_DIR, which it generates if missing, and sends events only to PUBLIC_URL", async () => {
    const file = `${directory}/core-token`
    const PUBLIC_URL = service.url
    const [one, other] = await Promise.all(
      [1, 2].map(() => start("core", { ASSISTANT_BACKEND_URL: backend.url, PUBLIC_URL }))
    )
    try {
      assert.strictEqual(fs.statSync(file).mode & 0o777, 0o600)
      const token = fs.readFileSync(file, "utf8")
      assert.isAbove(token.length, 40)
      for (const { url } of [one!, other!]) {
        for (const wrong of ["", "x", "undefined"]) {
          assert.strictEqual((await post(`${url}/runs`, startOf(1, "x"), wrong)).status, 401)
        }
        const moved = startOf(1, "x", { events_url: PUBLIC_URL.replace(/\d+$/, "1") })
        assert.strictEqual((await post(`${url}/runs`, moved, token)).status, 422)
        assert.strictEqual((await post(`${url}/runs`, startOf(1, "x"), token)).status, 202)
      }
    } finally {
      await one?.stop()
      await other?.stop()
    }
  })
})
