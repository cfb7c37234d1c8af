/** What a core made with a client's package does, as a process with the service. */
import { spawn } from "node:child_process"
import { once } from "node:events"
import * as fs from "node:fs"
import * as path from "node:path"
import { text } from "node:stream/consumers"
import { assert, describe, it, onTestFinished } from "vitest"
import { conformance } from "../conformance.ts"
import { openDatabase } from "../databases.ts"
import { EventReceiver } from "../EventReceiver.ts"
import { LiveReader } from "../LiveReader.ts"
import { hasPython, python } from "../python.ts"
import { eventually, mint, Service } from "../Service.ts"
import { use, useDirectory } from "../suite.ts"
import { coreToken, pythonClient, startCore } from "./startCore.ts"

const startService = async (
  coreUrl: string,
  variables: Readonly<Record<string, string>> = {},
  after: typeof onTestFinished = onTestFinished
) => {
  const database = await use(openDatabase(), after)
  const settings = { DATABASE_URL: database.url, CORE_URL: coreUrl, CORE_TOKEN: coreToken, ...variables }
  return use(Service.start(settings), after)
}

const journalOf = (file: string) => fs.existsSync(file) ? fs.readFileSync(file, "utf8").trimEnd().split("\n") : []

const tool = { type: "function", name: "look", parameters: { type: "object" } }

/** `name` is a file of this folder. */
export const authorCore = (name: string) => {
  const file = path.join(import.meta.dirname, name)
  describe.skipIf(file.endsWith(".py") && !hasPython)(`a core of ${name}`, () => {
    it("completes tasks, also after tool results, and fails one with the words of its author", async () => {
      const service = await startService((await startCore(file)).url)
      const token = await mint("author")
      const plain = await service.create(token, "hello")
      const { body } = await service.until(token, plain.body.uuid, "completed")
      assert.strictEqual(body.turn.output[0].text, "hello")
      assert.deepStrictEqual(body.turn.messages, [
        { role: "user", content: [{ type: "text", text: "hello" }] },
        { role: "assistant", content: "hello" }
      ])
      const { body: { uuid } } = await service.create(token, "question", { client_tools: [tool] })
      await service.until(token, uuid, "interrupted")
      const results = [{ tool_call_id: "call_1", output: { found: 7 } }]
      const answered = await service.call("POST", `/api/tasks/${uuid}/tool-results`, token, { results })
      assert.strictEqual(answered.status, 200)
      const resumed = await service.until(token, uuid, "completed")
      assert.strictEqual(resumed.body.turn.output[0].text, "[{\"found\":7}] {\"asked\":\"question\"}")
      const refused = await service.create(token, "refuse")
      assert.strictEqual((await service.until(token, refused.body.uuid, "failed")).body.error, "Not that")
    })

    it("shows what it writes while it goes on, reads files, and ends with the task's time", async () => {
      const journal = path.join(useDirectory(onTestFinished), "journal")
      const service = await startService((await startCore(file, { JOURNAL: journal })).url)
      const token = await mint("author")
      const words = await service.create(token, "words 30")
      const partial = await eventually(
        async () => (await service.call("GET", `/api/tasks/${words.body.uuid}`, token)).body,
        ({ status, turn }) => status !== "processing" && status !== "pending" || turn !== null
      )
      assert.strictEqual(partial.status, "processing")
      assert.match(partial.turn.output[0].text, /^abc/)
      const whole = await service.until(token, words.body.uuid, "completed")
      assert.strictEqual(whole.body.turn.output[0].text, "abcdefghij".repeat(30))

      const form = new FormData()
      form.append("file", new Blob(["content of the file"], { type: "text/plain" }), "notes.txt")
      const uploaded = await fetch(`${service.url}/api/files`, {
        method: "POST",
        headers: { authorization: `Bearer ${token}` },
        body: form
      })
      const { body: { uuid } } = await service.call("POST", "/api/tasks", token, {
        assistant_id: 1,
        input: [{ type: "text", text: "file" }, await uploaded.json()]
      })
      const read = await service.until(token, uuid, "completed")
      assert.strictEqual(read.body.turn.output[0].text, "content of the file")

      const late = await service.create(token, "sleep 60000", { max_execution_time: 1 })
      const ended = await service.until(token, late.body.uuid, "failed")
      assert.strictEqual(ended.body.error, "Task exceeded maximum execution time (1s)")
      await eventually(() => Promise.resolve(journalOf(journal).at(-1)), (line) => /^end \S+ \S+/.test(line ?? ""))
    })

    it("is read live, character by character, in the order of its writing", async () => {
      const service = await startService((await startCore(file)).url)
      const token = await mint("author")
      const { body: { uuid } } = await service.create(token, "words 30")
      const reader = await use(LiveReader.open(service.url, token, uuid), onTestFinished)
      await service.until(token, uuid, "completed", 30_000)
      await eventually(() => Promise.resolve(reader.text), (read) => read === "abcdefghij".repeat(30))
      assert.strictEqual(reader.replaced, 0)
      // Whole turns alone would come once a second: about four in this time.
      assert.isAtLeast(reader.events.filter(({ event }) => event === "text").length, 10)
    }, 60_000)

    // These wait: each alone takes as long as all three.
    it.concurrent("conforms to the protocol", async ({ onTestFinished }) => {
      const { url } = await startCore(file, {}, onTestFinished)
      const cases = await conformance(url, coreToken)
      assert.isAtLeast(cases.length, 10)
      assert.deepStrictEqual(cases.filter(({ outcome }) => outcome !== "passed"), [])
    }, 60_000)

    it.concurrent(
      "loses nothing when it is killed: its runs begin again in the next process",
      async ({ onTestFinished }) => {
        const journal = path.join(useDirectory(onTestFinished), "journal")
        const variables = { JOURNAL: journal, RUNS: "8", SILENCE: "10" }
        const first = await startCore(file, variables, onTestFinished)
        const service = await startService(first.url, {}, onTestFinished)
        const token = await mint("author")
        const created = await Promise.all(Array.from({ length: 5 }, () => service.create(token, "sleep 4000")))
        await eventually(
          () => Promise.resolve(journalOf(journal).filter((line) => line.startsWith("begin"))),
          ({ length }) => length === 5
        )
        first.child.kill("SIGKILL")
        await first.exited
        await startCore(file, { ...variables, PORT: first.port }, onTestFinished)
        for (const { body } of created) {
          const task = await service.until(token, body.uuid, "completed", 50_000)
          assert.strictEqual(task.body.turn.output[0].text, "slept")
        }
        const begun = journalOf(journal).filter((line) => line.startsWith("begin"))
        assert.lengthOf(begun, 10)
        assert.lengthOf(new Set(begun), 5)
      },
      90_000
    )

    it.concurrent(
      "ends 100 tasks at once with room for 4, which it never exceeds, also when it is killed in the middle",
      async ({ onTestFinished }) => {
        const journal = path.join(useDirectory(onTestFinished), "journal")
        const variables = { JOURNAL: journal, RUNS: "4", SILENCE: "10" }
        const first = await startCore(file, variables, onTestFinished)
        // Later tasks wait for longer than that: a wait is no failure. The next process starts within it.
        const settings = { ACCEPTANCE_TIMEOUT: "15 seconds", MAX_ACTIVE_TASKS: "50", ASSISTANT_BACKEND_URL: "none" }
        const service = await startService(first.url, settings, onTestFinished)
        const tokens = await Promise.all([1, 2].map((number) => mint(`user-${number}`)))
        const created = await Promise.all(
          tokens.flatMap((token) =>
            Array.from(
              { length: 50 },
              async () => ({ token, uuid: (await service.create(token, "sleep 200")).body.uuid })
            )
          )
        )
        const ends = () => journalOf(journal).filter((line) => line.startsWith("end")).length
        await eventually(() => Promise.resolve(ends()), (count) => count >= 30, 60_000)
        first.child.kill("SIGKILL")
        await first.exited
        const lost = new Set(journalOf(journal).map((line) => line.split(" ")[1]))
        for (const line of journalOf(journal)) if (line.startsWith("end")) lost.delete(line.split(" ")[1])
        fs.appendFileSync(journal, "killed\n")
        await startCore(file, { ...variables, PORT: first.port }, onTestFinished)
        const hasEnded = ({ body }: { readonly body: { readonly status: string } }) =>
          ["completed", "failed"].includes(body.status)
        const failed: Array<string> = []
        for (const { token, uuid } of created) {
          const { body } = await eventually(() => service.get(token, uuid), hasEnded, 90_000)
          if (body.status === "failed") failed.push(body.error)
        }
        // A core that dies between its answer and its first event has not accepted the run.
        for (const error of failed) assert.match(error, /was not accepted/)
        assert.isAtMost(failed.length, 4)
        const running = new Set<string>()
        let most = 0
        for (const line of journalOf(journal)) {
          const [kind = "", id = ""] = line.split(" ")
          if (kind === "killed") running.clear()
          else if (kind === "begin") running.add(id)
          else running.delete(id)
          most = Math.max(most, running.size)
        }
        assert.strictEqual(most, 4)
        const begun = journalOf(journal).filter((line) => line.startsWith("begin"))
        assert.isAtLeast(new Set(begun).size, 100 - failed.length)
        assert.isAtMost(lost.size, 4)
        assert.isAtLeast(begun.length, 100 - failed.length + lost.size)
        // So do those that had ended, but whose last event the kill has lost.
        assert.isAtMost(begun.length, 100 + 4 + 4)
      },
      180_000
    )

    it("drains when it is told to end: runs in progress end, new ones are refused", async () => {
      const service = await use(new EventReceiver().listen(), onTestFinished)
      const core = await startCore(file, { CORE_EVENT_TOKENS: service.eventToken })
      const post = (body: object) =>
        fetch(`${core.url}/runs`, {
          method: "POST",
          headers: { authorization: `Bearer ${coreToken}`, "content-type": "application/json" },
          body: JSON.stringify(body)
        })
      const run = service.run({ input: [{ type: "text", text: "sleep 2000" }] })
      assert.strictEqual((await post(run)).status, 202)
      await service.until(run.run_id, "processing")
      core.child.kill("SIGTERM")
      await eventually(
        async () => (await (await fetch(`${core.url}/healthz`)).json()).status,
        (is) => is === "draining"
      )
      const refused = await post(service.run())
      assert.strictEqual(refused.status, 429)
      assert.match(refused.headers.get("retry-after") ?? "", /^\d+$/)
      const [code] = await core.exited
      assert.strictEqual(code, 0)
      assert.strictEqual((await service.until(run.run_id, "completed"))["turn"].output[0].text, "slept")
    })

    it("prints tokens for the service when it has none, but not in production", async () => {
      const { output, url } = await startCore(file, { CORE_TOKEN: "", CORE_EVENT_TOKENS: "" })
      assert.match(output(), new RegExp(`CORE_URL=${url} CORE_TOKEN=\\w{32} CORE_EVENT_TOKENS=\\w{32}$`, "m"))
      assert.notInclude((await startCore(file)).output(), coreToken)
      const production = spawn(
        file.endsWith(".py") ? python : process.execPath,
        [file],
        {
          env: { PATH: process.env["PATH"], PYTHONPATH: pythonClient, NODE_ENV: "production", PORT: "0" },
          stdio: ["ignore", "pipe", "pipe"]
        }
      )
      const [errors, [code]] = await Promise.all([text(production.stderr), once(production, "exit")])
      assert.include(errors, "CORE_TOKEN is not set")
      assert.strictEqual(code, 1)
    })
  })
}
