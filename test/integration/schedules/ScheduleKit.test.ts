/** Schedules in the test kit, whose clock makes them fire. */
import { execFile } from "node:child_process"
import { promisify } from "node:util"
import { assert, describe, it } from "vitest"
import { createTestService } from "../../../src/runtime/testing/createTestService.ts"
import { use } from "../../kit/suite.ts"

const task = { assistant_id: 1, input: [{ type: "text", text: "Report" }], max_execution_time: 60 } as const

describe("the test kit", () => {
  it("runs the example of a clock change", async () => {
    const example = "test/examples/schedules/clockChange.ts"
    const { stdout } = await promisify(execFile)(process.execPath, [example], { timeout: 45_000 })
    assert.strictEqual(stdout, "created 2026-03-30T07:00:00.000000Z completed\n")
  })

  it("fires a year of mornings in Berlin, once each, through both clock changes", async () => {
    const service = await use(createTestService({ startAt: "2026-01-01T00:00:00Z" }))
    const { schedules } = service.client("ann")
    const made = await schedules.create({ type: "cron", cron: "30 2 * * *", timezone: "Europe/Berlin", task })
    const moments: Array<string> = []
    for (let week = 0; week < 53; week++) {
      await service.advance("7 days")
      const { data } = await schedules.runs(made.id, { per_page: 100 })
      const seen = new Set(moments)
      moments.push(
        ...data.filter(({ outcome }) => outcome === "created").map((run) => run.scheduled_for)
          .toReversed().filter((moment) => !seen.has(moment))
      )
    }
    assert.strictEqual(moments.length, 371)
    assert.strictEqual(service.core.runs().length, 371)
    assert.include(moments, "2026-03-29T01:30:00.000000Z")
    assert.include(moments, "2026-10-25T00:30:00.000000Z")
    assert.strictEqual(new Set(moments).size, 371)
    assert.strictEqual((await schedules.get(made.id)).state, "active")
  })

  it("waits, skips, misses nothing while time stands, and links tasks", async () => {
    const service = await use(createTestService())
    const { schedules, tasks } = service.client("bob")
    const slow = { ...task, max_execution_time: 7200 }
    const skips = await schedules.create({ type: "cron", cron: "0 * * * *", task: slow })
    const queues = await schedules.create({ type: "cron", cron: "0 * * * *", overlap: "queue", task: slow })
    await service.advance("61 minutes")
    await service.advance("60 minutes")
    const outcomes = async (id: string) => (await schedules.runs(id)).data.map(({ outcome }) => outcome)
    assert.deepStrictEqual(await outcomes(skips.id), ["skipped_overlap", "created"])
    assert.deepStrictEqual(await outcomes(queues.id), ["waiting", "created"])
    const [, first] = (await schedules.runs(queues.id)).data
    await service.core.complete(first!.task_uuid!, "done")
    await service.advance("10 seconds")
    assert.deepStrictEqual(await outcomes(queues.id), ["created", "created"])
    assert.strictEqual((await tasks.get(first!.task_uuid!)).status, "completed")
    const once = await schedules.create({ type: "once", delay: 10, task })
    await service.advance("9 seconds")
    assert.deepStrictEqual(await outcomes(once.id), [])
    await service.advance("1 second")
    assert.deepStrictEqual(await outcomes(once.id), ["created"])
    assert.strictEqual((await schedules.get(once.id)).state, "ended")
  })

  it("pauses after failures before the next moment", async () => {
    const service = await use(createTestService())
    const { schedules } = service.client("eve")
    const { id } = await schedules.create({ type: "cron", cron: "0 * * * *", pause_after_failures: 2, task })
    await service.advance("5 hours")
    const { paused_reason, state } = await schedules.get(id)
    assert.deepStrictEqual([state, paused_reason?.type], ["paused", "failures"])
    assert.strictEqual((await schedules.runs(id)).meta.total, 2)
  })
})
