/** The example cores run tasks of the service. */
import { execFileSync, spawn } from "node:child_process"
import { once } from "node:events"
import * as fs from "node:fs"
import * as path from "node:path"
import { text } from "node:stream/consumers"
import { assert, describe, it, onTestFinished } from "vitest"
import { openDatabase } from "../kit/databases.ts"
import { eventually, freePort, internalToken, mint, Service } from "../kit/Service.ts"
import { use, useDirectory } from "../kit/suite.ts"

const examples = path.resolve(import.meta.dirname, "../examples")
const coreToken = "token-of-the-core"

const hasPython = () => {
  try {
    execFileSync("python3", ["--version"])
    return true
  } catch {
    return false
  }
}

const startCore = async (command: string, file: string) => {
  const port = await freePort()
  const child = spawn(command, [file], {
    env: { PATH: process.env["PATH"], CORE_PORT: String(port), CORE_TOKEN: coreToken, CORE_EVENT_TOKEN: internalToken },
    stdio: ["ignore", "pipe", "inherit"]
  })
  onTestFinished(() => void child.kill("SIGKILL"))
  await once(child.stdout, "data")
  return `http://127.0.0.1:${port}`
}

const cores = { "core.ts": process.execPath, "core.py": "python3" }

describe("an example core", () => {
  for (const [name, command] of Object.entries(cores)) {
    it.skipIf(command === "python3" && !hasPython())(`${name} completes a task, also after tool results`, async () => {
      const file = path.join(examples, name)
      assert.isAtMost(fs.readFileSync(file, "utf8").trimEnd().split("\n").length, 72)
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

  it("conforms to the protocol, as the kit finds, and one that ignores stops or is absent does not", async () => {
    const url = await startCore(process.execPath, path.join(examples, "core.ts"))
    const conformance = async (coreUrl: string) => {
      const tokens = ["--core-token", coreToken, "--event-token", internalToken]
      const args = ["src/runtime/cli/Cli.ts", "conformance", "core", "--url", coreUrl, ...tokens, "--json"]
      const child = spawn(process.execPath, [...args, "--tools-assistant", "1"], {
        stdio: ["ignore", "pipe", "inherit"]
      })
      const { cases } = JSON.parse(await text(child.stdout))
      return cases.filter(({ outcome }: { outcome: string }) => outcome !== "passed")
    }
    const deaf = path.join(useDirectory(onTestFinished), "core.ts")
    fs.writeFileSync(deaf, fs.readFileSync(path.join(examples, "core.ts"), "utf8").replace("known?.abort(), ", ""))
    const urls = [url, await startCore(process.execPath, deaf), "http://127.0.0.1:1"]
    const [good, unstoppable, absent] = await Promise.all(urls.map(conformance))
    assert.deepStrictEqual(good, [])
    assert.deepStrictEqual(unstoppable.map(({ message }: { message: string }) => message), [
      "events go on after a stop"
    ])
    assert.lengthOf(absent, 10)
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
