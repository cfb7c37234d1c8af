/** A bulk action on 20,000 tasks: exact after kill -9, and users' creates beside it. */
import { assert, it, onTestFinished } from "vitest"
import { insertLive } from "../../kit/operator/manyTasks.ts"
import { pause } from "../../kit/pause.ts"
import { eventually, mint, Service } from "../../kit/Service.ts"
import { median, quantile } from "../../kit/statistics.ts"
import { use } from "../../kit/suite.ts"
import { startSystem } from "../../kit/System.ts"
import { operatorCalls } from "./operatorCalls.ts"

const tasks = 20_000
const report = (line: string) => process.stderr.write(`${line}\n`)
const settings = { MAX_ACTIVE_TASKS: "1000000", INTERNAL_TOKEN_NAMES: "ana" }

it("cancels 20,000 tasks of 300 users with kill -9 in the middle: each once, with its stop and its line", async () => {
  const own = await use(startSystem(settings), onTestFinished)
  await insertLive(own.database, tasks, 300)
  const calls = operatorCalls(own.service)
  const begun = performance.now()
  const dry = await calls.post("/bulk", { action: "cancel", filter: {}, dry_run: true })
  report(`dry run: ${(performance.now() - begun).toFixed(0)} ms`)
  assert.deepStrictEqual([dry.body.matched, dry.body.sample.length], [tasks, 20])
  const { body: { id } } = await calls.post("/bulk", { action: "cancel", filter: {}, rate: 1000 })
  await eventually(async () => (await calls.get(`/bulk/${id}`)).body.done, (count) => count > 3000, 60_000)
  own.service.signal("SIGKILL")
  const again = await use(Service.start(own.settings), onTestFinished)
  const found = await eventually(
    async () => (await operatorCalls(again).get(`/bulk/${id}`)).body,
    ({ state }) => state !== "running",
    180_000,
    500
  )
  assert.deepStrictEqual([found.state, found.done, found.skipped, found.failed], ["done", tasks, 0, 0])
  const [counts] = await own.database.query<Record<string, number>>(
    `SELECT (SELECT count(*)::int FROM tasks WHERE status = 'canceled') AS canceled,
      (SELECT count(*)::int FROM task_events WHERE status = 'canceled') AS events,
      (SELECT count(*)::int FROM operator_actions WHERE action = 'cancel' AND bulk_id = '${id}') AS lines,
      (SELECT count(DISTINCT target)::int FROM operator_actions WHERE action = 'cancel' AND bulk_id = '${id}') AS targets`
  )
  assert.deepStrictEqual(counts, { canceled: tasks, events: tasks, lines: tasks, targets: tasks })
}, 300_000)

/** Milliseconds of creates of four users in turn, for some seconds. */
const creates = async (service: Service, tokens: ReadonlyArray<string>, seconds: number) => {
  const times: Array<number> = []
  const end = performance.now() + seconds * 1000
  await Promise.all(tokens.map(async (token) => {
    while (performance.now() < end) {
      const begun = performance.now()
      const { status } = await service.create(token, "x")
      assert.strictEqual(status, 201)
      times.push(performance.now() - begun)
      await pause(5)
    }
  }))
  return quantile(times, 0.99)
}

it("delays users' creates by little", async () => {
  const own = await use(startSystem(settings), onTestFinished)
  const tokens = await Promise.all(["a", "b", "c", "d"].map((sub) => mint(sub)))
  const calls = operatorCalls(own.service)
  await creates(own.service, tokens, 10)
  for (const rate of [50, 1000]) {
    const ratios: Array<number> = []
    for (let round = 0; round < 5; round++) {
      const alone = await creates(own.service, tokens, 4)
      await insertLive(own.database, rate * 6, 300, "beside")
      const { body: { id } } = await calls.post("/bulk", { action: "cancel", filter: { q: "beside-" }, rate })
      const beside = await creates(own.service, tokens, 4)
      await eventually(async () => (await calls.get(`/bulk/${id}`)).body, ({ state }) => state === "done", 60_000, 200)
      ratios.push(beside / alone)
      report(`at ${rate} a second: p99 ${alone.toFixed(1)} ms alone, ${beside.toFixed(1)} ms beside`)
    }
    report(`at ${rate} a second: ${median(ratios).toFixed(2)} times the p99 of creates (median of 5)`)
    // The target is 1.1 at 50 a second; other work on the machine moves a p99 by more.
    assert.isBelow(median(ratios), rate === 50 ? 1.5 : 4)
  }
}, 300_000)
