/** The extensions of the REST interface: idempotency keys, ETags, long polls, event streams, `waiting_on` and deliveries. */
import { assert, describe, it } from "vitest"
import { complete, interrupt as interruptRun, report, turnOf } from "../kit/ScriptedCore.ts"
import { eventually, mint, Service } from "../kit/Service.ts"
import { sharedSystem } from "../kit/System.ts"

const system = await sharedSystem()
const { service } = system

const body = (text: string) => ({ assistant_id: 1, input: [{ type: "text", text }] })

const interrupt = async (uuid: string) => interruptRun(await system.runOf(uuid))

describe("Idempotency-Key", () => {
  const withKey = (key: string) => ({ "idempotency-key": key })

  it("creates one task for concurrent or later retries, without counting them against the limit", async () => {
    const [token, other] = [await mint("again"), await mint("key-other")]
    const post = (request: unknown, key: string, as = token) =>
      service.call("POST", "/api/tasks", as, request, withKey(key))
    const create = (text: string, key: string) => post(body(text), key)
    const longest = "k".repeat(255)
    const answers = await Promise.all(Array.from({ length: 12 }, () => create("one", longest)))
    assert.deepStrictEqual(new Set(answers.map(({ status }) => status)), new Set([201]))
    assert.strictEqual(new Set(answers.map(({ body: { uuid } }) => uuid)).size, 1)
    const replays = answers.filter(({ headers }) => headers.get("idempotent-replayed") === "true")
    assert.strictEqual(replays.length, 11)
    for (const { headers } of answers) {
      assert.strictEqual(headers.get("location"), `/api/tasks/${answers[0]!.body.uuid}`)
    }
    // The key belongs to its user.
    assert.isNull((await post(body("one"), longest, other)).headers.get("idempotent-replayed"))

    for (const key of ["k2", "k3", "k4", "k5"]) assert.strictEqual((await create(key, key)).status, 201)
    assert.strictEqual((await create("six", "k6")).status, 429)
    const replay = await post(JSON.stringify(body("one"), null, 2), longest)
    assert.deepStrictEqual([replay.status, replay.body], [201, answers[0]!.body])
    const reused = await create("another", longest)
    assert.deepStrictEqual([reused.status, Object.keys(reused.body.errors)], [422, ["Idempotency-Key"]])
    // A refused request does not use its key.
    assert.strictEqual((await post({ assistant_id: 0 }, "k6")).status, 422)
    await complete(await system.runOf(answers[0]!.body.uuid))
    assert.strictEqual((await create("six", "k6")).status, 201)
    assert.strictEqual((await create("one", longest)).body.uuid, answers[0]!.body.uuid)
  })

  it("replays the responses of tool results and cancels after the task has changed", async () => {
    const token = await mint("resumer")
    const { uuid } = (await service.create(token, "x")).body
    const results = (output: unknown) => ({ results: [{ tool_call_id: "c1", output }] })
    const submit = (output: unknown, key: string) =>
      service.call("POST", `/api/tasks/${uuid}/tool-results`, token, results(output), withKey(key))
    assert.strictEqual((await submit(1, "r1")).status, 409)
    await interrupt(uuid)
    const answers = await Promise.all([submit(1, "r1"), submit(1, "r1"), submit(1, "r1")])
    assert.deepStrictEqual(answers.map(({ status }) => status), [200, 200, 200])
    assert.strictEqual(answers.filter(({ headers }) => headers.has("idempotent-replayed")).length, 2)
    assert.strictEqual((await submit(1, "r2")).status, 409)
    assert.strictEqual((await submit(2, "r1")).status, 422)

    const second = (await service.create(token, "y")).body.uuid
    await interrupt(second)
    const cancel = (key: string, of = second) =>
      service.call("POST", `/api/tasks/${of}/cancel`, token, { reason: "no" }, withKey(key))
    assert.strictEqual((await cancel("r1")).status, 422)
    assert.strictEqual((await cancel("c1")).headers.get("idempotent-replayed"), null)
    const again = await cancel("c1")
    assert.deepStrictEqual([again.status, again.body], [200, { uuid: second, status: "canceled" }])
    assert.strictEqual(again.headers.get("idempotent-replayed"), "true")
    assert.strictEqual((await cancel("c1", uuid)).status, 422)
    assert.strictEqual((await cancel("c2")).status, 409)
  })
})

describe("GET /api/tasks/{uuid}", () => {
  it("returns an ETag of the version, and 304 while the task is unchanged", async () => {
    const token = await mint("reader")
    const { uuid } = (await service.create(token, "x")).body
    const read = (tag?: string) =>
      service.call("GET", `/api/tasks/${uuid}`, token, undefined, tag === undefined ? {} : { "if-none-match": tag })
    const first = await read()
    const etag = first.headers.get("etag") ?? ""
    assert.match(etag, /^"[^"]+"$/)
    for (const tag of [etag, `W/${etag}`, `"other", ${etag}`, "*"]) {
      const answer = await read(tag)
      assert.deepStrictEqual([answer.status, answer.body, answer.headers.get("etag")], [304, "", etag], tag)
      assert.strictEqual(answer.headers.get("cache-control"), first.headers.get("cache-control"))
    }
    assert.strictEqual((await read(`"other"`)).status, 200)
    await report(await system.runOf(uuid), { type: "progress", turn: turnOf("so far") })
    const changed = await read(etag)
    assert.strictEqual(changed.status, 200)
    assert.notStrictEqual(changed.headers.get("etag"), etag)
  })

  it("returns waiting_on only with include=waiting_on", async () => {
    const token = await mint("curious")
    const { uuid } = (await service.create(token, "x", { max_execution_time: 3600 })).body
    const waitingOn = async () =>
      (await service.call("GET", `/api/tasks/${uuid}?include=waiting_on`, token)).body.waiting_on
    const created = Date.parse((await service.get(token, uuid)).body.created_at)
    const pending = await waitingOn()
    assert.deepStrictEqual([pending.party, pending.for], ["core", "acceptance"])
    assert.strictEqual(Date.parse(pending.until) - created, 30_000)
    const run = await system.runOf(uuid)
    await report(run, { type: "processing" })
    const processing = await waitingOn()
    assert.deepStrictEqual([processing.party, processing.for], ["core", "result"])
    assert.strictEqual(Date.parse(processing.until) - created, 3_600_000)
    await interrupt(uuid)
    const interrupted = await waitingOn()
    assert.deepStrictEqual([interrupted.party, interrupted.for], ["client", "tool_results"])
    await service.call("POST", `/api/tasks/${uuid}/cancel`, token)
    assert.isNull(await waitingOn())
    assert.notProperty((await service.get(token, uuid)).body, "waiting_on")
  })
})

describe("GET /api/tasks/{uuid}?wait=", () => {
  const wait = (of: Service, token: string, uuid: string, seconds: number, tag?: string) =>
    of.call("GET", `/api/tasks/${uuid}?wait=${seconds}`, token, undefined, tag ? { "if-none-match": tag } : {})

  it("holds the response until the task is interrupted or terminal, at most for the requested time", async () => {
    const token = await mint("waiter")
    const { uuid } = (await service.create(token, "x")).body
    const run = await system.runOf(uuid)
    const started = performance.now()
    const answers = Array.from({ length: 50 }, () => wait(service, token, uuid, 60))
    const short = await wait(service, token, uuid, 1)
    assert.deepStrictEqual([short.status, short.body.status], [200, "pending"])
    assert.isAtLeast(performance.now() - started, 1000)
    // These changes do not end the wait.
    await report(run, { type: "processing" })
    await report(run, { type: "progress", turn: turnOf("so far") })
    await interrupt(uuid)
    const seen = await Promise.all(answers)
    assert.deepStrictEqual(new Set(seen.map(({ body: { status } }) => status)), new Set(["interrupted"]))
    assert.isBelow(performance.now() - started, 30_000)
    assert.strictEqual((await wait(service, token, uuid, 60)).body.status, "interrupted")
    await service.call("POST", `/api/tasks/${uuid}/cancel`, token)
    assert.strictEqual((await wait(service, token, uuid, 60)).body.status, "canceled")
  })

  it("returns any change since the client's version, or 304 after the requested time", async () => {
    const token = await mint("version-waiter")
    const { uuid } = (await service.create(token, "x")).body
    const run = await system.runOf(uuid)
    const etag = (await service.get(token, uuid)).headers.get("etag") ?? ""
    assert.strictEqual((await wait(service, token, uuid, 1, etag)).status, 304)
    const waiting = wait(service, token, uuid, 60, etag)
    await report(run, { type: "processing" })
    const answer = await waiting
    assert.deepStrictEqual([answer.status, answer.body.status], [200, "processing"])
    // An outdated version gets an immediate response.
    assert.strictEqual((await wait(service, token, uuid, 60, etag)).body.status, "processing")
    await complete(run)
    const ended = (await service.get(token, uuid)).headers.get("etag") ?? ""
    assert.strictEqual((await wait(service, token, uuid, 60, ended)).status, 304)
  })

  it("returns a change made on another node, and returns immediately when its own node stops", async () => {
    const other = await Service.start(system.settings)
    const token = await mint("across")
    const { uuid } = (await service.create(token, "x")).body
    const run = await system.runOf(uuid)
    const waiting = wait(other, token, uuid, 60, (await other.get(token, uuid)).headers.get("etag") ?? "")
    // A later request to the other node has been served, so the wait has begun.
    await other.get(token, uuid)
    const started = performance.now()
    await report(run, { type: "processing" })
    const answer = await waiting
    assert.strictEqual(answer.body.status, "processing")
    // Rows are compared every 5 s, so only a notification can be this fast.
    assert.isBelow(performance.now() - started, 4000)

    const held = wait(other, token, uuid, 60)
    await other.get(token, uuid)
    const stopping = other.stop()
    const released = await held
    assert.deepStrictEqual([released.status, released.body.status], [200, "processing"])
    await stopping
    assert.isBelow(performance.now() - started, 30_000)
  })
})

describe("the event stream", () => {
  interface Sent {
    readonly id: string
    readonly event: string
    readonly data: { readonly uuid: string; readonly status: string; readonly occurred_at: string }
  }

  const parse = (text: string): ReadonlyArray<Sent> =>
    text.split("\n\n").filter((block) => block.includes("data: ")).map((block) => {
      const fields = Object.fromEntries(block.split("\n").map((line) => line.split(/: (.*)/s, 2)))
      return { id: fields["id"], event: fields["event"], data: JSON.parse(fields["data"]) }
    })

  const open = (token: string, uuid: string, headers: Record<string, string> = {}, signal?: AbortSignal) =>
    fetch(`${service.url}/api/tasks/${uuid}/events`, {
      headers: { authorization: `Bearer ${token}`, ...headers },
      ...(signal === undefined ? {} : { signal })
    })

  it("sends every transition and progress event, ends after the terminal one, and replays missed ones", async () => {
    const token = await mint("listener")
    const { uuid } = (await service.create(token, "x")).body
    const run = await system.runOf(uuid)
    const live = await open(token, uuid)
    assert.strictEqual(live.status, 200)
    assert.strictEqual(live.headers.get("content-type"), "text/event-stream")
    const ahead = await open(token, uuid, { "last-event-id": "99" })
    await report(run, { type: "processing" })
    await report(run, { type: "progress", turn: turnOf("x".repeat(1024)) })
    await interrupt(uuid)
    const results = { results: [{ tool_call_id: "c1", output: 1 }] }
    await service.call("POST", `/api/tasks/${uuid}/tool-results`, token, results)
    await complete(await system.runOf(uuid, run))
    const names = ["pending", "processing", "progress", "interrupted", "processing", "completed"]
    const received = parse(await live.text())
    assert.deepStrictEqual(received.map(({ event }) => event), names)
    assert.deepStrictEqual(received.map(({ id }) => Number(id)), [0, 1, 2, 3, 4, 5])
    assert.deepStrictEqual(
      received.map(({ data }) => data.status),
      names.map((name) => name === "progress" ? "processing" : name)
    )
    for (const { data } of received) assert.match(data.occurred_at, /\.\d{6}Z$/)

    assert.deepStrictEqual(parse(await ahead.text()), received.slice(1))
    assert.deepStrictEqual(parse(await (await open(token, uuid)).text()), received)
    const missed = await open(token, uuid, { "last-event-id": "2" })
    assert.deepStrictEqual(parse(await missed.text()), received.slice(3))
    // No event is left, so a client that reconnects automatically gets 204 and stops.
    assert.strictEqual((await open(token, uuid, { "last-event-id": "5" })).status, 204)
    assert.strictEqual((await open(await mint("eavesdropper"), uuid)).status, 403)
  })

  it("returns 429 beyond the limit per user, and a disconnect frees a slot", async () => {
    const token = await mint("many")
    const { uuid } = (await service.create(token, "x")).body
    const abort = new AbortController()
    const streams = await Promise.all(Array.from({ length: 1000 }, () => open(token, uuid, {}, abort.signal)))
    assert.deepStrictEqual(new Set(streams.map(({ status }) => status)), new Set([200]))
    const refused = await eventually(() => open(token, uuid, {}, abort.signal), ({ status }) => status === 429)
    assert.match(refused.headers.get("retry-after") ?? "", /^\d+$/)
    abort.abort()
    const again = new AbortController()
    await eventually(() => open(token, uuid, {}, again.signal), ({ status }) => status === 200)
    again.abort()
  })
})
