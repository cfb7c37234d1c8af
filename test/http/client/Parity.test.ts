/** What the clients of tasks and files have. Extensions have such a test in a folder of their name. */
import { existsSync } from "node:fs"
import { assert, it } from "vitest"
import { operations } from "../../docs/clientTypes.ts"
import { type Calls, describeParity, type Exceptions } from "../../kit/parity.ts"

const key = { idempotencyKey: "k" }
const task = { assistant_id: 1, input: [{ type: "text", text: "Hello" }] } as const
const pythonTask = `{"assistant_id": 1, "input": [{"type": "text", "text": "Hello"}]}`

const calls: Readonly<Record<string, Calls>> = {
  createTask: {
    promise: ({ tasks }) => tasks.create(task, key),
    python: `client.tasks.create(${pythonTask}, idempotency_key="k")`,
    commands: ["create", "Hello"],
    rpc: "Tasks.create"
  },
  listTasks: {
    promise: ({ tasks }) =>
      tasks.list({
        status: ["pending", "failed"],
        page: 2,
        per_page: 3,
        metadata: { a: "b" },
        q: "text",
        include: ["metadata", "excerpt", "waiting_on"],
        schedule: "s",
        assistant_id: 1,
        from: "2026-11-27T08:00:00Z",
        to: "2026-11-28T08:00:00Z"
      }).then(() => undefined),
    python:
      `client.tasks.list(status=["pending"], page=2, per_page=3, metadata={"a": "b"}, q="text", include=["excerpt"], schedule="s", `
      + `assistant_id=1, created_from="2026-11-27T08:00:00Z", created_to="2026-11-28T08:00:00Z")`,
    commands:
      "list --status pending --metadata a=b --q text --assistant 1 --from 2026-11-27T08:00:00Z --to 2026-11-28T08:00:00Z"
        .split(" "),
    rpc: "Tasks.list"
  },
  getTask: {
    promise: ({ tasks }) => tasks.get("u", { include: ["request", "usage", "schedule", "ended_by"] }),
    python: `client.tasks.get("u", include=["request", "usage", "schedule", "ended_by"])`,
    commands: ["get", "u", "--include", "request,schedule"],
    rpc: "Tasks.get"
  },
  deleteTask: {
    promise: ({ tasks }) => tasks.delete("u"),
    python: `client.tasks.delete("u")`,
    commands: ["delete", "u"],
    rpc: "Tasks.delete"
  },
  rerunTask: {
    promise: ({ tasks }) => tasks.rerun("u", {}, key),
    python: `client.tasks.rerun("u", idempotency_key="k")`,
    commands: ["rerun", "u"],
    rpc: "Tasks.rerun"
  },
  getTaskEvents: {
    promise: ({ tasks }) => tasks.events("u", { after: 0, include: "turn" }).next(),
    python: `list(client.tasks.events("u", after=0, include="turn"))`,
    commands: ["watch", "u"],
    rpc: "Tasks.watch"
  },
  listDeliveries: {
    promise: ({ tasks }) => tasks.deliveries("u"),
    python: `client.tasks.deliveries("u")`,
    commands: ["deliveries", "u"]
  },
  redeliverWebhook: {
    promise: ({ tasks }) => tasks.redeliver("u", "d"),
    python: `client.tasks.redeliver("u", "d")`,
    commands: ["redeliver", "u", "d"]
  },
  cancelInterruptedTasks: {
    promise: ({ tasks }) => tasks.cancelInterrupted(),
    python: "client.tasks.cancel_interrupted()",
    commands: ["cancel", "--interrupted"],
    rpc: "Tasks.cancelInterrupted"
  },
  submitToolResults: {
    promise: ({ tasks }) => tasks.submitToolResults("u", [{ tool_call_id: "c", output: 1 }], key),
    python: `client.tasks.submit_tool_results("u", [{"tool_call_id": "c", "output": 1}], idempotency_key="k")`,
    commands: ["submit-results", "u", "c=1"],
    rpc: "Tasks.submitToolResults"
  },
  cancelTask: {
    promise: ({ tasks }) => tasks.cancel("u", { reason: "r", ...key }),
    python: `client.tasks.cancel("u", reason="r", idempotency_key="k")`,
    commands: ["cancel", "u", "--reason", "r"],
    rpc: "Tasks.cancel"
  },
  stopTask: {
    promise: ({ tasks }) => tasks.stop("u", { reason: "r", ...key }),
    python: `client.tasks.stop("u", reason="r", idempotency_key="k")`,
    commands: ["stop", "u", "--reason", "r"],
    rpc: "Tasks.withdraw"
  },
  uploadFile: {
    promise: ({ files }) => files.upload(new Blob(["a"]), { name: "a.txt" }),
    python: `client.files.upload(b"a", name="a.txt")`,
    commands: ["upload", "FILE"]
  },
  getStorageBase: {
    promise: ({ files }) => files.url({ file: { provider_data: { path: "1/a.txt" } } }),
    python: `client.files.url({"file": {"provider_data": {"path": "1/a.txt"}}})`
  }
}

const noCache = "the clients keep no copy of a task"
const asWait = "`waitFor` and `run` wait"
const ofFiles = "files are streams of bytes, which only HTTP carries"
const ofWebhooks = "operators redeliver by REST"

const exceptions: Exceptions = {
  "listTasks schedule": {
    commands: "`schedules tasks` has it",
    rpc: "the payload takes the parameters of extensions, which its type does not name"
  },
  "getTask wait": { promise: asWait, python: asWait, commands: "`watch` waits", rpc: "`Tasks.watch` waits" },
  "getTask If-None-Match": { promise: noCache, python: noCache, commands: noCache, rpc: noCache },
  "getTaskEvents Last-Event-ID": { commands: "it shows all events", rpc: "it is `after`" },
  listDeliveries: { rpc: ofWebhooks },
  redeliverWebhook: { rpc: ofWebhooks },
  "stopTask Idempotency-Key": { rpc: "a repeated call fails with `TaskHasEnded`" },
  uploadFile: { rpc: ofFiles },
  getStorageBase: { commands: "`upload` prints the link", rpc: ofFiles }
}

describeParity(["tasks", "files"], calls, exceptions)

it("each other group of the document has such a test", () => {
  const groups = new Set(operations.flatMap(({ tags }) => tags))
  for (const group of groups) {
    if (group === "tasks" || group === "files") continue
    const file = `${group}/Parity.test.ts`
    assert.isTrue(existsSync(new URL(file, import.meta.url)), `write test/http/client/${file}, as usage/ has it`)
  }
})
