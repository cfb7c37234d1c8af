/** What accepts a run, and what a core may answer before, over real sockets. */
import { assert, describe, it } from "vitest"
import { report, type StartedRun } from "../kit/ScriptedCore.ts"
import { mint } from "../kit/Service.ts"
import { use } from "../kit/suite.ts"
import { startSystem } from "../kit/System.ts"

const system = await use(startSystem({ ACCEPTANCE_TIMEOUT: "6 seconds", MAX_ACTIVE_TASKS: "100" }))
const { core, service } = system
const user = await mint("ann")

/** What the core does with the run of a task, by the text of its input, at each attempt. */
const attempts = new Map<string, number>()
const headers = new Map<string, Readonly<Record<string, string>>>()
const accepting = new Set<string>()
core.onStart = async (run, response) => {
  const text = run.input[0]?.text ?? ""
  const attempt = (attempts.get(text) ?? 0) + 1
  attempts.set(text, attempt)
  if (attempt === 1 && headers.has(text)) {
    for (const [name, value] of Object.entries(headers.get(text)!)) response.setHeader(name, value)
    return Number(text.split(" ")[0])
  }
  if (accepting.has(text)) void accept(run)
  return 202
}
const accept = (run: StartedRun) => report(run, { type: "processing" })

describe("a core that answers once with an error", () => {
  const inAnHour = new Date(Date.now() + 3_600_000).toUTCString()
  const values = ["120", "5.9", inAnHour, "0", "-5", "soon", "1e3", "12.5.2026", "99999999999999999999", ""]
  for (const status of [503, 408]) {
    for (const value of values) {
      // A core that says when there will be room has none: the run waits for it.
      if (status === 503 && !["-5", "soon", "1e3", "12.5.2026", ""].includes(value)) continue
      it.concurrent(`with ${status} and Retry-After: ${value} gets the run again before its deadline`, async () => {
        const text = `${status} ${value}`
        headers.set(text, { "retry-after": value })
        accepting.add(text)
        const { body } = await service.create(user, text)
        await service.until(user, body.uuid, "processing")
        assert.strictEqual(attempts.get(text), 2)
      })
    }
  }
})

describe("a run", () => {
  it("is accepted by its first event and not by the answer to its start, which the log says", async () => {
    const { body } = await service.create(user, "only answered")
    const failed = await service.until(user, body.uuid, "failed")
    assert.strictEqual(failed.body.error, "Task was not accepted by the processing core within 6 s")
    assert.strictEqual(attempts.get("only answered"), 1)
    await service.logged(/sent no event of it within 6s, so its task failed. Only an event accepts a run/)
  })
})
