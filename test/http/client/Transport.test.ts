/** The Promise client against a failing service or network, on real sockets. */
import { getEventListeners } from "node:events"
import { afterEach, assert, beforeEach, describe, it, vi } from "vitest"
import * as ApiErrors from "../../../src/http/client/promise/ApiErrors.ts"
import { read } from "../../../src/http/client/promise/EventStream.ts"
import type { TaskPage } from "../../../src/http/client/promise/TaskPages.ts"
import { TaskServiceClient } from "../../../src/http/client/promise/TaskServiceClient.ts"
import type { Retry } from "../../../src/http/client/promise/Transport.ts"
import { cpuTimer } from "../../kit/cpu.ts"
import { answerJson as answer } from "../../kit/LoopbackServer.ts"
import { ScriptedService } from "../../kit/ScriptedService.ts"

let service: ScriptedService
let client: TaskServiceClient

beforeEach(async () => {
  service = await new ScriptedService().listen()
  client = new TaskServiceClient({ baseUrl: `${service.url}/`, token: "t" })
})

afterEach(() => service.close())

const body = { assistant_id: 1, input: [{ type: "text", text: "Why?" }] } as const
const task = { uuid: "u", status: "completed", turn: null, error: null, created_at: "", completed_at: "" }

const event = (revision: number, status: string) =>
  `id: ${revision}\nevent: ${status}\ndata: ${JSON.stringify({ uuid: "u", revision, status, occurred_at: "" })}\n\n`
const open = { "content-type": "text/event-stream" }

const rejection = async <E extends Error>(
  promise: PromiseLike<unknown>,
  // oxlint-disable-next-line typescript/no-explicit-any -- constructors of any arguments
  kind: new(...args: Array<any>) => E
): Promise<E> => {
  const reason = await promise.then(() => assert.fail("resolved"), (error: unknown) => error)
  assert.instanceOf(reason, kind)
  return reason as E
}

describe("errors", () => {
  const kinds = [
    [401, ApiErrors.AuthenticationError],
    [403, ApiErrors.PermissionDeniedError],
    [404, ApiErrors.NotFoundError],
    [409, ApiErrors.ConflictError],
    [413, ApiErrors.ApiError],
    [422, ApiErrors.ValidationError]
  ] as const
  for (const [status, kind] of kinds) {
    it(`rejects with ${kind.name} on ${status} without a retry`, async () => {
      service.script = (_, response) =>
        answer(response, status, { message: "No.", errors: { input: ["bad"] } }, { "x-request-id": "r-1" })
      const error = await rejection(client.tasks.get("u"), kind)
      assert.deepStrictEqual([error.status, error.message, error.requestId], [status, "No.", "r-1"])
      if (error instanceof ApiErrors.ValidationError) assert.deepStrictEqual(error.errors, { input: ["bad"] })
      assert.lengthOf(service.received, 1)
    })
  }

  it("names an option that is missing", () => {
    const options = { baseUrl: service.url, token: "t" }
    for (const name of ["baseUrl", "token"]) {
      // oxlint-disable-next-line typescript/no-explicit-any -- a program without types
      assert.throws(() => new TaskServiceClient({ ...options, [name]: undefined } as any), `${name} must be a`)
    }
  })

  it("takes a 404 as success when a deletion is repeated, but not at first", async () => {
    service.script = (_, response) =>
      service.received.length === 1 ? response.destroy() : answer(response, 404, { message: "No." })
    await client.tasks.delete("u")
    assert.lengthOf(service.received, 2)
    await rejection(client.tasks.delete("u"), ApiErrors.NotFoundError)
  })

  it("rejects with an ApiError when the response is not from the service", async () => {
    service.script = (_, response) => response.writeHead(418).end("<html>teapot")
    assert.strictEqual((await rejection(client.tasks.get("u"), ApiErrors.ApiError)).message, "The service answered 418")
  })

  it("rejects with a ConnectionError when the service is unreachable", async () => {
    const lost = new TaskServiceClient({ baseUrl: "http://127.0.0.1:1", token: "t", maxRetries: 0 })
    assert.notInstanceOf(await rejection(lost.tasks.get("u"), ApiErrors.ConnectionError), ApiErrors.TimeoutError)
  })

  it("says in a browser what to check when another origin may have been refused", async () => {
    vi.stubGlobal("location", { origin: "https://app.example" })
    const lost = new TaskServiceClient({ baseUrl: "http://127.0.0.1:1", token: "t", maxRetries: 0 })
    const { message } = await rejection(lost.tasks.get("u"), ApiErrors.ConnectionError)
    vi.unstubAllGlobals()
    assert.match(message, /CORS_ORIGINS .* https:\/\/app\.example/)
  })

  it("is a promise of the first page, too", async () => {
    service.script = (_, response) => answer(response, 200, { data: [], meta: { current_page: 1, last_page: 1 } })
    const list: Promise<TaskPage> = client.tasks.list()
    assert.deepStrictEqual((await Promise.all([list, client.tasks.list()])).map(({ data }) => data), [[], []])
    let isOver = false
    await client.tasks.list().finally(() => isOver = true)
    assert.isTrue(isOver)
    service.script = (_, response) => answer(response, 404, {})
    assert.instanceOf(await client.tasks.list().catch((error: unknown) => error), ApiErrors.NotFoundError)
  })

  it("rejects with a TimeoutError after the last retry has timed out", async () => {
    service.script = () => {}
    await rejection(client.tasks.get("u", { timeout: 500, maxRetries: 1 }), ApiErrors.TimeoutError)
    assert.lengthOf(service.received, 2)
  })

  it("rejects with a ConnectionError when the connection closes during the response", async () => {
    service.script = (_, response) => {
      response.writeHead(200, { "content-length": "100" }).write("{")
      setTimeout(() => response.destroy(), 20)
    }
    const error = await rejection(client.tasks.get("u", { maxRetries: 0 }), ApiErrors.ConnectionError)
    assert.notInstanceOf(error, ApiErrors.TimeoutError)
  })
})

describe("uploads", () => {
  it("declare the media type of the name, unless the caller or the content has one", async () => {
    service.script = (_, response) => answer(response, 201, {})
    await client.files.upload(new Uint8Array(1), { name: "a.PDF" })
    await client.files.upload(new Uint8Array(1), { name: "a.pdf", type: "text/plain" })
    await client.files.upload(new Blob(["x"], { type: "text/css" }), { name: "a.pdf" })
    await client.files.upload(new Uint8Array(1), { name: "a" })
    const types = service.received.map(({ body }) => /Content-Type: (\S+)/.exec(body)?.[1])
    assert.deepStrictEqual(types, ["application/pdf", "text/plain", "text/css", "application/octet-stream"])
  })
})

describe("retries", () => {
  for (const status of [408, 429, 500, 502, 503, 504]) {
    it(`retries on ${status} with the same idempotency key`, async () => {
      service.script = (_, response, number) =>
        number < 3
          ? answer(response, status, { message: "later" }, { "retry-after": "0" })
          : answer(response, 201, { uuid: "u" })
      assert.deepStrictEqual(await client.tasks.create(body), { uuid: "u" } as never)
      assert.lengthOf(service.received, 3)
      const keys = new Set(service.received.map(({ headers }) => headers["idempotency-key"]))
      assert.match([...keys].join(), /^[0-9a-f]{32}$/)
      assert.strictEqual(service.received[2]?.body, JSON.stringify(body))
    })
  }

  it("are reported to the caller, with the seconds of a 429", async () => {
    service.script = (_, response) => answer(response, 429, { message: "Too many." }, { "retry-after": "0" })
    const retries: Array<Retry> = []
    const reporting = new TaskServiceClient({
      baseUrl: service.url,
      token: "t",
      onRetry: (retry) => retries.push(retry)
    })
    const { retryAfter } = await rejection(reporting.tasks.create(body), ApiErrors.RateLimitError)
    assert.strictEqual(retryAfter, 0)
    assert.deepStrictEqual(retries.map(({ delay, number }) => [number, delay]), [[1, 0], [2, 0]])
    assert.instanceOf(retries[0]?.error, ApiErrors.RateLimitError)
    const warned = vi.spyOn(console, "warn").mockImplementation(() => {})
    await rejection(client.tasks.create(body), ApiErrors.RateLimitError)
    assert.deepStrictEqual(warned.mock.calls, [["The task service refuses the request: Too many. Retry 2 in 0 s"]])
    warned.mockRestore()
  })

  it("rejects after the maximum number of retries", async () => {
    service.script = (_, response) => answer(response, 503, { message: "down" }, { "retry-after": "0" })
    assert.strictEqual((await rejection(client.tasks.create(body), ApiErrors.ServerError)).message, "down")
    assert.lengthOf(service.received, 3)
    await rejection(client.tasks.create(body, { maxRetries: 0 }), ApiErrors.ServerError)
    assert.lengthOf(service.received, 4)
  })

  it("waits for Retry-After, and backs off without it", async () => {
    service.script = (_, response, number) =>
      number === 1
        ? answer(response, 429, { message: "later" }, { "retry-after": "1" })
        : number === 2
        ? answer(response, 500, {})
        : answer(response, 200, task)
    await client.tasks.get("u")
    const [first, second, third] = service.received.map(({ at }) => at) as [number, number, number]
    assert.isAtLeast(second - first, 990)
    assert.isAtLeast(third - second, 700)
  })

  it("generates an idempotency key for each request, or uses the caller's", async () => {
    await client.tasks.create(body)
    await client.tasks.create(body)
    await client.tasks.cancel("u", { reason: "r", idempotencyKey: "mine" })
    const [first, second, third] = service.received.map(({ headers }) => headers["idempotency-key"])
    assert.notStrictEqual(first, second)
    assert.strictEqual(third, "mine")
  })
})

describe("signals and tokens", () => {
  it("aborts a request, a retry delay and waitFor", async () => {
    service.script = () => {}
    const reason = new Error("enough")
    const abortSoon = () => {
      const controller = new AbortController()
      setTimeout(() => controller.abort(reason), 30)
      return controller.signal
    }
    assert.strictEqual(
      (await rejection(client.tasks.get("u", { signal: abortSoon() }), ApiErrors.AbortError)).cause,
      reason
    )
    await rejection(client.tasks.waitFor("u", { signal: abortSoon() }), ApiErrors.AbortError)
    service.script = (_, response) => answer(response, 503, {}, { "retry-after": "30" })
    await rejection(client.tasks.get("u", { signal: abortSoon() }), ApiErrors.AbortError)
    const before = service.received.length
    await rejection(client.tasks.get("u", { signal: AbortSignal.abort(reason) }), ApiErrors.AbortError)
    assert.lengthOf(service.received, before)
  })

  it("requests a token for each attempt", async () => {
    let count = 0
    const fresh = new TaskServiceClient({ baseUrl: service.url, token: async () => `token-${++count}` })
    service.script = (_, response, number) => answer(response, number === 1 ? 500 : 200, {}, { "retry-after": "0" })
    await fresh.tasks.get("u")
    assert.deepStrictEqual(service.received.map(({ headers }) => headers.authorization), [
      "Bearer token-1",
      "Bearer token-2"
    ])
  })

  it("rejects with the error of the token function, without a request", async () => {
    const expired = new Error("log in again")
    const lost = new TaskServiceClient({ baseUrl: service.url, token: () => Promise.reject(expired) })
    for (const call of [lost.tasks.get("u"), lost.tasks.waitFor("u"), lost.tasks.events("u").next()]) {
      assert.strictEqual(await rejection(call, Error), expired)
    }
    assert.lengthOf(service.received, 0)
  })

  it("leaves no listener on a signal that lives longer than the calls", async () => {
    const { signal } = new AbortController()
    service.script = ({ path }, response, number) =>
      path.endsWith("/events")
        ? response.writeHead(200, open).end(event(0, "completed"))
        : answer(response, number === 1 ? 503 : 200, task, { "retry-after": "0" })
    await client.tasks.get("u", { signal })
    await client.tasks.waitFor("u", { signal })
    for await (const _ of client.tasks.events("u", { signal })) assert.lengthOf(getEventListeners(signal, "abort"), 1)
    assert.lengthOf(getEventListeners(signal, "abort"), 0)
  })
})

describe("events", () => {
  it("resumes after the last received event when the stream breaks, ends early or returns 503", async () => {
    service.script = (_, response, number) => {
      if (number === 1) {
        response.writeHead(200, open).write(`retry: 2000\n\n: hello\n\n${event(0, "pending")}id: 1\r\nevent: proc`)
        setTimeout(() => response.destroy(), 20)
      } else if (number === 2) response.writeHead(200, open).end(event(1, "processing").replaceAll("\n", "\r\n"))
      else if (number === 3) answer(response, 503, {}, { "retry-after": "0" })
      else response.writeHead(200, open).end(event(2, "completed"))
    }
    const seen: Array<string> = []
    for await (const { event, revision } of client.tasks.events("u")) seen.push(`${revision} ${event}`)
    assert.deepStrictEqual(seen, ["0 pending", "1 processing", "2 completed"])
    const resumed = service.received.map(({ headers }) => headers["last-event-id"])
    assert.deepStrictEqual(resumed, [undefined, "0", "1", "1"])
  })

  it("ends when no events are left, and rejects when the task belongs to another user", async () => {
    service.script = (_, response) => response.writeHead(204).end()
    for await (const _ of client.tasks.events("u", { after: 7 })) assert.fail("unexpected event")
    assert.strictEqual(service.received[0]?.headers["last-event-id"], "7")
    service.script = (_, response) => answer(response, 403, { message: "No." })
    await rejection(client.tasks.events("u").next(), ApiErrors.PermissionDeniedError)
  })

  it("connects again when the service does not respond", async () => {
    service.script = (_, response, number) => {
      if (number > 1) response.writeHead(200, open).end(event(0, "completed"))
    }
    const events = client.tasks.events("u", { timeout: 200, maxRetries: 0 })
    assert.strictEqual((await events.next()).value?.event, "completed")
  })

  it("reads an event that arrives in thousands of chunks", async () => {
    const data = `{"text": "\u2028${"a".repeat(32 * 1024 * 1024)}"}`
    const bytes = new TextEncoder().encode(`event: progress\r\ndata:${data}\r\n\r\n`)
    let at = 0
    const body = new ReadableStream<Uint8Array>({
      pull: (controller) =>
        at < bytes.length ? controller.enqueue(bytes.subarray(at, at += 16_384)) : controller.close()
    })
    const cpu = cpuTimer()
    const events: Array<string> = []
    for await (const found of read(body, () => {})) events.push(found.data)
    assert.isTrue(events.length === 1 && events[0] === data)
    // Scanning the whole event again at each chunk takes minutes.
    assert.isBelow(cpu(), 10_000)
  })

  it("closes the connection when the consumer stops", async () => {
    const closed = new Promise<unknown>((resolve) => {
      service.script = (_, response) => {
        response.on("close", () => resolve("closed"))
        response.writeHead(200, open).write(event(0, "pending"))
      }
    })
    for await (const _ of client.tasks.events("u")) break
    assert.strictEqual(await closed, "closed")
  })
})

describe("waiting", () => {
  it("polls at most once a second when the service does not hold the long poll", async () => {
    service.script = (_, response, number) =>
      answer(response, 200, number < 2 ? { ...task, status: "processing" } : task)
    assert.strictEqual((await client.tasks.waitFor("u")).status, "completed")
    const [first, second] = service.received.map(({ at }) => at) as [number, number]
    // The second counts from the call, which may reach a busy service late.
    assert.isAtLeast(second - first, 500)
    assert.strictEqual(service.received[0]?.path, "/api/tasks/u?wait=25")
  })

  it("adds the time for which the service holds a long poll to the timeout", async () => {
    service.script = (_, response) => void setTimeout(() => answer(response, 200, task), 200)
    assert.strictEqual((await client.tasks.waitFor("u", { timeout: 50, maxRetries: 0 })).status, "completed")
  })

  it("continues through an outage, but not after an error that is final", async () => {
    service.script = (_, response, number) => number === 1 ? response.destroy() : answer(response, 200, task)
    assert.strictEqual((await client.tasks.waitFor("u", { maxRetries: 0 })).status, "completed")
    service.script = (_, response) => answer(response, 404, {})
    await rejection(client.tasks.waitFor("u"), ApiErrors.NotFoundError)
  })

  it("continues when the task is no longer interrupted after its tools have run", async () => {
    service.script = ({ method, path }, response) => {
      if (path === "/api/tasks") return answer(response, 201, { uuid: "u" })
      if (method === "POST") return answer(response, 409, { message: "moved on" })
      const isFirst = service.received.filter(({ method }) => method === "GET").length === 1
      return answer(
        response,
        200,
        isFirst ? { ...task, status: "interrupted", pending_tool_calls: [{ id: "c", name: "n", arguments: {} }] } : task
      )
    }
    assert.strictEqual((await client.tasks.run(body, { tools: { n: () => 1 } })).status, "completed")
  })
})

describe("pages", () => {
  it("yields a task that moved to the next page once, and requests pages lazily", async () => {
    const page = (current_page: number, uuids: ReadonlyArray<string>) => ({
      data: uuids.map((uuid) => ({ uuid })),
      meta: { current_page, per_page: 2, last_page: 3, total: 5 }
    })
    service.script = ({ path }, response) => {
      const number = Number(new URL(path, service.url).searchParams.get("page"))
      answer(response, 200, page(number, [["a", "b"], ["b", "c"], ["d"]][number - 1] ?? []))
    }
    const seen: Array<string> = []
    for await (const { uuid } of client.tasks.list({ per_page: 2, status: ["completed", "failed"] })) seen.push(uuid)
    assert.deepStrictEqual(seen, ["a", "b", "c", "d"])
    assert.strictEqual(service.received[0]?.path, "/api/tasks?page=1&per_page=2&status=completed%2Cfailed")
    const first = await client.tasks.list()
    assert.deepStrictEqual([first.data.length, first.hasNextPage, first.meta.total], [2, true, 5])
    assert.lengthOf(service.received, 4)
  })
})
