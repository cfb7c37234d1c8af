import { spawnSync } from "node:child_process"
import * as fs from "node:fs"
import * as path from "node:path"
import { assert, describe, it } from "vitest"
import { removeDirectory, temporaryDirectory } from "../../kit/directories.ts"
import { processAssignments } from "../../kit/processEnvironment.ts"

const name = "async-task-service@.service"
const unit = fs.readFileSync(path.resolve(import.meta.dirname, "../../../src/runtime/deployment", name), "utf8")

const valueOf = (key: string) => new RegExp(`^${key}=(.*)$`, "m").exec(unit)?.[1]

const hasSystemd = spawnSync("systemd-analyze", ["--version"]).status === 0

/** Runs systemd-analyze on a unit, with an existing program in place of `/usr/bin/node`. */
const analyse = (text: string, verb: ReadonlyArray<string>) => {
  const directory = temporaryDirectory()
  fs.writeFileSync(path.join(directory, name), text.replaceAll("/usr/bin/node", process.execPath))
  const address = path.join(directory, name.replace("@", "@1"))
  const { status, stderr } = spawnSync("systemd-analyze", [...verb, address], { encoding: "utf8" })
  removeDirectory(directory)
  return { status, stderr }
}

describe("the systemd unit", () => {
  it("starts the service, drains it before a stop, and allows 20 s for SIGTERM", () => {
    assert.strictEqual(valueOf("ExecStart"), "/usr/bin/node dist/bin/Cli.js serve")
    assert.match(
      valueOf("ExecStop") ?? "",
      / dist\/bin\/Cli\.js --url "http:\/\/127\.0\.0\.1:\$\$\{INTERNAL_PORT:-\$PORT\}" nodes drain /
    )
    assert.isAtLeast(Number(valueOf("TimeoutStopSec")), 20)
    assert.strictEqual(valueOf("KillMode"), "mixed")
    assert.strictEqual(valueOf("Environment"), ["NODE_ENV=production", ...processAssignments].join(" "))
  })

  it.runIf(hasSystemd)("passes systemd-analyze verify", () => {
    assert.deepStrictEqual(analyse(unit, ["verify"]), { status: 0, stderr: "" })
    assert.include(analyse(unit.replace("KillMode", "KillMod"), ["verify"]).stderr, "KillMod")
  })

  it.runIf(hasSystemd)("passes systemd-analyze security", () => {
    const verb = ["security", "--offline=true", "--threshold=20"]
    assert.strictEqual(analyse(unit, verb).status, 0)
    assert.notStrictEqual(analyse(unit.replaceAll(/^(Protect|Restrict|System)\w+=.*$/gm, ""), verb).status, 0)
  })
})
