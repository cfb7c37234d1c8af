/** The clients of schedules: the Promise and the Effect client, RPC, and the commands. */
import { Effect, Layer, Option, Redacted } from "effect"
import { FetchHttpClient } from "effect/http"
import { RpcClient } from "effect/rpc"
import { assert, describe, it } from "vitest"
import { ConflictError, ValidationError } from "../../../src/http/client/promise/ApiErrors.ts"
import { TaskServiceClient } from "../../../src/http/client/promise/TaskServiceClient.ts"
import { make } from "../../../src/http/client/RpcClient.ts"
import { Conflict, NotFound } from "../../../src/http/contract/Errors.ts"
import { scheduleOf, ScheduleService, SchedulesRpc } from "../../../src/http/schedules/SchedulesClient.ts"
import { callRpc, runRpc } from "../../kit/callRpc.ts"
import { commandsIn, runHere } from "../../kit/runToEnd.ts"
import { mint } from "../../kit/Service.ts"
import { use, useDirectory } from "../../kit/suite.ts"
import { startSystem } from "../../kit/System.ts"

const { service } = await use(startSystem({ TOKEN_URL: "http://127.0.0.1:9", DATA_DIR: useDirectory() }))
const task = { assistant_id: 1, input: [{ type: "text", text: "Hello" }] } as const

describe("client.schedules", () => {
  it("creates, reads, changes, pauses, triggers and deletes", async () => {
    const { schedules, tasks } = new TaskServiceClient({ baseUrl: service.url, token: await mint("promise") })
    const made = await schedules.create({ type: "cron", cron: "0 9 * * *", task })
    assert.deepStrictEqual(await schedules.get(made.id), made)
    const again = await schedules.put("k", { type: "once", delay: 100, task })
    assert.strictEqual((await schedules.put("k", { type: "once", delay: 100, task })).revision, again.revision)
    assert.deepStrictEqual((await schedules.list({ state: ["active"] })).data.map(({ id }) => id), [again.id, made.id])
    assert.strictEqual((await schedules.update(made.id, { name: "x" })).name, "x")
    assert.strictEqual((await schedules.pause(made.id, "Holidays")).paused_reason?.message, "Holidays")
    const { uuid } = await schedules.trigger(made.id)
    assert.strictEqual((await tasks.get(uuid, { include: ["schedule"] })).schedule?.id, made.id)
    assert.deepStrictEqual((await tasks.list({ schedule: made.id })).data.map((row) => row.uuid), [uuid])
    assert.strictEqual((await schedules.runs(made.id)).data[0]?.task_uuid, uuid)
    assert.strictEqual((await schedules.resume(made.id)).state, "active")
    assert.strictEqual((await schedules.preview({ cron: "* * * * *", count: 3 })).length, 3)
    await schedules.delete(made.id)
    const refused = await schedules.create({ type: "cron", cron: "@daily", task }).catch((error: unknown) => error)
    assert.instanceOf(refused, ValidationError)
    const taken = await schedules.create({ key: "k", type: "once", delay: 1, task }).catch((error: unknown) => error)
    assert.instanceOf(taken, ConflictError)
  })
})

describe("the Effect client", () => {
  const options = async () => {
    const token = Redacted.make(await mint("effect"))
    return { baseUrl: service.url, token: Effect.succeed(token) }
  }

  it("has the calls, with typed results and errors", async () => {
    const program = Effect.gen(function*() {
      const { schedules } = yield* ScheduleService
      const payload = { type: "cron", cron: "0 9 * * *", key: "effect", task } as const
      const { id, next_at } = yield* schedules.create({ payload })
      assert.match(next_at ?? "", /T09:00/)
      const taken = yield* Effect.flip(schedules.create({ payload }))
      assert.instanceOf(taken, Conflict)
      yield* schedules.put({ params: { key: "effect" }, payload: { ...payload, name: "Named" } })
      const page = yield* schedules.list({ query: { state: "active,paused", per_page: "1" } })
      assert.deepStrictEqual(page.data.map(({ id, name }) => [id, name]), [[id, "Named"]])
      const params = { id }
      const changed = yield* schedules.update({ params, payload: { spread: 60 } })
      assert.strictEqual(changed.spread, 60)
      assert.strictEqual((yield* schedules.pause({ params, payload: {} })).state, "paused")
      const { uuid } = yield* schedules.trigger({ params })
      const runs = yield* schedules.runs({ params, query: {} })
      assert.deepStrictEqual(runs.data.map(({ task_uuid }) => task_uuid), [uuid])
      assert.strictEqual((yield* schedules.resume({ params })).state, "active")
      assert.lengthOf((yield* schedules.preview({ payload: { cron: "* * * * *", count: 20 } })).data, 20)
      yield* schedules.delete({ params })
      assert.instanceOf(yield* Effect.flip(schedules.get({ params })), NotFound)
    })
    const layer = Layer.provide(ScheduleService.layer(await options()), FetchHttpClient.layer)
    await Effect.runPromise(Effect.provide(program, layer))
  })

  it("of RPC has the calls of SchedulesRpc", async () => {
    const program = Effect.gen(function*() {
      const client = yield* RpcClient.make(SchedulesRpc)
      const sub = "typed-rpc"
      const schedule = { type: "once", delay: 60, task } as const
      const made = yield* client["Schedules.create"]({ sub, schedule, idempotency_key: "k" })
      assert.deepStrictEqual(yield* client["Schedules.create"]({ sub, schedule, idempotency_key: "k" }), made)
      const missing = yield* Effect.flip(client["Schedules.get"]({ sub, id: "none" }))
      assert.strictEqual(missing._tag, "ScheduleNotFound")
    })
    await runRpc(service, program)
  })
})

describe("the group schedules", () => {
  it("has a command for every operation", async () => {
    const all = commandsIn({ TASK_SERVICE_URL: service.url, TASK_SERVICE_TOKEN: await mint("cli") })
    const run = (...args: ReadonlyArray<string>) => all.run("schedules", ...args)
    const json = (...args: ReadonlyArray<string>) => all.json("schedules", ...args)
    const { id } = await json("create", "--cron", "0 9 * * MON-FRI", "--timezone", "Europe/Berlin", "Good", "morning")
    const shown = await run("get", id)
    assert.match(shown.out, /State {2,}active[^]*Rhythm {2,}0 9 \* \* MON-FRI Europe\/Berlin/)
    assert.match((await run("list")).out, new RegExp(`^SCHEDULE[^]*${id} {2}active`))
    assert.strictEqual((await json("put", "deploy", "--delay", "60", "Later")).key, "deploy")
    assert.strictEqual((await json("update", id, "--name", "Report")).name, "Report")
    assert.strictEqual((await json("pause", id, "--reason", "Holidays")).paused_reason.message, "Holidays")
    const { uuid } = await json("trigger", id)
    assert.deepStrictEqual((await json("tasks", id)).map((row: { readonly uuid: string }) => row.uuid), [uuid])
    assert.match((await run("runs", id)).out, new RegExp(`created {2,}1 {2,}${uuid}`))
    assert.strictEqual((await json("resume", id)).state, "active")
    assert.lengthOf(await json("preview", "0 9 * * *", "--count", "2"), 2)
    assert.match((await run("create", "--cron", "@daily", "x")).err, /cron: /)
    assert.match((await run("delete", id)).out, /^deleted/)
    assert.strictEqual((await run("get", id)).code, 1)
  })
})

describe("Schedules by RPC", () => {
  const call = (tag: string, payload: object) => callRpc(service, tag, payload)

  it("select tasks, and are a field of them", async () => {
    const sub = "linked-by-rpc"
    const { id } = await call("Schedules.create", { sub, schedule: { type: "cron", cron: "0 9 * * *", task } })
    const { uuid } = await call("Schedules.trigger", { sub, id })
    await call("Tasks.create", { sub, task })
    const listed = await call("Tasks.list", { sub, schedule: id, status: ["pending", "processing", "completed"] })
    assert.deepStrictEqual(listed.data.map((row: { readonly uuid: string }) => row.uuid), [uuid])
    assert.deepStrictEqual(
      Object.keys((await call("Tasks.list", { sub, schedule: "one" })).errors),
      ["schedule"]
    )
    assert.strictEqual((await call("Tasks.get", { sub, uuid, include: ["schedule"] })).schedule.id, id)
    const program = Effect.gen(function*() {
      const client = yield* make
      const { data } = yield* client["Tasks.list"]({ sub, schedule: id })
      assert.deepStrictEqual(data.map((row) => row.uuid), [uuid])
      const read = yield* client["Tasks.get"]({ sub, uuid, include: ["schedule"] })
      assert.strictEqual(Option.getOrThrow(scheduleOf(read))?.id, id)
    })
    await runRpc(service, program)
  })

  it("has the rules of REST, on behalf of a user", async () => {
    const sub = "by-rpc"
    const schedule = { type: "cron", cron: "0 9 * * *", task }
    const made = await call("Schedules.create", { sub, schedule })
    assert.strictEqual(made.state, "active")
    assert.deepStrictEqual(await call("Schedules.get", { sub, id: made.id }), made)
    assert.strictEqual((await call("Schedules.get", { sub: "another", id: made.id }))._tag, "ScheduleBelongsToAnother")
    assert.deepStrictEqual(
      Object.keys((await call("Schedules.create", { sub, schedule: { ...schedule, cron: "x" } })).errors),
      [
        "cron"
      ]
    )
    assert.strictEqual((await call("Schedules.put", { sub, key: "k", schedule })).key, "k")
    assert.strictEqual((await call("Schedules.list", { sub, state: ["active"] })).meta.total, 2)
    assert.strictEqual((await call("Schedules.update", { sub, id: made.id, body: { name: "x" } })).name, "x")
    assert.strictEqual((await call("Schedules.pause", { sub, id: made.id })).state, "paused")
    assert.match((await call("Schedules.trigger", { sub, id: made.id })).uuid, /^[\da-f-]{36}$/)
    assert.strictEqual((await call("Schedules.runs", { sub, id: made.id })).meta.total, 1)
    assert.strictEqual((await call("Schedules.resume", { sub, id: made.id })).state, "active")
    assert.lengthOf((await call("Schedules.preview", { body: { cron: "* * * * *" } })).data, 5)
    await call("Schedules.delete", { sub, id: made.id })
    assert.strictEqual((await call("Schedules.get", { sub, id: made.id }))._tag, "ScheduleNotFound")
  })
})

describe("doctor", () => {
  it("names a TOKEN_URL that cannot be reached", async () => {
    const { err, out } = await runHere(["doctor"], { TASK_SERVICE_URL: service.url, TOKEN_URL: "http://127.0.0.1:9" })
    assert.match(out, /FAIL +tokens of schedules/)
    assert.match(err, /tokens of schedules/)
  })
})
