/** Schedules: a report every weekday at nine in Berlin, tried with the test kit, whose clock makes them fire. It needs no running service. */
import { strict as assert } from "node:assert"
import { createTestService } from "../../../src/runtime/testing/Testing.ts" // async-task-service/testing

// A Friday.
const service = await createTestService({ startAt: "2026-03-27T12:00:00Z" })
const { schedules, tasks } = service.client("ann")

// A deploy script may run this again and again.
const report = {
  type: "cron",
  cron: "0 9 * * MON-FRI",
  timezone: "Europe/Berlin",
  task: { assistant_id: 1, input: [{ type: "text", text: "Summarize the news." }] }
} as const
const { id, upcoming } = await schedules.put("report", report)
await schedules.put("report", report)
// The clocks change on Sunday, so nine o'clock is an hour earlier in UTC.
assert.equal(upcoming?.[0], "2026-03-30T07:00:00.000000Z")

await service.advance("3 days")
const { data: [run] } = await schedules.runs(id)
await service.core.complete(run?.task_uuid ?? "", "No news.")
console.log(run?.outcome, run?.scheduled_for, (await tasks.get(run?.task_uuid ?? "")).status)

await service.close()
