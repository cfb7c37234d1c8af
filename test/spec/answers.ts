/** Success statuses, fields and headers of the endpoints; texts of `error`; webhooks; retention. */
import { createHmac } from "node:crypto"
import { assert, describe, it } from "vitest"
import { eventually } from "../kit/Service.ts"
import { use } from "../kit/suite.ts"
import { type Door, Gateway, type Post } from "./Gateway.ts"
import { hold } from "./transitions.ts"

const timestamp = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/
const uuidPattern = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/
const turn = { output: [{ type: "text", text: "half" }], messages: [], metadata: { model: "m" } }

const endpoints = (gateway: Gateway) => {
  it("POST /api/tasks is 201 with Location; the task has exactly its fields in every status", async () => {
    const created = await gateway.create(await gateway.user())
    const { uuid } = created.body
    assert.match(uuid, uuidPattern)
    assert.strictEqual(created.status, 201)
    assert.deepStrictEqual(created.body, { uuid, status: "pending", max_execution_time: 86_400 })
    assert.strictEqual(created.headers.get("location"), `/api/tasks/${uuid}`)
    assert.isOk(created.headers.get("x-request-id"))
    for (const status of ["pending", "processing", "interrupted", "completed", "failed", "canceled"] as const) {
      const held = await hold(gateway, status)
      const { body, headers, status: code } = await gateway.get(held.token, held.uuid)
      assert.strictEqual(code, 200)
      assert.isOk(headers.get("etag"))
      const more = status === "interrupted" ? ["pending_tool_calls"] : []
      assert.hasAllKeys(body, ["uuid", "status", "turn", "error", "created_at", "completed_at", ...more])
      assert.match(body.created_at, timestamp)
      const isFinal = status === "completed" || status === "failed" || status === "canceled"
      if (isFinal) assert.match(body.completed_at, timestamp)
      else assert.isNull(body.completed_at)
      const { turn: _, ...summary } = body
      assert.deepStrictEqual((await gateway.call("GET", "/api/tasks", held.token)).body, {
        data: [summary],
        meta: { current_page: 1, per_page: 25, last_page: 1, total: 1 }
      })
    }
  })

  it("POST /api/files is 201, and the download needs no token", async () => {
    const token = await gateway.user()
    const uploaded = await gateway.upload(token, "hello.txt", "text/plain", "hello")
    assert.strictEqual(uploaded.status, 201)
    const base = await gateway.call("GET", "/api/storage/base", token)
    assert.strictEqual(base.status, 200)
    assert.hasAllKeys(base.body, ["url"])
    assert.notMatch(base.body.url, /\/$/)
    const file = await gateway.service.fetch(`${base.body.url}/${uploaded.body.file.provider_data.path}`)
    assert.strictEqual(await file.text(), "hello")
  })

  it("the user's interrupted tasks are canceled together, and no other user's", async () => {
    const token = await gateway.user()
    const uuids: Array<string> = []
    for (let count = 0; count < 3; count++) uuids.push((await gateway.create(token)).body.uuid)
    for (const uuid of uuids.slice(1)) {
      const tool_calls = [{ id: "c1", name: "look", arguments: {} }]
      await gateway.report(await gateway.service.run(uuid), { type: "interrupted", tool_calls })
    }
    const other = await hold(gateway, "interrupted")
    const { body, status } = await gateway.call("POST", "/api/tasks/cancel-interrupted", token)
    assert.strictEqual(status, 200)
    assert.strictEqual(body.canceled, 2)
    assert.sameMembers(body.uuids, uuids.slice(1))
    assert.hasAllKeys(body, ["canceled", "uuids"])
    assert.strictEqual((await gateway.get(other.token, other.uuid)).body.status, "interrupted")
    assert.strictEqual((await gateway.call("GET", "/api/tasks", other.token)).body.meta.total, 1)
  })

  it("a user sees only tasks of their own", async () => {
    const held = await hold(gateway, "completed")
    const stranger = await gateway.user()
    assert.strictEqual((await gateway.call("GET", "/api/tasks", stranger)).body.meta.total, 0)
    assert.strictEqual((await gateway.get(stranger, held.uuid)).status, 403)
    // Another token of the same user.
    assert.strictEqual((await gateway.get(await gateway.service.token(held.sub, { jti: "2" }), held.uuid)).status, 200)
  })
}

const texts = (gateway: Gateway, door: Door) => {
  const reports: ReadonlyArray<readonly [object, string]> = [
    [{ code: "assistant_not_found" }, "Assistant is not available"],
    [{ code: "payment_required" }, "Insufficient balance"],
    [{ code: "token_revoked" }, "Token revoked"],
    [{ code: "internal" }, "Task processing failed"],
    [{ code: "internal", message: "The model is overloaded" }, "The model is overloaded"]
  ]
  for (const [failure, error] of reports) {
    it(`error: ${error} (${JSON.stringify(failure)})`, async () => {
      const { run, token, uuid } = await hold(gateway, "processing")
      await gateway.report(run, { type: "failed", ...failure })
      const { body } = await gateway.get(token, uuid)
      assert.deepStrictEqual([body.status, body.error, body.turn], ["failed", error, null])
    })
  }

  it("a core that refuses the run fails the task", async () => {
    gateway.service.answerRuns(400)
    const token = await gateway.user()
    const { uuid } = (await gateway.create(token)).body
    assert.strictEqual((await gateway.until(token, uuid, "failed")).error, "Task processing failed")
    gateway.service.answerRuns(202)
  })

  it("a token that was revoked fails a pending task when it would start, and an interrupted one takes the token of its results", async () => {
    const pending = await hold(gateway, "pending")
    await gateway.revoke(pending.token)
    const started = await gateway.report(pending.run, { type: "processing" })
    assert.deepStrictEqual([started.status, started.body.status], [409, "failed"])
    const other = await gateway.service.token(pending.sub, { jti: "2" })
    const { body } = await gateway.get(other, pending.uuid)
    assert.deepStrictEqual([body.status, body.error], ["failed", "Token revoked"])

    const { run, sub, token, uuid } = await hold(gateway, "interrupted")
    await gateway.revoke(token)
    const fresh = await gateway.service.token(sub, { jti: "2" })
    const results = { results: [{ tool_call_id: "c1", output: 1 }] }
    assert.strictEqual((await gateway.call("POST", `/api/tasks/${uuid}/tool-results`, token, results)).status, 401)
    assert.strictEqual((await gateway.call("POST", `/api/tasks/${uuid}/tool-results`, fresh, results)).status, 200)
    const resumed = await gateway.service.run(uuid, run)
    assert.strictEqual((await gateway.report(resumed, { type: "completed", turn })).status, 200)
    // The run before the interrupt is over.
    assert.strictEqual((await gateway.report(run, { type: "completed", turn })).status, 409)
  })

  it("the time limit counts from creation and leaves partial output in `turn`", async () => {
    const { run, token, uuid } = await hold(gateway, "processing", { max_execution_time: door.limit })
    await gateway.report(run, { type: "progress", turn })
    await gateway.service.pass(door.limit)
    const task = await gateway.until(token, uuid, "failed")
    assert.deepStrictEqual([task.error, task.turn], [`Task exceeded maximum execution time (${door.limit}s)`, turn])
    const seconds = (Date.parse(task.completed_at) - Date.parse(task.created_at)) / 1000
    assert.isAtLeast(seconds, door.limit)
    // A machine under load delays a process by seconds; the suites that measure a service bound that.
    if (door.isVirtual) assert.isAtMost(seconds, door.limit + 1)
    await eventually(async () => gateway.service.stops(run), ({ length }) => length === 1)
  })
}

const coreAnswers = (gateway: Gateway) => {
  for (const status of [408, 429, 500, 502, 503, 504]) {
    it(`a core that answers ${status} has taken nothing: the run is offered again`, async () => {
      gateway.service.answerRuns(status)
      const token = await gateway.user()
      const { uuid } = (await gateway.create(token)).body
      await eventually(async () => gateway.service.starts(uuid), (count) => count >= 2)
      gateway.service.answerRuns(202)
      assert.strictEqual((await gateway.get(token, uuid)).body.status, "pending")
      const run = await gateway.service.run(uuid)
      assert.strictEqual((await gateway.report(run, { type: "completed", turn })).body.status, "completed")
    })
  }

  it("a core that answers anything else but 2xx fails the task at the first attempt", async () => {
    for (const status of [302, 400, 403, 410]) {
      gateway.service.answerRuns(status)
      const token = await gateway.user()
      const { uuid } = (await gateway.create(token)).body
      assert.strictEqual((await gateway.until(token, uuid, "failed")).error, "Task processing failed", String(status))
      assert.strictEqual(gateway.service.starts(uuid), 1, String(status))
    }
    gateway.service.answerRuns(202)
  })
}

const hmac = (body: string, secret: string) => createHmac("sha256", secret).update(body).digest("hex")

const webhooks = (gateway: Gateway) => {
  const first = (uuid: string): Promise<Post> =>
    eventually(async () => gateway.service.posts(uuid), ({ length }) => length > 0).then(([post]) => post!)

  it("the body is what GET returns, signed over its bytes", async () => {
    const secret = "s3cret ✓"
    for (const status of ["interrupted", "completed", "failed"] as const) {
      const { token, uuid } = await hold(gateway, status, { callback_secret: secret })
      const { body, headers } = await first(uuid)
      assert.deepStrictEqual(JSON.parse(body), (await gateway.get(token, uuid)).body)
      assert.strictEqual(headers["x-task-uuid"], uuid)
      assert.strictEqual(headers["x-signature"], hmac(body, secret))
      assert.strictEqual(headers["content-type"], "application/json")
      assert.match(String(headers["webhook-timestamp"]), /^\d{10}$/)
      assert.isOk(headers["webhook-id"])
      assert.match(String(headers["webhook-signature"]), /^v1,/)
    }
  })

  it("has no signature without a secret, and none is sent without a URL", async () => {
    const { uuid } = await hold(gateway, "completed")
    const { headers } = await first(uuid)
    assert.notProperty(headers, "x-signature")
    assert.notProperty(headers, "webhook-signature")
    const silent = await hold(gateway, "completed", { callback_url: null, callback_secret: "s" })
    assert.deepStrictEqual(
      (await gateway.call("GET", `/api/tasks/${silent.uuid}/deliveries`, silent.token)).body.data,
      []
    )
  })
}

const retries = (gateway: Gateway) => {
  it("five attempts of the same bytes, 10, 30, 60 and 120 s apart, while the target does not answer 2xx", async () => {
    for (const status of [500, 301, 404]) {
      gateway.service.answerPosts(status)
      const { uuid } = await hold(gateway, "completed", { callback_secret: "s" })
      await gateway.service.pass(600)
      const posts = gateway.service.posts(uuid)
      assert.lengthOf(posts, 5)
      const delays = posts.slice(1).map(({ at }, n) => (at - posts[n]!.at) / 1000)
      for (const [n, least] of [10, 30, 60, 120].entries()) {
        assert.isAtLeast(delays[n]!, least)
        assert.isAtMost(delays[n]!, least * 1.2)
      }
      const unchanging = ({ body, headers }: Post) => [body, headers["x-signature"], headers["webhook-id"]]
      for (const post of posts) assert.deepStrictEqual(unchanging(post), unchanging(posts[0]!))
    }
    gateway.service.answerPosts(299)
    const { uuid } = await hold(gateway, "completed")
    await gateway.service.pass(600)
    assert.lengthOf(gateway.service.posts(uuid), 1)
  })
}

const retention = (door: Door) => {
  it("keeps completed, failed and canceled tasks for the retention, then deletes them; no active task", async () => {
    const gateway = await Gateway.start(door, "retention")
    try {
      const ended = await Promise.all(
        (["completed", "failed", "canceled"] as const).map((status) => hold(gateway, status))
      )
      const active = await hold(gateway, "interrupted")
      await gateway.service.pass(door.retention / 2)
      for (const { status, token, uuid } of ended) {
        assert.strictEqual((await gateway.get(token, uuid)).body.status, status)
      }
      // The kit deletes once an hour.
      await gateway.service.pass(door.retention / 2 + (door.isVirtual ? 3600 : 0))
      for (const { status, token, uuid } of ended) {
        await eventually(() => gateway.get(token, uuid), (answer) => answer.status === 404)
        assert.strictEqual((await gateway.call("GET", "/api/tasks", token)).body.meta.total, 0, status)
      }
      // In a month, its own time limit has ended it.
      const left = await gateway.get(active.token, active.uuid)
      assert.deepStrictEqual([left.status, left.body.status], [200, door.isVirtual ? "failed" : "interrupted"])
    } finally {
      await gateway.close()
    }
  })
}

export const answers = (door: Door) => {
  describe("answers", async () => {
    const gateway = await use(Gateway.start(door))
    endpoints(gateway)
    texts(gateway, door)
    webhooks(gateway)
    // Minutes of real time.
    if (door.isVirtual) retries(gateway)
    // The kit's core has no socket.
    else coreAnswers(gateway)
  })
  describe("retention", () => {
    retention(door)
  })
}
