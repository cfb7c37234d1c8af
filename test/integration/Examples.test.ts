import { execFile } from "node:child_process"
import * as fs from "node:fs"
import * as path from "node:path"
import { promisify } from "node:util"
import { afterAll, assert, describe, it } from "vitest"
import { freePort, internalToken, mint, Service } from "../kit/Service.ts"
import { use, useDirectory } from "../kit/suite.ts"
import { startSystem } from "../kit/System.ts"
import { TokenIssuer } from "../kit/TokenIssuer.ts"

const examples = path.resolve(import.meta.dirname, "../examples")

/** Lines that each program has to print, in this order. */
const expected: Readonly<Record<string, ReadonlyArray<RegExp>>> = {
  "poll.ts": [/^completed .*42/],
  "webhook.ts": [/^verified: \S+ completed$/],
  "tools.ts": [/^call: weather \{/, /^completed$/],
  "upload.ts": [/^sent \d+ of \d+ bytes$/, /^completed .*Tuesday/, /^downloaded: The meeting is on Tuesday\.$/],
  "effect.ts": [/^event: processing$/, /^event: completed$/, /^completed$/, /^refused: metadata\.a$/],
  "rpc.ts": [/^event: processing$/, /^event: completed$/, /^refused: The task is completed, not interrupted\.$/],
  "clock.ts": [/^✔ a task fails after 24 hours/, /^✔ a webhook is sent again/, /^✔ tool results/, /^ℹ fail 0$/],
  "virtualTime.ts": [/^an hour and ten minutes passed$/],
  "curl.sh": [/^asked: completed$/, /^called: interrupted$/, /^answered: completed$/, /^completed: \d+$/],
  "recipes/approval.ts": [/^waits: approve$/, /^then: completed$/],
  "schedules/nightly.ts": [/^next: \d+ nights, at two in Oslo: 0[01]:00$/, /^tried: completed$/, /^runs: \d$/],
  "recipes/batch.ts": [/^answers: 12 .*order 12/, /^completed: 12$/],
  "recipes/chat.ts": [/^assistant: .*42/, /^assistant: .*goodbye/, /^messages: 4$/],
  "recipes/limit.ts": [/^the customer may have 200 active tasks$/, /^all others have 5$/],
  "recipes/stop.ts": [/^processing$/, /^canceled$/, /^now: canceled The user pressed stop$/, /^again: .*canceled/],
  "recipes/again.ts": [/^failed Task processing failed$/, /^completed .*42/, /^tasks of the order: 2$/]
}

const issuer = await use(new TokenIssuer().listen())
const settings = { CORE_URL: "", DATA_DIR: useDirectory(), TOKEN_URL: issuer.url, WEBHOOK_ALLOW_PRIVATE: "true" }
const { service } = await use(startSystem(settings))
const port = await freePort()
const clock = await Service.start({}, port, ["src/runtime/cli/Cli.ts", "serve", "--test-clock", "--port", String(port)])
afterAll(async () => {
  await clock.stop()
  assert.strictEqual(clock.process.exitCode, 0)
})

describe("test/examples", () => {
  it("has an expectation for every program", () => {
    assert.sameMembers(
      fs.globSync("{*,recipes/*,schedules/nightly}.{ts,sh,py}", { cwd: examples }).filter((name) =>
        !name.startsWith("core.")
      ),
      Object.keys(expected)
    )
  })

  for (const [name, lines] of Object.entries(expected)) {
    it(`runs ${name}`, async () => {
      const file = path.join(examples, name)
      assert.isAtMost(fs.readFileSync(file, "utf8").trimEnd().split("\n").length, 60)
      const sub = `example-${path.basename(name)}`
      const run = promisify(execFile)(name.endsWith(".sh") ? "sh" : process.execPath, [file], {
        timeout: 45_000,
        env: {
          PATH: process.env["PATH"],
          TASK_SERVICE_URL: service.url,
          TEST_CLOCK_URL: clock.url,
          TASK_SERVICE_TOKEN: await mint(sub),
          TASK_SERVICE_USER: sub,
          INTERNAL_TOKEN: internalToken
        }
      })
      const printed = (await run).stdout.trimEnd().split("\n")
      let from = 0
      for (const line of lines) {
        const at = printed.findIndex((text, index) => index >= from && line.test(text))
        assert.isAtLeast(at, 0, `${line} in:\n${printed.join("\n")}`)
        from = at + 1
      }
    })
  }
})

describe("the curl of the RPC reference", () => {
  it.each([
    [
      "Tasks.list",
      `{"sub":"developer"}`,
      /^\{"_tag":"Exit","requestId":"1","exit":\{"_tag":"Success","value":\{"data":\[/
    ],
    [
      "Tasks.get",
      `{"sub":"developer","uuid":"none"}`,
      /"exit":\{"_tag":"Failure","cause":\[\{"_tag":"Fail","error":\{[^}]*"_tag":"TaskNotFound"/
    ]
  ])("calls %s", async (tag, payload, response) => {
    const page = fs.readFileSync(path.resolve(import.meta.dirname, "../../src/http/README.md"), "utf8")
    const [, script = ""] = /^```sh\n(curl [^`]*\/rpc [^`]*)```/m.exec(page) ?? []
    const command = script.replace("localhost:3000", service.url).replace("$(cat .data/internal-token)", internalToken)
      .replace("Tasks.list", tag).replace(`{"sub":"developer"}`, payload)
    const { stdout } = await promisify(execFile)("sh", ["-c", command])
    assert.match(stdout, response)
  })
})
