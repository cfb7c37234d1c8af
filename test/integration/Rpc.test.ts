/** The internal interface, by POST and over a WebSocket, against one running service. */
import { Effect, Stream } from "effect"
import { once } from "node:events"
import { request } from "node:http"
import { assert, describe, it } from "vitest"
import * as Limits from "../../src/domain/Limits.ts"
import * as RpcClient from "../../src/http/client/RpcClient.ts"
import { callRpc, type Transport, useRpc } from "../kit/callRpc.ts"
import { calls } from "../kit/calls.ts"
import { pathFor } from "../kit/operations.ts"
import { complete, report, type StartedRun, toolCall, turnOf } from "../kit/ScriptedCore.ts"
import { eventually, internalToken, mint, Service } from "../kit/Service.ts"
import { use } from "../kit/suite.ts"
import { startSystem } from "../kit/System.ts"

const rotated = "the-next-internal-token"
const system = await use(startSystem({ INTERNAL_TOKENS: `${internalToken},${rotated}` }))
const { service } = system

const task = { assistant_id: 1, input: [{ type: "text", text: "Why?" }] }

const call = (tag: string, payload: object = {}) => callRpc(service, tag, payload)

/** The kind of a failure, followed by the fields that it names. */
const failure = async (tag: string, payload: object) => {
  const { _tag, errors = {}, message } = await call(tag, payload)
  const [field, ...others] = Object.keys(errors)
  if (field !== undefined && others.length === 0) assert.strictEqual(message, `${field}: ${errors[field][0]}`)
  return [_tag, ...Object.keys(errors)]
}

describe("the operations of users and of the core", () => {
  const sub = "user"
  const create = (more: object = {}) => call("Tasks.create", { sub, task, ...more })
  let events = 0
  const send = ({ run_id, task_id }: StartedRun, event: object) =>
    call("Core.report", { event: { event_id: ++events, ...event, task_id, run_id } })
  const interrupt = (run: StartedRun) => send(run, { type: "interrupted", tool_calls: [toolCall] })

  it("have the outcomes of REST", async () => {
    const ask = { task: { ...task, max_execution_time: 600 }, idempotency_key: "a-key" }
    const { uuid, ...created } = await create(ask)
    assert.deepStrictEqual(created, { status: "pending", max_execution_time: 600 })
    assert.strictEqual((await create(ask)).uuid, uuid)
    const run = await system.runOf(uuid)
    assert.deepStrictEqual(await send(run, { type: "processing" }), { status: "processing", applied: true })
    const appends = [{ index: 0, text: "One" }, { index: 1, text: " two" }]
    assert.deepStrictEqual(await send(run, { type: "progress", appends }), {
      status: "processing",
      applied: true,
      next: 2
    })
    assert.deepStrictEqual(await send(run, { type: "progress", append: { index: 5, text: "?" } }), {
      status: "processing",
      applied: false,
      next: 2
    })
    assert.deepStrictEqual(await send(run, { type: "progress", turn: turnOf("One two"), next_append: 3 }), {
      status: "processing",
      applied: true,
      next: 3
    })
    assert.deepStrictEqual(await interrupt(run), { status: "interrupted", applied: true })
    const list = await call("Tasks.list", { sub, status: ["interrupted"] })
    assert.deepStrictEqual([list.data[0].uuid, list.meta.total], [uuid, 1])
    const submit = (id: string) =>
      call("Tasks.submitToolResults", { sub, uuid, body: { results: [{ tool_call_id: id, output: { found: true } }] } })
    const { _tag, problems } = await submit("c9")
    assert.deepStrictEqual([_tag, problems.map(({ index }: { index: number }) => index)], ["ToolResultsMismatch", [
      0,
      null
    ]])
    assert.deepStrictEqual(await submit("c1"), { uuid, status: "processing" })
    const second = await system.runOf(uuid, run)
    const end = (of: StartedRun) => send(of, { type: "completed", turn: turnOf("done") })
    assert.strictEqual((await end(run))._tag, "RunSuperseded")
    assert.deepStrictEqual(await end(second), { status: "completed", applied: true })
    const { turn } = await call("Tasks.get", { sub, uuid })
    assert.deepStrictEqual(turn, turnOf("done"))

    const others: Array<string> = []
    for (let count = 0; count < 5; count++) others.push((await create()).uuid)
    assert.deepStrictEqual(await failure("Tasks.create", { sub, task }), ["TooManyActiveTasks"])
    for (const other of others) await interrupt(await system.runOf(other))
    const cancel = { sub, uuid: others[0], body: { reason: "no longer needed" } }
    assert.deepStrictEqual(await call("Tasks.cancel", cancel), { uuid: others[0], status: "canceled" })
    assert.deepStrictEqual(await failure("Tasks.cancel", cancel), ["TaskNotInterrupted"])
    const { canceled, uuids } = await call("Tasks.cancelInterrupted", { sub })
    assert.strictEqual(canceled, 4)
    assert.sameMembers(uuids, others.slice(1))
    assert.strictEqual((await call("Tasks.get", { sub, uuid: others[0] })).error, "no longer needed")
    assert.isNull(await call("Tasks.delete", { sub, uuid }))
    assert.deepStrictEqual(await failure("Tasks.delete", { sub, uuid }), ["TaskNotFound"])
  })

  it("read what REST reads", async () => {
    const { uuid } = await create({ sub: "reader" })
    const token = await mint("reader")
    const reads = calls.filter(({ operation }) => operation?.method === "GET")
    for (const { operation, payloadFor, tag } of reads) {
      const { body } = await service.call("GET", pathFor(operation!, uuid), token)
      assert.deepStrictEqual(await call(tag, payloadFor({ sub: "reader", uuid })), body, tag)
    }
    assert.includeMembers(reads.map(({ tag }) => tag), ["Tasks.get", "Tasks.list"])
  })

  it("fail with the kind of failure and its fields", async () => {
    const owner = { sub: "owner" }
    const { uuid } = await create(owner)
    const { run_id, task_id } = await system.runOf(uuid)
    const cases: ReadonlyArray<readonly [string, object, ...ReadonlyArray<string>]> = [
      [
        "Tasks.create",
        { task: { assistant_id: 0, input: [{ type: "x" }] } },
        "InvalidRequest",
        "assistant_id",
        "input.0.type"
      ],
      ["Tasks.create", { task: { ...task, callback_secret: "a\0b" } }, "InvalidRequest", "callback_secret"],
      ...[[], 1, null].map((task) => ["Tasks.create", { task }, "InvalidRequest", "body"] as const),
      ["Tasks.create", {}, "InvalidRequest", "task"],
      ["Tasks.create", { task, user_token: await mint("eve") }, "InvalidRequest", "user_token"],
      ["Tasks.create", { task, user_token: "no token" }, "InvalidRequest", "user_token"],
      ...["", "a\0b", "x".repeat(256), "\ud800"].map((sub) =>
        ["Tasks.create", { task, sub }, "InvalidRequest", "sub"] as const
      ),
      ["Tasks.get", { uuid, sub: "stranger" }, "TaskBelongsToAnother"],
      ["Tasks.cancel", { uuid, sub: "stranger", body: {} }, "TaskBelongsToAnother"],
      ["Tasks.delete", { uuid, sub: "stranger" }, "TaskBelongsToAnother"],
      ["Tasks.get", { uuid: "nonsense" }, "TaskNotFound"],
      ["Tasks.list", { status: ["sleeping"] }, "InvalidRequest", "status"],
      ["Tasks.cancel", { uuid, body: {} }, "TaskNotInterrupted"],
      ["Tasks.cancel", { uuid, body: { reason: "x".repeat(1001) } }, "InvalidRequest", "reason"],
      ["Tasks.delete", { uuid }, "TaskNotEnded"],
      ["Core.report", { event: { type: "completed", event_id: "e", task_id, run_id } }, "InvalidRequest", "turn"],
      ["Tokens.revoke", { revocation: {} }, "InvalidRequest", "jti"],
      ["Tokens.revoke", { revocation: { jti: "a", sub: "b" } }, "InvalidRequest", "sub"],
      ["Tokens.revoke", { revocation: { token: "no token" } }, "InvalidRequest", "token"]
    ]
    for (const [tag, payload, ...expected] of cases) {
      assert.deepStrictEqual(
        await failure(tag, { ...owner, ...payload }),
        expected,
        `${tag} ${JSON.stringify(payload)}`
      )
    }
  })
})

describe.each(["POST", "WebSocket"] satisfies ReadonlyArray<Transport>)("a client by %s", (transport) => {
  const refusal = <A>(
    calls: (client: RpcClient.InternalClient) => Effect.Effect<A, { readonly _tag: string }>,
    token?: string
  ) =>
    useRpc(
      service,
      (client) => Effect.match(calls(client), { onFailure: ({ _tag }) => _tag, onSuccess: () => "success" }),
      transport,
      token
    )

  it("is accepted only with one of INTERNAL_TOKENS", async () => {
    const list = (client: RpcClient.InternalClient) => client["Tasks.list"]({ sub: "someone" })
    assert.strictEqual(await refusal(list), "success")
    assert.strictEqual(await refusal(list, rotated), "success")
    for (const wrong of ["", "wrong", `${rotated}x`, rotated.slice(1), await mint("someone")]) {
      assert.strictEqual(await refusal(list, wrong), "Unauthorized", wrong)
    }
    const watch = (client: RpcClient.InternalClient) =>
      Stream.runDrain(client["Tasks.watch"]({ sub: "someone", uuid: "x" }))
    assert.strictEqual(await refusal(watch, "wrong"), "Unauthorized")
  })

  it("watches a task, resumes after the last seen event, and ends when the task ends", async () => {
    const sub = `watcher-${transport}`
    const { uuid } = (await service.create(await mint(sub), "watched")).body
    const run = await system.runOf(uuid)
    let seen = 0
    const watch = (options: { readonly after?: number }) =>
      useRpc(
        service,
        (client) =>
          RpcClient.follow(client, { sub, uuid, ...options }).pipe(
            Stream.tap(() => Effect.sync(() => seen++)),
            Stream.runCollect
          ),
        transport
      )
    const all = watch({})
    await eventually(async () => seen, (count) => count === 1)
    await report(run, { type: "processing" })
    await report(run, { type: "progress", turn: turnOf("half") })
    await complete(run, "whole")
    assert.deepStrictEqual(
      (await all).map(({ event, revision, status }) => [revision, event, status]),
      [
        [0, "pending", "pending"],
        [1, "processing", "processing"],
        [2, "progress", "processing"],
        [3, "completed", "completed"]
      ]
    )
    assert.deepStrictEqual((await watch({ after: 1 })).map(({ revision }) => revision), [2, 3])
    assert.deepStrictEqual(await watch({ after: 3 }), [])
    const stranger = (client: RpcClient.InternalClient) =>
      Stream.runDrain(client["Tasks.watch"]({ sub: "stranger", uuid }))
    assert.strictEqual(await refusal(stranger), "TaskBelongsToAnother")
  })
})

describe("the internal interface", () => {
  it("revokes tokens, and reports whether a token is revoked", async () => {
    const token = await mint("rita", { jti: "one" })
    const other = await mint("rita", { jti: "two" })
    const areRevoked = (...tokens: ReadonlyArray<object>) =>
      Promise.all(tokens.map((token) => call("Tokens.isRevoked", { token })))
    assert.deepStrictEqual(await areRevoked({ jti: "one" }), [false])
    await call("Tokens.revoke", { revocation: { token } })
    assert.deepStrictEqual(await areRevoked({ jti: "one" }, { token }, { token: other }), [true, true, false])
    assert.strictEqual((await service.create(token, "no")).status, 401)
    assert.strictEqual((await service.create(other, "yes")).status, 201)
    const refused = await failure("Tasks.create", { sub: "rita", user_token: token, task })
    assert.deepStrictEqual(refused, ["InvalidRequest", "user_token"])
    await call("Tokens.revoke", { revocation: { sub: "rita", issued_before: "2099-01-01T00:00:00Z" } })
    const users = await areRevoked({ token: other }, { jti: "x", sub: "rita" }, { jti: "x" })
    assert.deepStrictEqual(users, [true, true, false])
  })

  it("is not available to other methods", async () => {
    assert.strictEqual((await fetch(`${service.url}/rpc`)).status, 401)
    const put = await fetch(`${service.url}/rpc`, { method: "PUT" })
    assert.deepStrictEqual([put.status, put.headers.get("allow")], [405, "GET, HEAD, POST"])
  })

  it("answers small calls while the longest messages arrive slowly", async () => {
    const begin = (length: number) => {
      const sent = request(`${service.url}/rpc`, {
        method: "POST",
        headers: { authorization: `Bearer ${internalToken}`, "content-length": length }
      })
      sent.on("error", () => {}).write(" ")
      let status = 0
      const answered = once(sent, "response").then(([response]) => status = response.statusCode)
      return { sent, answered, status: () => status }
    }
    const listed = async () => assert.strictEqual((await call("Tasks.list", { sub: "someone" })).meta.total, 0)
    const longest = Limits.rpcMessageBytes
    const slow = begin(longest)
    // Its first byte has arrived.
    for (let count = 0; count < 3; count++) await listed()
    const refused = begin(Limits.rpcBytesInFlight - longest)
    assert.strictEqual(await refused.answered, 503)
    await listed()
    assert.strictEqual(slow.status(), 0)
    slow.answered.catch(() => {})
    for (const { sent } of [slow, refused]) sent.destroy()
  })

  it("does not delay a shutdown while a WebSocket watches", async () => {
    const own = await Service.start(system.settings)
    const { uuid } = (await own.create(await mint("stopper"), "long")).body
    const seen: Array<number> = []
    const watching = useRpc(
      own,
      (client) =>
        Effect.exit(
          Stream.runForEach(client["Tasks.watch"]({ sub: "stopper", uuid }), ({ revision }) =>
            Effect.sync(() => seen.push(revision)))
        ),
      "WebSocket"
    )
    await eventually(async () => seen.length, (count) => count > 0)
    const before = performance.now()
    await own.stop()
    // A connection that a stop waits for in vain holds it for 15 s.
    assert.isBelow(performance.now() - before, 10_000)
    await watching
  })
})
