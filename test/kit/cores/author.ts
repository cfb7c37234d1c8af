/** A core whose function does what the first text says. author.py is the same in Python. */
import * as fs from "node:fs"
import { setTimeout as pause } from "node:timers/promises"
import { Failure, type Run, serveCore } from "../../../src/http/client/Core.ts" // async-task-service-client/core

const { JOURNAL = "", RUNS = "4", SILENCE = "60" } = process.env
const note = (line: string) => JOURNAL === "" ? undefined : fs.appendFileSync(JOURNAL, `${line}\n`)

const work = async (run: Run): Promise<unknown> => {
  const [word = "", given = ""] = run.prompt.split(" ")
  if (run.resumed) return `${JSON.stringify(run.results.map(({ output }) => output))} ${JSON.stringify(run.state)}`
  const [tool] = run.clientTools
  if (tool !== undefined) return run.interrupt({ calls: [{ id: "call_1", name: tool.name }], state: { asked: word } })
  switch (word) {
    case "sleep":
      await pause(Number(given), undefined, { signal: run.signal })
      return "slept"
    case "words":
      for (const letter of "abcdefghij".repeat(Number(given))) {
        run.text(letter)
        await pause(10, undefined, { signal: run.signal })
      }
      return undefined
    case "file":
      return (await run.files.download(run.input[1] as { file: object })).text()
    case "refuse":
      throw new Failure("Not that")
    default:
      return run.prompt
  }
}

await serveCore({
  runs: Number(RUNS),
  silenceSeconds: Number(SILENCE),
  run: async (run) => {
    note(`begin ${run.runId}`)
    try {
      return await work(run)
    } finally {
      note(`end ${run.runId} ${run.signal.aborted ? run.signal.reason.reason : ""}`)
    }
  }
})
