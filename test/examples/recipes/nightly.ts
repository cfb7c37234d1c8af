/** A nightly batch of one task: it starts by itself, also after a night in which the service was down. */
import { TaskServiceClient } from "../../../src/http/client/Client.ts" // async-task-service/client

const { schedules, tasks } = new TaskServiceClient({
  baseUrl: process.env["TASK_SERVICE_URL"] ?? "http://127.0.0.1:3000",
  token: process.env["TASK_SERVICE_TOKEN"] ?? ""
})

// The key makes it safe to run this at each deployment: it changes the schedule that is there.
const schedule = await schedules.put("nightly-digest", {
  type: "cron",
  cron: "0 2 * * *",
  timezone: "Europe/Oslo",
  overlap: "skip", // while the last one goes on
  catchup_window: 6 * 3600, // seconds: a night that was missed for less is made up for
  task: { assistant_id: 1, input: [{ type: "text", text: "echo digest of the day" }] }
})
console.log("next:", schedule.upcoming?.length, "nights, at two in Oslo:", schedule.next_at?.slice(11, 16))

// Now, to try it.
const { uuid } = await schedules.trigger(schedule.id)
console.log("tried:", (await tasks.waitFor(uuid)).status)
const { data } = await schedules.runs(schedule.id)
console.log("runs:", data.length)
await schedules.delete(schedule.id)
