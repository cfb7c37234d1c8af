/** The example cores run tasks of the service. */
import { spawn } from "node:child_process"
import { once } from "node:events"
import * as fs from "node:fs"
import * as path from "node:path"
import { text } from "node:stream/consumers"
import { assert, describe, it, onTestFinished } from "vitest"
import { openDatabase } from "../kit/databases.ts"
import { hasPython, python } from "../kit/python.ts"
import { eventually, freePort, internalToken, mint, Service } from "../kit/Service.ts"
import { use, useDirectory } from "../kit/suite.ts"

const examples = path.resolve(import.meta.dirname, "../examples")
const coreToken = "token-of-the-core"

const startCore = async (command: string, file: string, room = "100") => {
  const port = await freePort()
  const own = { CORE_PORT: String(port), CORE_TOKEN: coreToken, CORE_EVENT_TOKEN: internalToken, CORE_ROOM: room }
  const child = spawn(command, [file], {
    env: { PATH: process.env["PATH"], ...own },
    stdio: ["ignore", "pipe", "inherit"]
  })
  onTestFinished(() => void child.kill("SIGKILL"))
  await once(child.stdout, "data")
  return `http://127.0.0.1:${port}`
}

const cores = { "core.ts": process.execPath, "core.py": python }

describe("an example core", () => {
  for (const [name, command] of Object.entries(cores)) {
    it.skipIf(command === python && !hasPython)(`${name} completes a task, also after tool results`, async () => {
      const file = path.join(examples, name)
      assert.isAtMost(fs.readFileSync(file, "utf8").trimEnd().split("\n").length, 84)
      const database = await use(openDatabase(), onTestFinished)
      const url = await startCore(command, file)
      const service = await use(
        Service.start({ DATABASE_URL: database.url, CORE_URL: url, CORE_TOKEN: coreToken }),
        onTestFinished
      )
      const token = await mint("author")
      const plain = await service.create(token, "hello")
      const { body } = await service.until(token, plain.body.uuid, "completed")
      assert.strictEqual(body.turn.output[0].text, "hello")
      const called = await service.create(token, "hello", {
        client_tools: [{ type: "function", name: "look", parameters: { type: "object" } }]
      })
      const uuid = called.body.uuid
      await service.until(token, uuid, "interrupted")
      const results = [{ tool_call_id: "call_1", output: 7 }]
      assert.strictEqual(
        (await service.call("POST", `/api/tasks/${uuid}/tool-results`, token, { results })).status,
        200
      )
      assert.include((await service.until(token, uuid, "completed")).body.turn.output[0].text, "7")
      const metrics = await service.call("GET", "/internal/metrics", internalToken)
      assert.match(metrics.body, /^core_silence_seconds 60$/m)
    })
  }

  it("conforms to the protocol with and without room, as the kit finds, and broken or absent ones do not", async () => {
    const source = fs.readFileSync(path.join(examples, "core.ts"), "utf8")
    const directory = useDirectory(onTestFinished)
    const broken = (name: string, part: string, replacement: string) => {
      assert.include(source, part)
      const file = path.join(directory, name)
      fs.writeFileSync(file, source.replace(part, replacement))
      return file
    }
    const conformance = async (coreUrl: string) => {
      const tokens = ["--core-token", coreToken, "--event-token", internalToken]
      const args = ["src/runtime/cli/Cli.ts", "conformance", "core", "--url", coreUrl, ...tokens, "--json"]
      const child = spawn(process.execPath, [...args, "--tools-assistant", "1"], {
        stdio: ["ignore", "pipe", "inherit"]
      })
      const { cases } = JSON.parse(await text(child.stdout))
      return cases.filter(({ outcome }: { outcome: string }) => outcome !== "passed")
    }
    const deaf = broken("deaf.ts", "known?.abort(), ", "")
    const refusal = "return void response.writeHead(429"
    const greedy = broken("greedy.ts", refusal, `void work(body, new AbortController().signal)\n    ${refusal}`)
    const vague = broken("vague.ts", `"retry-after": "1"`, `"retry-after": "soon"`)
    const urls = await Promise.all([
      startCore(process.execPath, path.join(examples, "core.ts")),
      startCore(process.execPath, path.join(examples, "core.ts"), "1"),
      startCore(process.execPath, deaf),
      startCore(process.execPath, greedy, "1"),
      startCore(process.execPath, vague, "1")
    ])
    const [good, small, unstoppable, taking, unclear, absent] = await Promise.all(
      [...urls, "http://127.0.0.1:1"].map(conformance)
    )
    assert.deepStrictEqual(good, [])
    assert.deepStrictEqual(small, [])
    const messagesOf = (cases: ReadonlyArray<{ message: string }>) => cases.map(({ message }) => message)
    assert.deepStrictEqual(messagesOf(unstoppable), ["events go on after a stop"])
    assert.include(messagesOf(taking), "a run that the core had no room for has an event")
    assert.include(
      messagesOf(unclear),
      "Retry-After is \"soon\": it must be a number of seconds or an HTTP date"
    )
    assert.lengthOf(absent, 11)
    assert.match(absent[0].message, /^POST \/runs: /)
  }, 60_000)

  it("is known to the reference with the calls that it serves", async () => {
    const database = await use(openDatabase(), onTestFinished)
    const service = await use(Service.start({ DATABASE_URL: database.url }), onTestFinished)
    const { body } = await eventually(
      () => service.call("GET", "/internal/openapi.json", ""),
      ({ status }) => status === 200
    )
    const { startRun, stopRun } = body.webhooks
    const { examples, schema } = startRun.post.requestBody.content["application/json"]
    assert.includeMembers(schema.required, Object.keys(examples.first.value))
    assert.isObject(examples.resumed.value.resume)
    assert.isDefined(stopRun.post.requestBody.content["application/json"].schema.properties.reason)
  })
})
