/** What the clients of schedules have. */
import { type Calls, describeParity, type Exceptions } from "../../../kit/parity.ts"

const key = { idempotencyKey: "k" }
const task = { assistant_id: 1, input: [{ type: "text", text: "Hello" }] } as const
const schedule = { type: "cron", cron: "0 9 * * *", task } as const
const python =
  `{"type": "cron", "cron": "0 9 * * *", "task": {"assistant_id": 1, "input": [{"type": "text", "text": "Hello"}]}}`

const calls: Readonly<Record<string, Calls>> = {
  createSchedule: {
    promise: ({ schedules }) => schedules.create(schedule, key),
    python: `client.schedules.create(${python}, idempotency_key="k")`,
    commands: ["schedules", "create", "--cron", "0 9 * * *", "Hello"],
    rpc: "Schedules.create"
  },
  listSchedules: {
    promise: ({ schedules }) => schedules.list({ state: ["active", "paused"], page: 2, per_page: 3 }),
    python: `client.schedules.list(state=["active"], page=2, per_page=3)`,
    commands: ["schedules", "list", "--state", "active", "--page", "2", "--per-page", "3"],
    rpc: "Schedules.list"
  },
  putSchedule: {
    promise: ({ schedules }) => schedules.put("k", schedule),
    python: `client.schedules.put("k", ${python})`,
    commands: ["schedules", "put", "k", "--cron", "0 9 * * *", "Hello"],
    rpc: "Schedules.put"
  },
  previewSchedule: {
    promise: ({ schedules }) => schedules.preview({ cron: "0 9 * * *" }),
    python: `client.schedules.preview("0 9 * * *")`,
    commands: ["schedules", "preview", "0 9 * * *"],
    rpc: "Schedules.preview"
  },
  getSchedule: {
    promise: ({ schedules }) => schedules.get("i"),
    python: `client.schedules.get("i")`,
    commands: ["schedules", "get", "i"],
    rpc: "Schedules.get"
  },
  updateSchedule: {
    promise: ({ schedules }) => schedules.update("i", { name: "n" }),
    python: `client.schedules.update("i", {"name": "n"})`,
    commands: ["schedules", "update", "i", "--name", "n"],
    rpc: "Schedules.update"
  },
  deleteSchedule: {
    promise: ({ schedules }) => schedules.delete("i"),
    python: `client.schedules.delete("i")`,
    commands: ["schedules", "delete", "i"],
    rpc: "Schedules.delete"
  },
  pauseSchedule: {
    promise: ({ schedules }) => schedules.pause("i", "r"),
    python: `client.schedules.pause("i", reason="r")`,
    commands: ["schedules", "pause", "i"],
    rpc: "Schedules.pause"
  },
  resumeSchedule: {
    promise: ({ schedules }) => schedules.resume("i"),
    python: `client.schedules.resume("i")`,
    commands: ["schedules", "resume", "i"],
    rpc: "Schedules.resume"
  },
  triggerSchedule: {
    promise: ({ schedules }) => schedules.trigger("i", key),
    python: `client.schedules.trigger("i", idempotency_key="k")`,
    commands: ["schedules", "trigger", "i"],
    rpc: "Schedules.trigger"
  },
  listScheduleRuns: {
    promise: ({ schedules }) => schedules.runs("i", { page: 2, per_page: 3 }),
    python: `client.schedules.runs("i", page=2, per_page=3)`,
    commands: ["schedules", "runs", "i", "--page", "2", "--per-page", "3"],
    rpc: "Schedules.runs"
  }
}

const noTag = "no client returns the `ETag` of a schedule: `put` by key is for scripts"

const exceptions: Exceptions = {
  "updateSchedule If-Match": { promise: noTag, python: noTag, commands: noTag, rpc: noTag }
}

describeParity(["schedules"], calls, exceptions)
