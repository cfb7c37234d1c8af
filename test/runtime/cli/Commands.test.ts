import { execFileSync } from "node:child_process"
import * as fs from "node:fs"
import * as path from "node:path"
import { assert, describe, it } from "vitest"
import { commands } from "../../../src/runtime/cli/Program.ts"

describe("the commands", () => {
  it("have a description and an example that runs them", () => {
    for (const { description = "", examples, name } of commands) {
      assert.notStrictEqual(description, "", name)
      assert.isTrue(examples.some(({ command }) => command.includes(`async-task-service ${name}`)), name)
    }
  })
})

describe("the program of the package", () => {
  const launch = path.resolve(import.meta.dirname, "../../../src/runtime/cli/launch.js")
  const nodes = [process.execPath, process.env["OLDER_NODE"] ?? "/usr/bin/node"].filter((node) => fs.existsSync(node))

  it.each(nodes)("runs with %s, or with the Node of npm", (node) => {
    assert.match(execFileSync(node, [launch, "--version"], { encoding: "utf8" }), /^async-task-service v\d/)
  })
})
