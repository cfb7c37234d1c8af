/** The package for cores in TypeScript, as a process, with the service. */
import { assert, it, onTestFinished } from "vitest"
import { authorCore } from "../kit/cores/authorCore.ts"
import { coreToken } from "../kit/cores/startCore.ts"
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
})

authorCore("author.ts")
