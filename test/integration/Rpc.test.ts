/** One scenario through REST and through RPC, over both of its transports, against one running service. */
import { Cause, Effect, Exit, Stream } from "effect"
import { assert, describe, it } from "vitest"
import * as RpcClient from "../../src/http/client/RpcClient.ts"
import { complete, report, toolCall, turnOf } from "../kit/ScriptedCore.ts"
import { eventually, internalToken, mint, Service } from "../kit/Service.ts"
import { use } from "../kit/suite.ts"
import { startSystem } from "../kit/System.ts"
import {
  type Call,
  Client,
  type Driver,
  open,
  type Outcome,
  overRest,
  overRpc,
  type Transport
} from "../kit/TaskDrivers.ts"

const rotated = "the-next-internal-token"
const system = await use(startSystem({ INTERNAL_TOKENS: `${internalToken},${rotated}` }))
const { service } = system

const question = { assistant_id: 1, input: [{ type: "text", text: "Why?" }] }

/** Everything that a client, an internal service and a core do. Returns the outcome of each step. */
const scenario = async (driver: Driver, stranger: Driver) => {
  const steps: Array<[string, unknown]> = []
  const shapeOf = (outcome: Outcome) =>
    "ok" in outcome
      ? {
        ok: JSON.parse(
          JSON.stringify(outcome.ok).replaceAll(/[0-9a-f]{8}-[0-9a-f-]{27}/g, "UUID").replaceAll(
            /\d{4}-\d\d-\d\dT[\d:.]+Z/g,
            "MOMENT"
          )
        )
      }
      : outcome
  const step = async (name: string, outcome: Promise<Outcome>): Promise<any> => {
    const found = await outcome
    steps.push([name, shapeOf(found)])
    return "ok" in found ? found.ok : undefined
  }

  await step("a body with two broken fields", driver.create({ assistant_id: 0, input: [{ type: "x" }] }))
  await step("a NUL character", driver.create({ ...question, callback_secret: "a\0b" }))
  await step("a body that is none", driver.create([] as never))
  const first = await step("create", driver.create({ ...question, max_execution_time: 600 }, "a-key"))
  const replay = await step("the same key", driver.create({ ...question, max_execution_time: 600 }, "a-key"))
  assert.strictEqual(replay.uuid, first.uuid)
  const run = await system.runOf(first.uuid)
  await step("another's", stranger.get(first.uuid))
  await step("another's cancel", stranger.cancel(first.uuid, {}))
  await step("no one's", driver.get("nonsense"))
  await step("an unknown status", driver.list(["sleeping"]))
  await step("cancel of a pending task", driver.cancel(first.uuid, {}))
  await step("delete of a pending task", driver.delete(first.uuid))
  await step("another's delete", stranger.delete(first.uuid))
  await step("an event that is none", driver.report(run, { type: "progress" }))
  await step("processing", driver.report(run, { type: "processing" }))
  await step("interrupted", driver.report(run, { type: "interrupted", tool_calls: [toolCall], state: { at: 1 } }))
  await step("list", driver.list(["interrupted"]))
  await step("wrong results", driver.submit(first.uuid, [{ tool_call_id: "c9", output: 1 }]))
  await step("results", driver.submit(first.uuid, [{ tool_call_id: "c1", output: { found: true } }]))
  const second = await system.runOf(first.uuid, run)
  await step("the old run", driver.report(run, { type: "completed", turn: turnOf("late") }))
  await step("completed", driver.report(second, { type: "completed", turn: turnOf("done") }))
  await step("get", driver.get(first.uuid))
  const others: Array<{ uuid: string }> = []
  for (let n = 0; n < 5; n++) others.push(await step("create", driver.create(question)))
  await step("a sixth", driver.create(question))
  for (const { uuid } of others) {
    await step("interrupted", driver.report(await system.runOf(uuid), { type: "interrupted", tool_calls: [toolCall] }))
  }
  await step("a reason that is too long", driver.cancel(others[0]!.uuid, { reason: "x".repeat(1001) }))
  await step("cancel", driver.cancel(others[0]!.uuid, { reason: "no longer needed" }))
  await step("cancel again", driver.cancel(others[0]!.uuid, {}))
  await step("cancel all", driver.cancelInterrupted())
  await step("get", driver.get(others[0]!.uuid))
  await step("delete", driver.delete(others[0]!.uuid))
  await step("delete again", driver.delete(others[0]!.uuid))
  await Promise.all([driver.close(), stranger.close()])
  return steps
}

describe("REST and RPC", () => {
  it("have the same outcome at each step", async () => {
    const rest = await scenario(overRest(service, "rest-user"), overRest(service, "rest-stranger"))
    assert.isAbove(rest.length, 25)
    for (const transport of ["POST", "WebSocket"] as const) {
      const make = (user: string) => overRpc(service, transport, `${transport}-${user}`)
      assert.deepStrictEqual(await scenario(make("user"), make("stranger")), rest)
    }
  })
})

describe("RPC", () => {
  const failureOf = async (transport: Transport, token: string, call: Call) => {
    const runtime = open(transport, service.url, token)
    const exit = await runtime.runPromiseExit(Effect.flatMap(Client, call))
    await runtime.dispose()
    return Exit.isSuccess(exit) ? "success" : (Cause.squash(exit.cause) as { readonly _tag: string })._tag
  }

  const failure = (call: Call) => failureOf("POST", internalToken, call)

  for (const transport of ["POST", "WebSocket"] as const) {
    it(`accepts only the tokens in INTERNAL_TOKENS, by ${transport}`, async () => {
      const list = (client: RpcClient.InternalClient) => client["Tasks.list"]({ sub: "someone" })
      assert.strictEqual(await failureOf(transport, internalToken, list), "success")
      assert.strictEqual(await failureOf(transport, rotated, list), "success")
      for (const wrong of ["", "wrong", `${rotated}x`, rotated.slice(1), await mint("someone")]) {
        assert.strictEqual(await failureOf(transport, wrong, list), "Unauthorized", wrong)
      }
      const watch = (client: RpcClient.InternalClient) =>
        Stream.runDrain(client["Tasks.watch"]({ sub: "someone", uuid: "x" }))
      assert.strictEqual(await failureOf(transport, "wrong", watch), "Unauthorized")
    })

    it(`watches a task, resumes after the last seen event, and ends when the task ends, by ${transport}`, async () => {
      const sub = `watcher-${transport}`
      const { uuid } = (await service.create(await mint(sub), "watched")).body
      const run = await system.runOf(uuid)
      const runtime = open(transport, service.url)
      const watch = (after?: number) =>
        runtime.runPromise(
          Effect.flatMap(Client, (client) =>
            RpcClient.follow(client, { sub, uuid, ...(after === undefined ? {} : { after }) }).pipe(Stream.runCollect))
        )
      const all = watch()
      await report(run, { type: "processing" })
      await report(run, { type: "progress", turn: turnOf("half") })
      await complete(run, "whole")
      const events = await all
      assert.deepStrictEqual(
        events.map(({ event, revision, status }) => [revision, event, status]),
        [
          [0, "pending", "pending"],
          [1, "processing", "processing"],
          [2, "progress", "processing"],
          [3, "completed", "completed"]
        ]
      )
      assert.deepStrictEqual((await watch(1)).map(({ revision }) => revision), [2, 3])
      assert.deepStrictEqual(await watch(3), [])
      await runtime.dispose()
      const stranger = (client: RpcClient.InternalClient) =>
        Stream.runDrain(client["Tasks.watch"]({ sub: "stranger", uuid }))
      assert.strictEqual(await failureOf(transport, internalToken, stranger), "TaskBelongsToAnother")
    })
  }

  it("rejects an invalid user name, and a token of another user", async () => {
    const create = (sub: string, user_token?: string) => (client: RpcClient.InternalClient) =>
      client["Tasks.create"]({
        sub,
        task: question as any,
        ...(user_token === undefined ? {} : { user_token })
      })
    for (const sub of ["", "a\0b", "x".repeat(256), "\ud800"]) {
      assert.strictEqual(await failure(create(sub)), "InvalidRequest")
    }
    assert.strictEqual(await failure(create("zoe", await mint("eve"))), "InvalidRequest")
    assert.strictEqual(await failure(create("zoe", "no token")), "InvalidRequest")
    assert.strictEqual(await failure(create("zoe")), "success")
  })

  it("revokes tokens, and reports whether a token is revoked", async () => {
    const runtime = open("POST", service.url)
    const call = (ask: Call) => runtime.runPromise(Effect.flatMap(Client, ask))
    const token = await mint("rita", { jti: "one" })
    const other = await mint("rita", { jti: "two" })
    const isRevoked = (body: object) => call((client) => client["Tokens.isRevoked"]({ token: body }))
    assert.isFalse(await isRevoked({ jti: "one" }))
    await call((client) => client["Tokens.revoke"]({ revocation: { token } }))
    assert.deepStrictEqual(
      [await isRevoked({ jti: "one" }), await isRevoked({ token }), await isRevoked({ token: other })],
      [true, true, false]
    )
    assert.strictEqual((await service.create(token, "no")).status, 401)
    assert.strictEqual((await service.create(other, "yes")).status, 201)
    const create = (client: RpcClient.InternalClient) =>
      client["Tasks.create"]({ sub: "rita", user_token: token, task: question as any })
    assert.strictEqual(await failure(create), "InvalidRequest")
    await call((client) =>
      client["Tokens.revoke"]({ revocation: { sub: "rita", issued_before: "2099-01-01T00:00:00Z" } })
    )
    assert.deepStrictEqual(
      [await isRevoked({ token: other }), await isRevoked({ jti: "x", sub: "rita" }), await isRevoked({ jti: "x" })],
      [true, true, false]
    )
    for (const revocation of [{}, { jti: "a", sub: "b" }, { token: "no token" }]) {
      const revoke = (client: RpcClient.InternalClient) => client["Tokens.revoke"]({ revocation })
      assert.strictEqual(await failure(revoke), "InvalidRequest")
    }
    await runtime.dispose()
  })

  it("reports statistics to operators, and sends webhooks again", async () => {
    const runtime = open("POST", service.url)
    const call = <A>(ask: Call<A>) => runtime.runPromise(Effect.flatMap(Client, ask))
    const token = await mint("olga")
    const before = await call((client) => client["Operations.standing"]())
    const callback_url = "http://127.0.0.1:1/nobody"
    const { uuid } = (await service.create(token, "unwanted", { callback_url })).body
    await complete(await system.runOf(uuid))
    const after = await call((client) => client["Operations.standing"]())
    assert.strictEqual(after.counts.completed, before.counts.completed + 1)
    const origin = new URL(callback_url).origin
    const found = await call((client) => client["Operations.deliveries"]({ origin }))
    assert.deepStrictEqual(found.map(({ id, status }) => [id.includes(uuid), status]), [[true, "completed"]])
    const again = await call((client) => client["Operations.redeliver"]({ id: found[0]!.id }))
    assert.strictEqual(again.id, found[0]?.id)
    assert.isNumber(await call((client) => client["Operations.redeliverFailed"]({ origin })))
    const unknown = await failure((client) => client["Operations.redeliver"]({ id: "none" }))
    assert.strictEqual(unknown, "DeliveryNotFound")
    const tooMany = await failure((client) => client["Operations.deliveries"]({ limit: 501 }))
    assert.strictEqual(tooMany, "InvalidRequest")
    for (const origin of ["a\0b", "https://client.example/hook", ""]) {
      for (const operation of ["Operations.deliveries", "Operations.redeliverFailed"] as const) {
        assert.strictEqual(await failure((client) => client[operation]({ origin })), "InvalidRequest")
      }
    }
    await runtime.dispose()
  })

  it("is not available to other methods", async () => {
    assert.strictEqual((await fetch(`${service.url}/rpc`)).status, 401)
    const put = await fetch(`${service.url}/rpc`, { method: "PUT" })
    assert.deepStrictEqual([put.status, put.headers.get("allow")], [405, "GET, HEAD, POST"])
  })

  it("does not delay a shutdown while a WebSocket watches", async () => {
    const own = await Service.start(system.settings)
    const { uuid } = (await own.create(await mint("stopper"), "long")).body
    const runtime = open("WebSocket", own.url)
    const seen: Array<number> = []
    const watching = runtime.runPromiseExit(
      Effect.flatMap(Client, (client) =>
        client["Tasks.watch"]({ sub: "stopper", uuid }).pipe(
          Stream.runForEach(({ revision }) => Effect.sync(() => seen.push(revision)))
        ))
    )
    await eventually(async () => seen.length, (count) => count > 0)
    const before = performance.now()
    await own.stop()
    assert.isBelow(performance.now() - before, 5000)
    await watching
    await runtime.dispose()
  })
})
