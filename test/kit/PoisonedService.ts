/**
 * The service as a separate process with a processing core inside it, some of whose runs block the event loop or kill the
 * process. The input selects what a run does: `spin`, `kill`, or the milliseconds until it completes.
 */
import { NodeRuntime } from "@effect/platform-node"
import { teardown } from "../../src/runtime/ErrorMessages.ts"
import { run } from "../../src/runtime/Main.ts"
import { pause } from "./pause.ts"
import { complete, report, ScriptedCore, type StartedRun } from "./ScriptedCore.ts"

const core = await new ScriptedCore().listen()

const work = async (run: StartedRun, text: string): Promise<void> => {
  await report(run, { type: "processing" })
  if (text === "spin") {
    for (;;);
  }
  if (text === "kill") process.kill(process.pid, "SIGKILL")
  await pause(Number(text))
  await complete(run)
}

const working = new Set<string>()
core.onStart = (run) => {
  if (!working.has(run.run_id)) {
    working.add(run.run_id)
    // Retries while the node is not up yet.
    const attempt = (): Promise<void> => work(run, run.input[0]?.text ?? "0").catch(() => pause(100).then(attempt))
    void attempt()
  }
  return 202
}

NodeRuntime.runMain(run({ ...process.env, CORE_URL: core.url }), { disableErrorReporting: true, teardown })
