/**
 * Runs a program of the official client with the Tasks extension, and the official conformance kit, for both requirements, with the failures that
 * `expected-*.yaml` explain. The packages of `package.json` beside this file are installed into a temporary folder.
 */
import assert from "node:assert/strict"
import { execFile } from "node:child_process"
import * as fs from "node:fs"
import { request as call } from "node:http"
import * as path from "node:path"
import { setTimeout as delay } from "node:timers/promises"
import { Consumers } from "../../kit/consumers.ts"
import { LoopbackServer } from "../../kit/LoopbackServer.ts"
import { complete, report, ScriptedCore, type StartedRun } from "../../kit/ScriptedCore.ts"
import { mint } from "../../kit/Service.ts"

const here = import.meta.dirname

/**
 * Scenarios that the requirements run and do not score, with their checks. A failed task is a failed tool, never an error of JSON-RPC, so
 * `protocol_error_job` of tasks-lifecycle fails. Not here are tasks-mrtr-composition, because a tool asks only once it has a task,
 * tasks-required-task-error, because no tool requires the extension, and tasks-status-notifications, which checks nothing.
 */
const unscored = [
  "✗ tasks-lifecycle: 8 passed, 1 failed",
  "✓ tasks-capability-negotiation: 5 passed, 0 failed",
  "✓ tasks-wire-fields: 4 passed, 0 failed",
  "✓ tasks-request-state-removal: 3 passed, 0 failed",
  "✓ tasks-mrtr-input: 4 passed, 0 failed",
  "✓ tasks-request-headers: 5 passed, 0 failed",
  "✓ tasks-dispatch-and-envelope: 9 passed, 0 failed",
  "✓ http-header-validation: 14 passed, 0 failed"
]

/** Does what the tool of the prompt does. */
const work = async (run: StartedRun) => {
  const { filename, name, seconds } = JSON.parse(run.input[0]?.text ?? "{}")
  await report(run, { type: "processing" })
  if (run.resume !== null) return complete(run)
  const ask = (count: number) =>
    report(run, {
      type: "interrupted",
      tool_calls: Array.from({ length: count }, (_, index) => ({ id: `c${index}`, name, arguments: { filename } }))
    })
  if (name === "confirm_delete") return ask(1)
  if (name === "multi_input") return ask(2)
  await delay((seconds ?? 1) * 1000, undefined, { ref: false })
  return name === "slow_compute"
    ? complete(run)
    : report(run, { type: "failed", code: "internal", message: "It failed." })
}

const core = await new ScriptedCore().listen()
core.onStart = (run) => {
  void delay(0).then(() => work(run))
  return 202
}
const token = await mint("kit")
/** The kit has no token. */
const proxy = await new LoopbackServer().listen()
const address = proxy.url.replace("127.0.0.1", "localhost")
const settings = { CORE_URL: core.url, MAX_ACTIVE_TASKS: "100", CORS_ORIGINS: address }

await Consumers.run(settings, async (all) => {
  proxy.respond = (incoming, outgoing) => {
    const headers = { ...incoming.headers, authorization: `Bearer ${token}` }
    const forwarded = call(all.service.url + incoming.url, { method: incoming.method ?? "GET", headers }, (answer) => {
      outgoing.writeHead(answer.statusCode ?? 502, answer.headers)
      answer.pipe(outgoing)
    })
    forwarded.on("error", () => outgoing.destroy())
    outgoing.on("close", () => forwarded.destroy())
    incoming.pipe(forwarded)
  }
  const folder = all.install(path.join(here, "package.json"))
  fs.copyFileSync(path.join(here, "../apps/mcpTasks.ts"), path.join(folder, "tasks.ts"))
  assert.deepEqual(await all.use("tasks", "tasks.ts"), {
    greeted: ["immediate", "Hello, World!"],
    answered: ["task", "completed", "done"],
    failed: ["task", true, "It failed."],
    canceled: "cancelled",
    asked: [`The assistant calls confirm_delete with {"filename":"a.txt"}. What is the result?`]
  })
  console.log("ext-tasks runs, answers and cancels")
  const kit = path.join(folder, "node_modules/@modelcontextprotocol/conformance/dist/index.js")
  for (const revision of ["2025-11-25", "2026-07-28"]) {
    const given = ["server", "--url", `${address}/mcp`, "--requirements", revision, "-o", path.join(folder, revision)]
    const expected = ["--expected-failures", path.join(here, `expected-${revision}.yaml`)]
    await new Promise<void>((resolve) =>
      execFile(process.execPath, [kit, ...given, ...expected], { maxBuffer: 2 ** 28 }, (error, stdout) => {
        console.log(stdout.slice(stdout.indexOf("=== SUMMARY ===")))
        const missing = revision === "2026-07-28" ? unscored.filter((line) => !stdout.includes(line)) : []
        if (missing.length > 0) console.error("not as expected:", missing)
        if (error !== null || missing.length > 0) process.exitCode = 1
        resolve()
      })
    )
  }
}, path.join(here, "KitService.ts"))
await proxy.close()
await core.close()
