/** The package for cores in TypeScript, as a process, with the service. */
import { spawnSync } from "node:child_process"
import * as path from "node:path"
import { assert, it, onTestFinished } from "vitest"
import { conformance } from "../kit/conformance.ts"
import { authorCore } from "../kit/cores/authorCore.ts"
import { coreToken, startCore } from "../kit/cores/startCore.ts"
import { openDatabase } from "../kit/databases.ts"
import { internalToken, Service } from "../kit/Service.ts"
import { use, useDirectory } from "../kit/suite.ts"

it("the service prints the settings that its core needs, in development", async () => {
  const database = await use(openDatabase(), onTestFinished)
  const settings = {
    DATABASE_URL: database.url,
    CORE_URL: "http://127.0.0.1:9",
    DATA_DIR: useDirectory(onTestFinished)
  }
  const own = await use(Service.start({ ...settings, INTERNAL_TOKENS: "" }), onTestFinished)
  assert.match(
    await own.logged(/CORE_EVENT_TOKENS=/),
    /Core +http:\/\/127.0.0.1:9, .*\n +CORE_TOKEN=\S{44}\n +CORE_EVENT_TOKENS=\S{44}\n/
  )
  const given = await use(Service.start({ ...settings, CORE_TOKEN: coreToken }), onTestFinished)
  const output = await given.logged(/CORE_EVENT_TOKENS=/)
  assert.notInclude(output, coreToken)
  assert.notInclude(output, internalToken)
  assert.match(output, /CORE_TOKEN=… \(as set here\)\n +CORE_EVENT_TOKENS=… \(one of INTERNAL_TOKENS here\)\n/)
  const events = { ...settings, CORE_EVENT_TOKENS: "a token for events, of the tests" }
  const apart = await use(Service.start(events), onTestFinished)
  assert.match(await apart.logged(/CORE_EVENT_TOKENS=/), /CORE_EVENT_TOKENS=… \(as set here\)\n/)
})

/** Other runtimes of the package, where they are installed. */
for (const command of [["bun", "run"], ["deno", "run", "--allow-all", "--no-check"]] as const) {
  const isInstalled = spawnSync(command[0], ["--version"]).status === 0
  it.skipIf(!isInstalled)(`a core of author.ts conforms with ${command[0]}`, async () => {
    const file = path.resolve(import.meta.dirname, "../kit/cores/author.ts")
    const { child, exited, url } = await startCore(file, {}, onTestFinished, command)
    const cases = await conformance(url, coreToken)
    assert.deepStrictEqual(cases.filter(({ outcome }) => outcome !== "passed"), [])
    child.kill("SIGTERM")
    assert.deepStrictEqual(await exited, [0, null])
  }, 60_000)
}

authorCore("author.ts")
