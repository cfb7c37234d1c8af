/** The test kit through its public interface. The first tests of each kind are the examples of src/runtime/testing/README.md. */
import { assert, describe, it, onTestFinished, vi } from "@effect/vitest"
import { Clock, type Duration, Effect, Layer, Stream } from "effect"
import { TestClock } from "effect/testing"
import { TaskService } from "../../../src/http/client/EffectTaskClient.ts"
import { ConflictError, RateLimitError } from "../../../src/http/client/promise/ApiErrors.ts"
import { verifyWebhook } from "../../../src/http/client/Webhooks.ts"
import { createTestService } from "../../../src/runtime/testing/createTestService.ts"
import { TestService } from "../../../src/runtime/testing/TestService.ts"

const question = { assistant_id: 1, input: [{ type: "text", text: "Why?" }] } as const

describe("createTestService", () => {
  it("ends a task after 24 hours", async () => {
    const service = await createTestService()
    const { tasks } = service.client("ann")
    const { uuid } = await tasks.create(question)
    await service.core.progress(uuid, "so far")
    await service.advance("23 hours")
    assert.strictEqual((await tasks.get(uuid)).status, "processing")
    await service.advance("1 hour")
    const task = await tasks.get(uuid)
    assert.strictEqual(task.error, "Task exceeded maximum execution time (86400s)")
    assert.deepInclude(task.turn, { output: [{ type: "text", text: "so far" }] })
    assert.deepStrictEqual(service.core.stops().map(({ reason }) => reason), ["time_limit_exceeded"])
    assert.strictEqual((await service.now()).toISOString(), "2026-01-02T00:00:00.000Z")
    await service.close()
  })

  it("leaves an interrupted task for a weekend", async () => {
    const service = await createTestService({ startAt: "2026-01-02T17:00:00Z" })
    const { tasks } = service.client("ann")
    const { uuid } = await tasks.create(question)
    await service.core.interrupt(uuid, { approve: { amount: 100 } })
    await service.advance("15 hours")
    assert.strictEqual((await tasks.get(uuid)).status, "interrupted")
    await service.advance("49 hours")
    const task = await tasks.get(uuid)
    assert.strictEqual(task.error, "Task exceeded maximum execution time (86400s)")
    assert.strictEqual(task.completed_at, "2026-01-03T17:00:00.000000Z")
    const late = await tasks.submitToolResults(uuid, [{ tool_call_id: "call_approve", output: true }])
      .catch((error: unknown) => error)
    assert.instanceOf(late, ConflictError)
    await service.close()
  })

  it("keeps tasks in the queue of a core with limited room, and fails none of them by that", async () => {
    const service = await createTestService()
    const { tasks } = service.client("ann")
    service.core.limit(2)
    const uuids: Array<string> = []
    for (let count = 0; count < 5; count++) uuids.push((await tasks.create(question)).uuid)
    const [one = "", two = "", three = "", four = ""] = uuids
    await service.advance("1 hour")
    const waiting = async (uuid: string) => (await tasks.get(uuid, { include: ["waiting_on"] })).waiting_on
    assert.strictEqual(service.core.runs().length, 2)
    assert.containSubset(await waiting(three), { party: "queue", for: "room", position: 1 })
    assert.containSubset(await waiting(four), { position: 2 })
    await service.core.complete(one, "done")
    await service.core.interrupt(two, { look: {} })
    await service.advance("1 second")
    assert.deepStrictEqual(service.core.runs().map(({ taskId }) => taskId), uuids.slice(0, 4))
    // A resumed run comes before new ones.
    await tasks.submitToolResults(two, [{ tool_call_id: "call_look", output: 1 }])
    await service.core.complete(three, "done")
    await service.advance("1 second")
    assert.strictEqual(service.core.runs().at(-1)?.taskId, two)
    await service.core.complete(two, "done")
    await service.advance("1 second")
    for (const uuid of uuids.slice(3)) await service.core.complete(uuid, "done")
    const ended = await Promise.all(uuids.map((uuid) => tasks.get(uuid)))
    assert.deepStrictEqual(ended.map(({ status }) => status), uuids.map(() => "completed"))
    await service.close()
  })

  it("delivers a webhook in five attempts", async () => {
    const service = await createTestService()
    const { tasks } = service.client("ann")
    const callback = { callback_url: "https://client.example/webhooks", callback_secret: "a secret" }
    const { uuid } = await tasks.create({ ...question, ...callback })
    service.webhooks.answerWith(500)
    await service.core.complete(uuid, "done")
    await service.advance("10 minutes")
    const attempts = service.webhooks.received()
    assert.lengthOf(attempts, 5)
    const delays = attempts.slice(1).map(({ at }, n) => (Date.parse(at) - Date.parse(attempts[n]!.at)) / 1000)
    for (const [n, least] of [10, 30, 60, 120].entries()) {
      assert.isAtLeast(delays[n]!, least)
      assert.isAtMost(delays[n]!, least * 1.2)
    }
    assert.deepStrictEqual(attempts[4]?.task, await tasks.get(uuid))
    for (const { at, body, headers } of attempts) {
      const now = Date.parse(at) / 1000
      assert.strictEqual((await verifyWebhook({ body, headers, now, secret: "a secret" })).taskId, uuid)
    }
    const [delivery] = await tasks.deliveries(uuid)
    assert.deepStrictEqual([delivery?.state, delivery?.attempts.length], ["failed", 5])
    service.webhooks.answerWith(200)
    await tasks.redeliver(uuid, delivery!.id)
    await service.advance("1 minute")
    assert.strictEqual((await tasks.deliveries(uuid))[0]?.state, "delivered")
    assert.strictEqual(service.webhooks.received()[5]?.body, attempts[0]?.body)
    await service.close()
  })

  for (const log of [false, true]) {
    it(`prints ${log ? "the log on request" : "no log by default"}`, async () => {
      const printed = vi.spyOn(console, "log").mockReturnValue()
      onTestFinished(() => printed.mockRestore())
      const service = await createTestService({ log })
      const { uuid } = await service.client("ann").tasks.create({ ...question, callback_url: "https://client.example" })
      service.webhooks.answerWith(500)
      await service.core.complete(uuid, "done")
      await service.close()
      assert.strictEqual(printed.mock.calls.length > 0, log)
    })
  }

  it("sends the first webhook before the call that causes it resolves", async () => {
    const service = await createTestService()
    const { tasks } = service.client("ann")
    const statuses = () => service.webhooks.received().map(({ task }) => task.status)
    const create = () => tasks.create({ ...question, callback_url: "https://client.example/webhooks" })
    const [completed, failed, canceled] = [await create(), await create(), await create()]
    await service.core.complete(completed.uuid, "done")
    assert.deepStrictEqual(statuses(), ["completed"])
    await service.core.fail(failed.uuid, "internal")
    await service.core.interrupt(canceled.uuid, { look: {} })
    assert.deepStrictEqual(statuses(), ["completed", "failed", "interrupted"])
    await tasks.cancel(canceled.uuid)
    assert.deepStrictEqual(statuses(), ["completed", "failed", "interrupted", "canceled"])
    for (const { uuid } of [completed, failed, canceled]) {
      for (const { state } of await tasks.deliveries(uuid)) assert.strictEqual(state, "delivered")
    }
    await service.close()
  })

  it("answers webhooks with a list of responses, the last of which applies from then on", async () => {
    const service = await createTestService()
    const { tasks } = service.client("ann")
    const finish = async () => {
      const { uuid } = await tasks.create({ ...question, callback_url: "https://client.example/webhooks" })
      await service.core.complete(uuid, "done")
      await service.advance("1 minute")
      const [delivery] = await tasks.deliveries(uuid)
      return delivery?.attempts.map(({ error, response_status }) => response_status ?? error)
    }
    service.webhooks.answerWith([500, "down", 200])
    assert.deepStrictEqual(await finish(), [500, "connection_failed", 200])
    assert.deepStrictEqual(await finish(), [200])
    await service.close()
  })

  it("resumes after tool results, with a new run each time", async () => {
    const service = await createTestService()
    const { tasks } = service.client("ann")
    const running = tasks.run(question, { tools: { look: ({ where }: { where: string }) => `nothing ${where}` } })
    const { taskId } = await service.core.nextRun()
    await service.core.interrupt(taskId, { look: { where: "there" } })
    const { results } = await service.core.nextRun()
    assert.deepStrictEqual(results, [{ tool_call_id: "call_look", output: "nothing there" }])
    await service.core.complete(taskId, "done")
    assert.strictEqual((await running).status, "completed")
    await service.close()
  })

  it("enforces limits and retention, and supports a core that does not respond", async () => {
    const service = await createTestService({ maxActiveTasks: 2, retention: "1 day" })
    const { tasks } = service.client("ann")
    service.core.behave("down")
    const { uuid } = await tasks.create(question)
    await tasks.create(question)
    const refused = await tasks.create(question, { maxRetries: 0 }).catch((error: unknown) => error)
    assert.instanceOf(refused, RateLimitError)
    await service.advance("30 seconds")
    assert.strictEqual((await tasks.get(uuid)).error, "Task was not accepted by the processing core within 30 s")
    service.core.behave(400)
    const rejected = await tasks.create(question)
    await service.advance(0)
    assert.strictEqual((await tasks.get(rejected.uuid)).error, "Task processing failed")
    await service.advance("2 days")
    assert.strictEqual((await tasks.list()).meta.total, 0)
    await service.close()
  })

  it("lets a task wait while the core is busy, until its own time limit", async () => {
    const service = await createTestService()
    const { tasks } = service.client("ann")
    service.core.behave("busy")
    const { uuid } = await tasks.create({ ...question, max_execution_time: 600 })
    await service.advance("9 minutes")
    assert.strictEqual((await tasks.get(uuid)).status, "pending")
    await service.advance("1 minute")
    assert.strictEqual((await tasks.get(uuid)).error, "Task exceeded maximum execution time (600s)")
    await service.close()
  })

  it("gives the core no more runs than CORE_RUNS", async () => {
    const service = await createTestService({ coreRuns: 1 })
    const { tasks } = service.client("ann")
    const [{ uuid }, { uuid: other }] = [await tasks.create(question), await tasks.create(question)]
    await service.core.interrupt(uuid, { look: {} })
    await service.advance("1 second")
    assert.deepStrictEqual((await service.core.runs()).map(({ taskId }) => taskId), [uuid, other])
    await service.close()
  })

  it("uploads and downloads by the rules of files", async () => {
    const service = await createTestService()
    const { files, tasks } = service.client("ann")
    const uploaded = await files.upload(new Blob(["hello"]), { name: "hello world.txt", type: "text/plain" })
    assert.strictEqual(await (await service.fetch(await files.url(uploaded))).text(), "hello")
    assert.strictEqual(
      await files.upload(new Blob(["MZ"]), { name: "a.exe" }).catch((error: Error) => error.name),
      "ValidationError"
    )
    const { uuid } = await tasks.create({ assistant_id: 1, input: [uploaded] })
    assert.deepStrictEqual((await service.core.runOf(uuid)).request.input, [uploaded])
    await service.close()
  })

  it("creates independent services", async () => {
    const [one, other] = await Promise.all([createTestService(), createTestService()])
    const { uuid } = await one.client("ann").tasks.create(question)
    await other.advance("1 day")
    assert.strictEqual((await other.client("ann").tasks.list()).meta.total, 0)
    assert.strictEqual((await one.client("ann").tasks.get(uuid)).status, "processing")
    await Promise.all([one.close(), other.close()])
  })
})

describe("TestService", () => {
  const layer = TestService.layerClient("ann").pipe(Layer.provideMerge(TestService.layer()))

  it.effect("ends a task after 24 hours", () =>
    Effect.gen(function*() {
      const { tasks } = yield* TaskService
      const { core } = yield* TestService
      const { uuid } = yield* tasks.create({ payload: question })
      yield* core.runOf(uuid)
      yield* TestClock.adjust("24 hours")
      const { error } = yield* tasks.get({ params: { uuid } })
      assert.strictEqual(error, "Task exceeded maximum execution time (86400s)")
    }).pipe(Effect.provide(layer)))

  it.effect("follows events", () =>
    Effect.gen(function*() {
      const { tasks } = yield* TaskService
      const { core } = yield* TestService
      const { uuid } = yield* tasks.create({ payload: question })
      yield* core.complete(uuid, "done")
      const events = yield* Stream.runCollect(tasks.events(uuid))
      assert.deepStrictEqual(events.map(({ event }) => event), ["pending", "processing", "completed"])
    }).pipe(Effect.provide(layer)))
})

/** A copy of the current clock that counts the sleeps that begin, of which a worker begins one in each round. */
const countSleeps = Effect.map(Clock.Clock, (clock) => {
  let count = 0
  const counting = Object.create(clock, {
    sleep: {
      value: (duration: Duration.Duration) =>
        Effect.andThen(Effect.sync(() => void (count += 1)), clock.sleep(duration))
    }
  })
  return { clock: Layer.succeed(Clock.Clock, counting), count: () => count }
})

describe("an idle service", () => {
  for (const [duration, hours] of [["24 hours", 24], ["29 days", 29 * 24]] as const) {
    it.effect(`begins hardly more than one round an hour in ${duration}`, () =>
      Effect.gen(function*() {
        const sleeps = yield* countSleeps
        yield* Effect.gen(function*() {
          const { core, webhooks } = yield* TestService
          const { tasks } = yield* TaskService
          // Workers are idle again after they had something to do.
          const { uuid } = yield* tasks.create({ payload: { ...question, callback_url: "https://client.example" } })
          yield* core.complete(uuid, "done")
          assert.lengthOf(yield* webhooks.received, 1)
          yield* TestClock.adjust("1 minute")
          const before = sleeps.count()
          yield* TestClock.adjust(duration)
          assert.isAtMost(sleeps.count() - before, 1.6 * hours + 2)
        }).pipe(
          Effect.provide(
            TestService.layerClient("ann").pipe(
              Layer.provideMerge(TestService.layer()),
              Layer.provide(sleeps.clock)
            )
          )
        )
      }))
  }
})
