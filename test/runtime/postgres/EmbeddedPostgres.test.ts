import * as fs from "node:fs"
import { assert, describe, it } from "vitest"
import { findRunning } from "../../../src/runtime/postgres/EmbeddedPostgres.ts"
import { useDirectory } from "../../kit/suite.ts"

const directory = useDirectory()
const file = `${directory}/postmaster.pid`
/** The largest process id of Linux, which no process has. */
const noProcess = 4_194_304

const found = (contents: string, age = 0) => {
  fs.writeFileSync(file, contents)
  const now = Date.now()
  const written = (now - age) / 1000
  fs.utimesSync(file, written, written)
  const running = findRunning(directory, now)
  return { running, remains: fs.existsSync(file) }
}

describe("the lock file of the embedded Postgres", () => {
  it("is not removed while Postgres has created it and not yet written it", () => {
    assert.deepStrictEqual(found(""), { running: undefined, remains: true })
  })

  it("is removed when a crash left it empty", () => {
    assert.deepStrictEqual(found("", 60_000), { running: undefined, remains: false })
  })

  it("is removed when another program has its process id", () => {
    assert.deepStrictEqual(found(`${process.pid}\n${directory}\n1\n5432\n`), { running: undefined, remains: false })
  })

  it("is left to the next Postgres when its process is gone", () => {
    assert.deepStrictEqual(found(`${noProcess}\n${directory}\n1\n5432\n`), { running: undefined, remains: true })
  })
})
