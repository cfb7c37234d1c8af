/**
 * The service with a processing core in its own process, some of whose runs block the event loop or kill the process. A
 * process of its own, as the real one is. What a run does is its input: `spin`, `kill`, or the milliseconds until it is done.
 */
import { NodeRuntime } from "@effect/platform-node"
import { teardown } from "../../src/runtime/ErrorMessages.ts"
import { run } from "../../src/runtime/Main.ts"
import { internalToken, report, ScriptedCore, type StartedRun, turnOf } from "./ScriptedCore.ts"

const core = await new ScriptedCore().listen()

const pause = (millis: number) => new Promise((resolve) => setTimeout(resolve, millis))

const work = async (run: StartedRun, text: string): Promise<void> => {
  await report(run, { type: "processing" }, { authorization: `Bearer ${internalToken}` })
  if (text === "spin") {
    for (;;);
  }
  if (text === "kill") process.kill(process.pid, "SIGKILL")
  await pause(Number(text))
  await report(run, { type: "completed", turn: turnOf("done") })
}

const working = new Set<string>()
core.onStart = (run) => {
  if (!working.has(run.run_id)) {
    working.add(run.run_id)
    // A node that is not up yet is told a moment later.
    const tell = (): Promise<void> => work(run, run.input[0]?.text ?? "0").catch(() => pause(100).then(tell))
    void tell()
  }
  return 202
}

NodeRuntime.runMain(run({ ...process.env, CORE_URL: core.url }), { disableErrorReporting: true, teardown })
