import { execFileSync, spawnSync } from "node:child_process"
import * as fs from "node:fs"
import * as path from "node:path"
import { assert, describe, it } from "vitest"
import { commands } from "../../../src/runtime/cli/Program.ts"
import { removeDirectory, temporaryDirectory } from "../../kit/directories.ts"

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
  it("says what is missing when the Node of npm does not start, as on a Debian without libatomic1", () => {
    const directory = temporaryDirectory()
    const put = (name: string, text: string) => {
      const file = path.join(directory, name)
      fs.mkdirSync(path.dirname(file), { recursive: true })
      fs.writeFileSync(file, text, { mode: 0o755 })
      return file
    }
    put(
      "package.json",
      JSON.stringify({ type: "module", engines: { node: ">=99" }, optionalDependencies: { "node-x": "1" } })
    )
    put("node_modules/node-x/package.json", "{}")
    // As the loader of libraries does.
    put("node_modules/node-x/bin/node", "#!/bin/sh\nexit 127\n")
    const { status, stderr } = spawnSync(process.execPath, [
      put("src/runtime/cli/launch.js", fs.readFileSync(launch, "utf8"))
    ], { encoding: "utf8" })
    removeDirectory(directory)
    assert.strictEqual(status, 127)
    assert.include(stderr, "apt-get install libatomic1")
  })
})
